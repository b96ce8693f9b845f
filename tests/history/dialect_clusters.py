"""Clusters with a node of each dialect, whose pods have come and gone at known times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.history.recorded import BEGAN, HOUR
from tests.whatif.test_whatif_remedies import pod
from tests.whatif.test_whatif_remedies_dialects import SIZE, cluster

from vgpu_scheduler.engine import SCHEDULER_NAME, EngineOptions
from vgpu_scheduler.kube import rfc3339
from vgpu_scheduler.whatif import World, make_dialect

Object = dict[str, Any]
DIALECTS = ("hami", "volcano", "koordinator")
WHOLE = {
    "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
    "volcano": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "100"},
    "koordinator": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
}
"""What a pod asks for that wants a card to itself."""
READ_AT = datetime.fromtimestamp(BEGAN + HOUR, UTC)


def at(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(BEGAN + seconds, UTC))


def node_of(dialect: str) -> list[Object]:
    """Return a node of one card, named like its dialect, and the pod that has the card, in the order of reading."""
    objects = cluster(dialect, [[(SIZE, 100)]])
    text = json.dumps(objects).replace("n0", dialect).replace(f'"p{len(objects) - 1}"', f'"holds-{dialect}"')
    found: list[Object] = json.loads(text)
    return found


def with_arrivals(dialect: str, scheduler: str = SCHEDULER_NAME) -> list[Object]:
    """Return a node whose card eight pods have had for a minute each, a pod has had for 30 s, and another one wants."""
    *nodes, holder = node_of(dialect)
    pods = [_dated(holder, HOUR - 30, HOUR - 30)]
    for number in range(8):
        ended = pod(f"ended-{number}", {}, nodeName=dialect)
        ended["metadata"]["annotations"] = holder["metadata"]["annotations"]
        finished = {"terminated": {"finishedAt": at(number * 120 + 60), "exitCode": 0}}
        ended["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": finished}]}
        pods.append(_dated(ended, number * 120, number * 120))
    pods.append(_dated(pod("waits", {}), HOUR - 10))
    for each in pods:
        each["metadata"]["uid"] = each["metadata"]["name"]
        resources = {"limits": WHOLE[dialect], "requests": WHOLE[dialect]}
        each["spec"] |= {"schedulerName": scheduler, "containers": [{"name": "main", "resources": resources}]}
    return [*nodes, *pods]


def _dated(obj: Object, created: float, placed: float | None = None) -> Object:
    obj["metadata"]["creationTimestamp"] = at(created)
    if placed is not None:
        obj["status"]["startTime"] = at(placed)
    return obj


def world_of(*dialects: str, objects: list[Object]) -> World:
    world = World(EngineOptions([make_dialect(name) for name in dialects], scheduler_names=[SCHEDULER_NAME]))
    world.add(objects)
    assert world.problems == []
    return world

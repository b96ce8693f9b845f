"""Snapshots of clusters in which pods have come and gone at known times."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.history.recorded import BEGAN, HOUR
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, pod

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import rfc3339

NOW = datetime.fromtimestamp(BEGAN + HOUR, UTC)
WHOLE = {GPU: 1, MEMORY: 16384, CORES: 0}


def at(seconds: float) -> str:
    """Return the time so many seconds ago."""
    return rfc3339(NOW - timedelta(seconds=seconds))


def dated(obj: dict[str, Any], created: float, placed: float | None = None) -> dict[str, Any]:
    """Return a pod that was made and placed some seconds ago."""
    obj["metadata"] |= {"creationTimestamp": at(created), "uid": f"uid-{obj['metadata']['name']}"}
    obj["spec"]["schedulerName"] = SCHEDULER_NAME
    if placed is not None:
        obj.setdefault("status", {})["startTime"] = at(placed)
    return obj


def ended(name: str, placed: float, seconds: float) -> dict[str, Any]:
    """Return a pod that ran so long."""
    obj = dated(pod(name, WHOLE), placed, placed)
    obj["spec"]["nodeName"] = "a"
    finished = {"terminated": {"finishedAt": at(placed - seconds), "exitCode": 0}}
    obj["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": finished}]}
    return obj


def listed(objects: Iterable[dict[str, Any]]) -> str:
    """Return a snapshot with objects, as it is written."""
    annotations = {"vgpu-scheduler.io/read-at": NOW.isoformat()}
    content = {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}, "items": [*objects]}
    return json.dumps(content)

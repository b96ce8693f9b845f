"""A tenant of a live cluster, told of a pod whose condition and event are those that the scheduler writes."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from tests.cli.live_cluster import KINDS, Api, run

from vgpu_scheduler.engine import event_note
from vgpu_scheduler.reading import ClusterOptions, make_world, read_cluster
from vgpu_scheduler.whatif import ask

Object = dict[str, Any]

ASKED = re.compile(
    r"ask (?P<amount>\d+) of (?P<resource>\S+) (?:instead of \S+ |\([^)]*\) |, [^,]*, )?in container (?P<where>\w+)"
)
RAISED = re.compile(r"(?P<resource>limits\.\S+) raised to (?P<amount>\d+) ")
NAMESPACE = "team"


def decided(api: Api, name: str) -> str:
    """Return where a pod of the namespace goes; where it goes nowhere, write that into its condition and an event."""
    api.refused = api.refused_everywhere = frozenset()
    world = make_world(read_cluster(ClusterOptions(None, None, "vgpu-system", None)))
    pod = next(each for each in world.pending.values() if (each.namespace, each.name) == (NAMESPACE, name))
    decision = ask(world, pod).decision
    if decision.placement is not None:
        return decision.placement.node
    written = next(each for each in api.objects if each["kind"] == "Pod" and each["metadata"]["name"] == name)
    uid, message = written["metadata"]["uid"], decision.message
    condition = {"type": "PodScheduled", "status": "False", "reason": decision.condition_reason, "message": message}
    written["status"] = {"phase": "Pending", "conditions": [condition]}
    event = {
        "kind": "Event",
        "metadata": {"name": f"event-{name}", "namespace": NAMESPACE},
        "involvedObject": {"uid": uid},
        "reason": "FailedScheduling",
        "message": f"{message} {event_note(world.engine, pod, decision)}",
    }
    before = [each for each in api.objects if each["metadata"]["name"] != f"event-{name}"]
    api.objects[:] = [*before, event]
    return ""


def told(api: Api, name: str, seen: frozenset[str] = frozenset()) -> list[str]:
    """Return what may help a pod of the namespace that was decided, as somebody is told who sees nothing else.

    Parameters
    ----------
    seen
        Kinds that may be listed in the whole cluster nevertheless.
    """
    api.refused = frozenset(KINDS.values()) - seen
    result = run("explain", name, "-n", NAMESPACE, "-o", "json")
    assert result.exit_code == 1, result.stderr
    return list(json.loads(result.stdout)["remedies"])


def done(api: Api, name: str, remedy: str) -> str:
    """Return where a pod goes if what a remedy says of amounts and quotas is done."""
    before, api.objects = api.objects, copy.deepcopy(api.objects)
    for each in api.objects:
        if each["kind"] == "Pod" and each["metadata"]["name"] == name:
            limits = {one["name"]: one["resources"]["limits"] for one in each["spec"]["containers"]}
            for said in ASKED.finditer(remedy):
                limits[said["where"]][said["resource"]] = said["amount"]
        if each["kind"] == "ResourceQuota" and each["metadata"]["namespace"] == NAMESPACE:
            hard = each["spec"]["hard"]
            to = {said["resource"]: said["amount"] for said in RAISED.finditer(remedy)}
            hard |= {resource: to[resource] for resource in hard.keys() & to.keys()}
    assert api.objects != before, remedy
    where = decided(api, name)
    api.objects = before
    return where

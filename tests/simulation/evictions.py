"""What the simulated API server does with the requests of an evictor."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.kube.objects import Obj
from tests.simulation.cluster import SimPod
from tests.simulation.things import SimThing
from tests.simulation.world import REACHED

from vgpu_scheduler.intake import BUDGETS, CLUSTER_POLICIES, POLICIES
from vgpu_scheduler.kube import MANAGER

if TYPE_CHECKING:
    from tests.simulation.evictor import EvictingWorld, Request

ANOTHER_UID = "Precondition failed: UID in precondition: one, UID in object meta: another"
GRACE = 30
"""Seconds of grace that pods have."""
Answer = tuple[int, Obj]


def answer_to(world: EvictingWorld, request: Request) -> Answer:
    """Carry a request out, and return the answer."""
    if "policies/" in request.path:
        return _policy(world, request)
    name = request.path.removesuffix("/status").removesuffix("/eviction").rsplit("/", 1)[-1]
    pod = next((pod for pod in world.api.pods.values() if pod.name == name), None)
    if pod is None:
        return 404, {"message": "not found"}
    if request.path.endswith("/eviction"):
        return _evict(world, request, pod)
    if request.method == "DELETE":
        if request.body["preconditions"]["uid"] != pod.uid:
            return 409, {"message": ANOTHER_UID}
        return _end(world, request, pod)
    return (200, pod.as_object()) if request.method == "GET" else _patch(world, request, pod)


def _patch(world: EvictingWorld, request: Request, pod: SimPod) -> Answer:
    if request.body["metadata"]["uid"] != pod.uid:
        return 409, {"message": ANOTHER_UID}
    if request.body["metadata"].get("resourceVersion") not in (None, str(pod.version)):
        return 409, {"message": "another version"}
    status, changed = request.body["status"], pod
    if not request.leader.leads:
        world.nominated_late.add(pod.uid)
    if "nominatedNodeName" in status:
        nominated = status["nominatedNodeName"] or ""
        by = pod.nominated_by if nominated == pod.nominated else MANAGER  # who writes what is there changes nothing
        changed = replace(changed, nominated=nominated, nominated_by=by)
        REACHED["nominated" if changed.nominated else "nomination cleared"] += 1
    for condition in status.get("conditions", ()):
        if condition["type"] == "DisruptionTarget":
            changed = replace(changed, disruption=condition["reason"])
            REACHED["marked as a victim"] += 1
    return 200, world.api.put_pod(changed).as_object()


def _evict(world: EvictingWorld, request: Request, pod: SimPod) -> Answer:
    if request.body["deleteOptions"]["preconditions"]["uid"] != pod.uid:
        return 409, {"message": ANOTHER_UID}
    if pod.deleting or pod.terminal:
        world.note_failure(request)  # nobody ends for it
        return 201, {}
    budgets = [budget for budget in world.api.of(BUDGETS) if _selects(budget, pod)]
    if len(budgets) > 1:
        return 500, {"message": "This pod has more than one PodDisruptionBudget, which the eviction does not support."}
    for budget in budgets:
        allowed = budget.content["status"]["disruptionsAllowed"]
        if not allowed:
            return 429, {"message": "Cannot evict pod as it would violate the pod's disruption budget."}
        world.api.put(BUDGETS, {**budget.content, "status": {"disruptionsAllowed": allowed - 1}})
    return _end(world, request, replace(pod, disruption="EvictionByEvictionAPI"))


def _end(world: EvictingWorld, request: Request, pod: SimPod) -> Answer:
    world.note_eviction(request, pod.uid)
    if not pod.node:
        world.api.delete_pod(pod.uid)
    else:
        world.api.put_pod(replace(pod, deleting=True, ends_by=pod.ends_by or math.ceil(world.now) + GRACE))
    return 201, {}


def _selects(budget: SimThing, pod: SimPod) -> bool:
    wanted = budget.spec["selector"]["matchLabels"]
    return bool(wanted.items() <= pod.labels.items()) and pod.namespace == budget.content["metadata"]["namespace"]


def _policy(world: EvictingWorld, request: Request) -> Answer:
    policy = policy_of(world, request)
    if policy is None:
        return 404, {"message": "not found"}
    if request.method == "GET":
        return 200, policy.as_object()
    wanted: dict[str, Any] = request.body["metadata"]
    if (wanted["uid"], wanted["resourceVersion"]) != (policy.uid, str(policy.version)):
        world.note_conflict(policy.uid)
        return 409, {"message": "another version"}
    before = recorded(policy)
    status = {**policy.content.get("status", {}), **request.body["status"]}
    written = world.api.put(policy.kind, {**policy.content, "status": status})
    world.note_records(request, written, before)
    return 200, written.as_object()


def policy_of(world: EvictingWorld, request: Request) -> SimThing | None:
    """Return the policy that a request is about; None if it is about none, or one that is not there."""
    *parts, plural, name = request.path.removesuffix("/status").split("/")
    if not plural.endswith("policies"):
        return None
    is_namespaced = "namespaces" in parts
    return world.api.get(
        POLICIES if is_namespaced else CLUSTER_POLICIES, f"{parts[-1]}/{name}" if is_namespaced else name
    )


def recorded(policy: SimThing) -> dict[str, str]:
    """Return when a policy says that pods were evicted, by UID."""
    return {each["uid"]: each["time"] for each in policy.content.get("status", {}).get("evictions", ())}

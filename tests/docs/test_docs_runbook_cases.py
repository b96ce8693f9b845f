"""What the runbook says of pods that wait or are placed is what the engine does: a case for each such sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.docs.statements import ROOT, sections
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World, ask

RUNBOOK = sections((ROOT / "docs" / "runbook.md").read_text())
Object = dict[str, Any]
PERCENTAGE = "nvidia.com/gpumem-percentage"
POLICY = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy"}


def decided(*objects: Object, **settings: Any) -> Decision:
    """Return what becomes of the one pod that waits."""
    options: EngineOptions = engine_options(Settings(**settings))
    world = World(options)
    world.add(objects)
    (waiting,) = world.pending.values()
    return ask(world, waiting).decision


def quota(limit: str, name: str = "gpumem") -> Object:
    metadata = {"name": "q", "namespace": "default", "uid": "q"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {f"limits.nvidia.com/{name}": limit}}}


def policy(**spec: Any) -> Object:
    return {**POLICY, "metadata": {"name": "house", "uid": "house"}, "spec": spec}


def asking(limits: Object | None = None, **annotations: str) -> Object:
    given = {f"nvidia.com/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return pod("asked", limits or {GPU: 1, MEMORY: 1000}, metadata={"annotations": given})


def volcano() -> Object:
    """Return a node of one card that Volcano's plugin registers."""
    offered = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"}
    listed = {"volcano.sh/node-vgpu-register": "GPU-v,10,24576,NVIDIA-A10,true,hami-core:"}
    made = node("v", 1)
    made["metadata"]["annotations"] = listed
    made["status"]["allocatable"] |= offered
    return made


def apart(name: str, group: str = "g", on: str = "") -> Object:
    """Return a pod that shares no card with its group, waiting or running."""
    notes = {"scheduling.k8s.io/group-name": group, "volcano.sh/vgpu-podgroup-policy": "spread"}
    if on:
        notes |= {"volcano.sh/vgpu-node": on, "volcano.sh/vgpu-ids-new": "GPU-v,NVIDIA,1000,0:"}
    made = pod(name, {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1000}, metadata={"annotations": notes})
    if on:
        made["spec"]["nodeName"], made["status"] = on, {"phase": "Running"}
    return made


def quota_status(written: Object) -> str:
    """Return how the namespace of a quota stands."""
    world = World(engine_options(Settings()))
    world.add([written])
    return world.engine.quota_limits.describe("default", world.engine.state)


def waits(decision: Decision, reason: str, condition: str = "Unschedulable") -> bool:
    return decision.placement is None and reason in decision.message and decision.condition_reason.value == condition


def placed(decision: Decision) -> bool:
    return decision.placement is not None


def memory_of(decision: Decision) -> int:
    assert decision.placement is not None
    return decision.placement.containers[0][0].amounts[1]


FULL = running("held", "a", "GPU-a-0", 16000)
CASES: dict[tuple[str, str], Callable[[], bool]] = {
    ("ResourceQuotaNotFit", "The condition is `SchedulerError` if a node would fit without the quota"): lambda: waits(
        decided(node("a"), quota("10"), asking()), "ResourceQuotaNotFit", "SchedulerError"
    ),
    ("ResourceQuotaNotFit", "It is `Unschedulable` if no node would fit anyway."): lambda: waits(
        decided(node("a", 1), FULL, quota("20000"), asking({GPU: 1, MEMORY: 9000})), "", "Unschedulable"
    ),
    ("QuotaUnreadable", "It counts as 0: no pod of the namespace that would get some of it is placed"): lambda: (
        waits(decided(node("a"), quota("1500m"), asking()), "ResourceQuotaNotFit", "SchedulerError")
        and placed(decided(node("a"), quota("1500"), asking()))
        and waits(
            decided(node("a"), quota("10%", "gpucores"), asking({GPU: 1, MEMORY: 10, CORES: 1})),
            "ResourceQuotaNotFit",
            "SchedulerError",
        )
    ),
    ("QuotaUnreadable", "A limit of compute does not hold pods that name no compute."): lambda: placed(
        decided(node("a"), quota("10%", "gpucores"), asking())
    ),
    ("QuotaSuspicious", "8Gi of `limits.nvidia.com/gpumem` are 8,589,934,592 MiB"): lambda: (
        "of 8589934592 MiB of limits.nvidia.com/gpumem" in quota_status(quota("8Gi"))
    ),
    ("SuspiciousRequest", "`nvidia.com/gpumem-percentage: 0`, which is a whole card"): lambda: (
        memory_of(decided(node("a"), asking({GPU: 1, PERCENTAGE: 0}))) == 16384
    ),
    ("SuspiciousRequest", "`strict_annotations: true` refuses pods whose amounts mean something else"): lambda: (
        decided(node("a"), asking({GPU: 1, PERCENTAGE: 0}), strict_annotations=True).outcome is Outcome.REFUSED
    ),
    ("PolicyWarning", "It is read as HAMi reads it."): lambda: placed(decided(node("a"), asking(numa_bind="yes"))),
    ("PolicyWarning", "`strict_annotations: true` refuses such pods"): lambda: (
        decided(node("a"), asking(numa_bind="yes"), strict_annotations=True).outcome is Outcome.REFUSED
    ),
    ("PolicyWarning", "(`nvidia.com/vgpu-mode: mgi`) is always refused"): lambda: (
        waits(decided(node("a"), asking(vgpu_mode="mgi")), "ModeNotFit", "SchedulerError")
        or waits(decided(node("a"), asking(vgpu_mode="mgi")), "'mgi'", "SchedulerError")
    ),
    ("Invalid", "Pods to which it would apply wait."): lambda: waits(
        decided(node("a"), policy(devices={"order": "Nonsense"}), asking()), "house", "SchedulerError"
    ),
    ("UnknownCardType", "In `allow` it allows no card until there is such a model."): lambda: (
        waits(decided(node("a"), policy(devices={"types": {"allow": ["H200"]}}), asking()), "CardDeniedByPolicy")
        and placed(decided(node("a"), policy(devices={"types": {"allow": ["A100"]}}), asking()))
    ),
    ("CardCordoned", "The card was taken out of service"): lambda: waits(
        decided(node("a", 1, cordoned=(0,)), asking()), "CardCordoned"
    ),
    ("PolicyNotReady:", "the pod waits."): lambda: waits(
        decided(node("a"), policy(limits={"devicesPerPod": -1}), asking()), "PolicyNotReady: ", "SchedulerError"
    ),
    ("limits.… of … allows", "A pod that asks for no cores"): lambda: waits(
        decided(node("a"), policy(limits={"coresPerPod": 99}), asking()), "counts as 100 percent", "SchedulerError"
    ),
    ("is given without", "A container asks for memory or compute of cards, and for no card."): lambda: waits(
        decided(node("a"), asking({MEMORY: 1000})), "is given without", "SchedulerError"
    ),
    ("is more than any", "8Gi of `nvidia.com/gpumem` are 8,589,934,592 MiB."): lambda: waits(
        decided(node("a"), asking({GPU: 1, MEMORY: "8Gi"})), "is more than any", "SchedulerError"
    ),
    ("CardTypeMismatch", "it is compared with parts of the model's name."): lambda: (
        placed(decided(node("a"), asking(use_gputype="a100")))
        and waits(decided(node("a"), asking(use_gputype="H100")), "CardTypeMismatch")
        and waits(decided(node("a"), asking(nouse_gputype="A100")), "CardTypeMismatch")
    ),
    ("CardUuidMismatch", "The pod's annotations name other cards, by UUID."): lambda: (
        placed(decided(node("a"), asking(use_gpuuuid="GPU-a-0")))
        and waits(decided(node("a"), asking(use_gpuuuid="GPU-b-0")), "CardUuidMismatch")
    ),
    ("CardInsufficientMemory", "The card has less memory left than the pod asks for."): lambda: waits(
        decided(node("a", 1), FULL, asking()), "CardInsufficientMemory"
    ),
    ("CardInsufficientCore", "The card has less compute left than the pod asks for."): lambda: waits(
        decided(node("a", 1), running("held", "a", "GPU-a-0", 10, 60), asking({GPU: 1, CORES: 50, MEMORY: 10})),
        "CardInsufficientCore",
    ),
    ("CardComputeUnitsExhausted", "All compute of the card is allocated, and the pod wants some"): lambda: waits(
        decided(node("a", 1), running("held", "a", "GPU-a-0", 10, 100), asking({GPU: 1, MEMORY: 10})),
        "CardComputeUnitsExhausted",
    ),
    ("ExclusiveDeviceAllocateConflict", "The pod wants the card for itself and another pod is on it"): lambda: waits(
        decided(node("a", 1), running("held", "a", "GPU-a-0", 10), asking({GPU: 1, MEMORY: 10, CORES: 100})),
        "ExclusiveDeviceAllocateConflict",
    ),
    ("AllocatedCardsInsufficientRequest", "Some cards of the node fit, but fewer than the pod asks for."): lambda: (
        waits(decided(node("a", 2), FULL, asking({GPU: 2, MEMORY: 1000})), "AllocatedCardsInsufficientRequest")
    ),
    ("NodeInsufficientDevice", "The node has fewer cards than a container asks for."): lambda: waits(
        decided(node("a", 2), asking({GPU: 3, MEMORY: 1000})), "NodeInsufficientDevice"
    ),
    ("CardHeldByPeer", "A pod with which this pod must not share a card uses the card"): lambda: (
        waits(decided(volcano(), apart("held", on="v"), apart("asked"), dialects=["volcano"]), "CardHeldByPeer")
        and placed(decided(volcano(), apart("held", group="h", on="v"), apart("asked"), dialects=["volcano"]))
    ),
    ("node unregistered", "The node has no card of the vendor that the pod asks for"): lambda: waits(
        decided({**node("a", 0), "status": {"allocatable": {"cpu": "8", "pods": "9", GPU: "9"}}}, asking()),
        "node unregistered",
    ),
    ("node(s) were unschedulable", "The node is cordoned."): lambda: waits(
        decided(node("a", unschedulable=True), asking()), "node(s) were unschedulable"
    ),
    ("node(s) are not managed by this scheduler", "The node is outside of the setting `managed_nodes`."): lambda: waits(
        decided(node("a"), asking(), managed_nodes="pool=x"), "node(s) are not managed by this scheduler"
    ),
    ("no nodes available to schedule pods", "Nodes that `managed_nodes` leaves out do not cause this"): lambda: (
        "no nodes available" not in decided(node("a"), asking(), managed_nodes="pool=x").message
    ),
    ("no nodes available to schedule pods", "The scheduler knows no node."): lambda: waits(
        decided(policy(), asking()), "no nodes available to schedule pods"
    ),
}


@pytest.mark.parametrize(("section", "sentence"), CASES)
def test_what_is_said_of_pods_is_so(section: str, sentence: str) -> None:
    assert sentence in RUNBOOK[section]
    assert CASES[section, sentence]()


HEADINGS = [heading for heading in RUNBOOK if heading]
AMOUNTS = ("1", "0", "1.5", "1e3", "9e99", "8Gi", "500m", "100", "99999999999")


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_pod_is_refused_for_has_a_section(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.choice([GPU, MEMORY, CORES, PERCENTAGE], size=int(rng.integers(1, 5)), replace=False)
    asked = asking({str(name): str(rng.choice(AMOUNTS)) for name in names})
    if rng.random() < 0.2:
        asked["metadata"]["annotations"]["nvidia.com/vgpu-mode"] = str(rng.choice(["mgi", "none", "MIG"]))
    fields = ("devicesPerPod", "coresPerPod", "exclusiveCardsPerPod")
    limits = {field: int(rng.integers(-1, 3)) for field in fields if rng.random() < 0.3}
    decision = decided(node("a"), *([policy(limits=limits)] if limits else []), asked)
    if decision.outcome is Outcome.REFUSED:
        told = decision.message
        assert any(all(part in told for part in heading.split("…")) for heading in HEADINGS), told


SHARED, CORE, RATIO, BYTES, WHOLE = (
    f"koordinator.sh/{name}" for name in ("gpu.shared", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu")
)


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_pod_is_refused_for_in_koordinators_names_has_a_section(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.choice([SHARED, CORE, RATIO, BYTES, WHOLE, GPU], size=int(rng.integers(1, 4)), replace=False)
    amounts = ("1", "2", "3", "50", "100", "150", "200", "301", "1.5", "0")
    asked = asking({str(name): str(rng.choice(amounts)) for name in names})
    decision = decided(node("a"), asked, dialects=["koordinator"])
    if decision.outcome is Outcome.REFUSED:
        told = decision.message
        assert any(all(part in told for part in heading.split("…")) for heading in HEADINGS), told

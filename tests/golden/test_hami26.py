"""The quirks of HAMi 2.6 that recorded cases show rarely or not at all: the twin with each, and the product as the twin
without any."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden import hami, hami26
from tests.golden.deviations import Deviations
from tests.golden.outcome import responsible
from tests.naive.hami import ALLOCATED, NODE
from tests.naive.hami26 import cluster
from tests.naive.hami26.quirks import ALL, Quirk26
from tests.naive.hami_quirks import NONE

from vgpu_scheduler.model import OrderKind

Obj = dict[str, Any]

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
PERCENT = "nvidia.com/gpumem-percentage"
POLICY = "hami.io/gpu-scheduler-policy"
GEOMETRY = {
    "models": ["A100"],
    "allowedGeometries": [
        [{"name": "1g.5gb", "memory": 5120, "count": 7}],
        [{"name": "3g.20gb", "memory": 20480, "count": 2}],
    ],
}
SECTION = {
    "resourceCountName": GPU,
    "resourceMemoryName": MEMORY,
    "resourceMemoryPercentageName": PERCENT,
    "resourceCoreName": "nvidia.com/gpucores",
    "defaultMemory": 0,
    "defaultCores": 0,
    "knownMigGeometries": [GEOMETRY],
}
A = "a,4,1000,100,NVIDIA T4,0,true,0,hami-core:"
B = "b,4,1000,100,NVIDIA T4,1,true,1,hami-core:"
M = "m,7,40960,100,NVIDIA A100,0,true,0,mig:"


def test_quirks_that_no_recorded_case_shows_are_shown_here() -> None:
    unseen = {deviation.quirk for deviation in Deviations.read().all if deviation.test.startswith("test_hami26.py")}
    assert unseen <= {quirk.value for quirk in DIFFERENT}


def case(cards: str, wants: Obj, *pods: Obj, **more: Any) -> Obj:
    annotations = {"hami.io/node-nvidia-register": cards, **more.get("node", {})}
    new = pod(wants)
    new["metadata"]["annotations"] = more.get("annotations", {})
    new["spec"]["initContainers"] = more.get("inits", [])
    return {
        "config": {
            "nodeSchedulerPolicy": "binpack",
            "gpuSchedulerPolicy": "spread",
            "deviceConfig": {"nvidia": SECTION},
        },
        "nodes": [{"metadata": {"name": "n", "annotations": annotations}, "status": {"allocatable": {GPU: "9"}}}],
        "pods": list(pods),
        "quotas": more.get("quotas", []),
        "pod": new,
    }


def container(wants: Obj, name: str = "c") -> Obj:
    return {"name": name, "resources": {"limits": wants}}


def pod(wants: Obj, allocated: str = "") -> Obj:
    return {
        "metadata": {
            "name": allocated or "new",
            "namespace": "d",
            "uid": allocated or "new",
            "annotations": {ALLOCATED: allocated, NODE: "n"} if allocated else {},
        },
        "spec": {"containers": [container(wants)], "nodeName": "n" if allocated else ""},
        "status": {"phase": "Running" if allocated else "Pending"},
    }


def quota(memory: str) -> Obj:
    return {"metadata": {"name": "q", "namespace": "d"}, "spec": {"hard": {f"limits.{MEMORY}": memory}}}


def said(answer: Any) -> str:
    """What becomes of the only node: its allocation, or the reason."""
    if answer.refused:
        return "refused for " + ", ".join(sorted(bad.resource for bad in answer.refused))
    found = getattr(answer, "logged", {}).get("n") or answer.failed.get("n") or answer.per_node["n"][ALLOCATED]
    return str(found)


MIXED = "a,NVIDIA,500,0:;"
ONE: Obj = {GPU: "1"}
HALF: Obj = {GPU: "1", PERCENT: "50"}
SOME: Obj = {GPU: "1", MEMORY: "100"}

DIFFERENT = {
    Quirk26.CORDON_IGNORED: [
        (case(A, SOME, node={"hami.io/device-cordon": "a"}), "a,NVIDIA,100,0:;", "1/1 CardCordoned"),
    ],
    Quirk26.QUOTAS_IGNORED: [
        (case(A, SOME, quotas=[quota("99")]), "a,NVIDIA,100,0:;", "1/1 ResourceQuotaNotFit"),
    ],
    Quirk26.INIT_CONTAINERS_IGNORED: [
        (case(A, SOME, inits=[container(SOME, "i")]), "a,NVIDIA,100,0:;", "a,NVIDIA,100,0:;a,NVIDIA,100,0:;"),
        (case(A, SOME, inits=[container({GPU: "2"}, "i")]), "a,NVIDIA,100,0:;", "NodeInsufficientDevice"),
    ],
    Quirk26.LATER_POLICIES_UNKNOWN: [
        (
            case(A, SOME, pod(ONE, MIXED), annotations={POLICY: "mutex"}),
            "a,NVIDIA,100,0:;",
            "1/1 ExclusiveDeviceAllocateConflict",
        ),
        (
            case(A + B, SOME, pod(ONE, "b,NVIDIA,100,0:;"), annotations={POLICY: "binpack,numa"}),
            "b,NVIDIA,100,0:;",
            "b,NVIDIA,100,0:;",
        ),
        (
            case(A + B, SOME, pod(ONE, MIXED), annotations={POLICY: "binpack,numa"}),
            "b,NVIDIA,100,0:;",
            "a,NVIDIA,100,0:;",
        ),
        (
            case(A, SOME, annotations={"hami.io/device-scoring-weights": "slot=1"}),
            "a,NVIDIA,100,0:;",
            "refused for hami.io/device-scoring-weights",
        ),
        (
            case(A + B, {GPU: "2"}, annotations={POLICY: "topology-aware", "nvidia.com/numa-bind": "1"}),
            "1/2 AllocatedCardsInsufficientRequest, 1/2 NumaNotFit",
            "1/2 AllocatedCardsInsufficientRequest",
        ),
    ],
    Quirk26.MIG_STATE_BELIEVED: [
        (case(M, SOME, pod(ONE, "m,NVIDIA,5120,0:;")), "m[0-0],NVIDIA,5120,0:;", "1/1 CardNotHealth"),
        (
            case(M, SOME, pod(ONE, "m[0-0],NVIDIA,5120,0:;"), pod(ONE, "m[1-1],NVIDIA,20480,0:;")),
            "m[0-2],NVIDIA,5120,0:;",
            "1/1 CardNotHealth",
        ),
    ],
    Quirk26.MIG_PERCENT_IS_NOTHING: [
        (
            case(M, HALF, pod(ONE, "m[1-0],NVIDIA,20480,0:;")),
            "AddResourceUsage failed",
            "m[1-1],NVIDIA,20480,0:;",
        ),
    ],
    Quirk26.MIG_INSTANCE_LARGER: [
        (case(M, {GPU: "1", MEMORY: "5120"}), "1/1 CardNotFoundCustomFilterRule", "m[0-0],NVIDIA,5120,0:;"),
        (
            case(M, {GPU: "1", MEMORY: "5120"}, pod(ONE, "m[1-0],NVIDIA,20480,0:;")),
            "m[1-1],NVIDIA,20480,0:;",
            "m[1-1],NVIDIA,20480,0:;",
        ),
    ],
    Quirk26.USE_HIDES_NO_USE: [
        (
            case(A + B, SOME, annotations={"nvidia.com/use-gpuuuid": "a,b", "nvidia.com/nouse-gpuuuid": "b"}),
            "b,NVIDIA,100,0:;",
            "a,NVIDIA,100,0:;",
        ),
    ],
    Quirk26.AMOUNTS_AS_GIVEN: [
        (case(A, {GPU: "1", MEMORY: "16Gi"}), "a,NVIDIA,0,0:;", f"refused for {MEMORY}"),
        (case(A, {GPU: "1", MEMORY: "16Gi", PERCENT: "50"}), "a,NVIDIA,500,0:;", f"refused for {MEMORY}"),
        (case(A, {GPU: "1", MEMORY: "-5", PERCENT: "50"}), "a,NVIDIA,0,0:;", f"refused for {MEMORY}"),
        (case(A, {GPU: "1", MEMORY: "1500m"}), "a,NVIDIA,1000,0:;", f"refused for {MEMORY}"),
        (case(A, {GPU: "1", PERCENT: "150"}), "1/1 CardInsufficientMemory", "a,NVIDIA,1000,0:;"),
        (case(A, {GPU: "1", PERCENT: "0"}), "a,NVIDIA,0,0:;", "a,NVIDIA,1000,0:;"),
    ],
}


@pytest.mark.parametrize(
    ("quirk", "given", "theirs", "ours"),
    [(quirk, *example) for quirk, examples in DIFFERENT.items() for example in examples],
)
def test_a_quirk_makes_the_difference(quirk: Quirk26, given: Obj, theirs: str, ours: str) -> None:
    given = hami.as_reported(given)
    with_all, asked = cluster.decide(given, ALL)
    with_none, asked_too = cluster.decide(given, NONE)
    assert (said(with_all), said(with_none)) == (theirs, ours)
    assert said(hami.product(given, OrderKind.NUMA_FIRST)) == ours
    if theirs != ours:
        asked = (asked | asked_too) & ALL
        found = responsible(with_all, with_none, lambda some: cluster.decide(given, some)[0], asked, ALL)
        assert quirk.value in found


@pytest.mark.parametrize("memory", ["100", "16Gi"])
def test_a_number_of_cards_that_is_negative_in_32_bits_is_none(memory: str) -> None:
    given = hami.as_reported(case(A, {GPU: "2147483648", MEMORY: memory}))
    assert cluster.decide(given, ALL)[0].kind == "passthrough"
    assert cluster.decide(given, NONE)[0].kind == hami.product(given, OrderKind.NUMA_FIRST).kind == "refused"


def test_devices_of_others_are_beyond_it() -> None:
    given = case(A, ONE)
    given["config"]["deviceConfig"]["mthreads"] = {}
    assert hami26.run_case(given).status == "not_implemented"

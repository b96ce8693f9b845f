"""What somebody with rights in one namespace is told of reasons of nodes and cards that their condition counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api, run
from tests.cli.tenant_view import decided
from tests.cli.tenant_view import told as as_told
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import waiting
from tests.whatif.test_whatif_condition_others import told_of
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import node, pod, running, world_of

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif import remedies_from_condition
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotaStatus

Object = dict[str, Any]
TAINT = filters.TAINT.text
WAIT = "wait until other pods end, or ask for a node more: "


@pytest.mark.parametrize("tainted", [1, 3])
@pytest.mark.parametrize(
    ("reason", "why", "limits"),
    [
        ("CardInsufficientCore", "cards have too little compute left", {"aws.amazon.com/neuron": 1}),
        ("CardInsufficientMemory", "cards have too little memory left", {"metax-tech.com/gpu": 1}),
        ("ExclusiveDeviceAllocateConflict", "the pod gets no card that others use", {"vastaitech.com/va": 1}),
        ("CardTimeSlicingExhausted", "cards have no share left", {"kunlunxin.com/vxpu": 1}),
        ("CardHeldByPeer", "the pod shares no card with those of its group", {"nvidia.com/gpu": 1}),
    ],
)
def test_that_other_pods_may_end_is_told_beside_a_taint(reason: str, why: str, limits: Object, tainted: int) -> None:
    """The nodes with the taint may have nothing to do with the cards that the pod asks for."""
    (name,) = limits
    lacking = f"40 Insufficient {name}"
    told = told_of(f"0/44 nodes are available: 1 {reason}, {tainted} {TAINT}, {lacking}.", limits)
    waits = [each for each in told if each.startswith(WAIT)]
    assert len(waits) == 1, told
    assert why in waits[0]
    assert told[-1].startswith("tolerate a taint of the nodes")
    assert not any(each.startswith("wait until the nodes or the pods on them") for each in told)


def sized(name: str, cpu: int, memory: int, **spec: Any) -> Object:
    """Return a node with some CPUs, and some memory in GiB."""
    made = node(name, **spec)
    made["status"]["allocatable"] |= {"cpu": str(cpu), "memory": f"{memory}Gi"}
    return made


@pytest.mark.parametrize("seed", range(40))
def test_what_the_only_possible_nodes_lack_is_asked_together(seed: int) -> None:
    """Nodes that a selector, a taint or a cordon excludes count for nothing, and none of the others helps with one."""
    rng = np.random.default_rng(seed)
    lacking = [(1, 2), (1, 99), (9, 2)]  # both, CPU, memory
    weights = [0.7, 0.15, 0.15] if rng.random() < 0.6 else [1, 0, 0]
    kinds = [lacking[int(n)] for n in rng.choice(3, p=weights, size=int(rng.integers(1, 4)))]
    objects = [sized(f"n{n}", *kind, labels={"pool": "x"}) for n, kind in enumerate(kinds)]
    objects += [sized(f"s{n}", 9, 99, labels={"pool": "y"}) for n in range(int(rng.integers(1, 4)))]
    taints = [{"key": "k", "effect": "NoSchedule"}]
    objects += [sized(f"t{n}", 9, 99, labels={"pool": "x"}, taints=taints) for n in range(int(rng.integers(0, 3)))]
    objects += [sized(f"u{n}", 9, 99, unschedulable=True) for n in range(int(rng.integers(0, 2)))]
    waiting = pod("p", {"nvidia.com/gpu": 1, "cpu": 4, "memory": "8Gi"}, nodeSelector={"pool": "x"})
    _, told = answer(world_of(*objects, waiting)[0])
    cpu, memory = "ask for less than 4 of cpu in container main", "ask for less than 8Gi of memory in container main"
    together = f"{cpu} and {memory}"
    lack = {each for kind in kinds for each, has, asks in ((cpu, kind[0], 4), (memory, kind[1], 8)) if has < asks}
    by_kind = [lacking.index(kind) for kind in kinds]
    of_all = {each for each, which in ((cpu, {0, 1}), (memory, {0, 2})) if which.issuperset(by_kind)}
    advised = [each for each in told.remedies if each.startswith("ask for less")]
    assert advised == ([together] if len(of_all) == 2 else sorted(of_all or lack)), told.remedies


@pytest.mark.parametrize("others", ["1 CardInsufficientMemory", "2 CardInsufficientMemory"])
def test_what_cards_of_other_nodes_lack_remains_an_advice_of_its_own(others: str) -> None:
    counts = f"1 Insufficient cpu, 1 Insufficient memory, {others}, 40 {filters.AFFINITY.text}"
    asks = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 900, "cpu": 4, "memory": "8Gi"}
    told = told_of(f"0/{41 + int(others[0])} nodes are available: {counts}.", asks)
    both = "ask for less than 4 of cpu in container main and ask for less than 8Gi of memory in container main"
    assert both in told
    assert "ask for less than 900 of nvidia.com/gpumem in container main" in told


NO_HELP = ": it does not help where nodes have too few cards"
GPUS = "31 Insufficient nvidia.com/gpu"
OF_NUMBER = [
    "12 NodeInsufficientDevice",
    "12 AllocatedCardsInsufficientRequest",
    "9 NodeInsufficientDevice, 3 AllocatedCardsInsufficientRequest",
]


@pytest.mark.parametrize("number", OF_NUMBER)
@pytest.mark.parametrize("cards", [2, 9])
def test_fewer_cards_come_first_where_too_few_are_the_reason_and_less_memory_is_not_promised(
    cards: int, number: str
) -> None:
    asks = {"nvidia.com/gpu": cards, "nvidia.com/gpumem": 9000, "nvidia.com/gpucores": 20}
    counts = f"1 CardInsufficientMemory, 1 CardInsufficientCore, {number}, {GPUS}"
    first, *others = told_of(f"0/44 nodes are available: {counts}.", asks)
    assert first.startswith(f"ask 1 of nvidia.com/gpu instead of {cards} in container main")
    less = [each for each in others if each.startswith("ask for less")]
    assert len(less) == 2
    assert all(each.endswith(NO_HELP) for each in less)
    alone = told_of(f"0/44 nodes are available: 1 CardInsufficientMemory, {GPUS}.", {**asks, "nvidia.com/gpu": 1})
    assert not any(NO_HELP in each for each in alone)


@pytest.mark.parametrize("number", ["", *OF_NUMBER])
@pytest.mark.parametrize(("memory", "helps"), [(100, False), (4000, False), (9000, True)])
def test_less_memory_is_not_told_of_instances_where_it_takes_the_smallest_one(
    memory: int, number: str, *, helps: bool
) -> None:
    counts = f"1 CardMigTopologyInfeasible, {number or '12 CardUnhealthy'}, {GPUS}"
    told = told_of(f"0/44 nodes are available: {counts}.", {"nvidia.com/gpu": 9, "nvidia.com/gpumem": memory})
    assert any("of nvidia.com/gpumem" in each for each in told) is helps
    assert told


@pytest.mark.parametrize("number", OF_NUMBER)
@pytest.mark.parametrize(("cards", "memory"), [(9, 100), (3, 5600), (2, 400)])
def test_a_quota_of_compute_that_the_pod_does_not_ask_for_is_not_blamed_where_no_node_fits(
    cards: int, memory: int, number: str
) -> None:
    """A whole piece of a card may count for more than the quota of memory leaves."""
    world, waiting = world_of(node("a"), pod("p", {"nvidia.com/gpu": cards, "nvidia.com/gpumem": memory}))
    of_quotas = "7000 of 24000 MiB of limits.nvidia.com/gpumem, 30 of 120 percent of limits.nvidia.com/gpucores"
    message = f"0/44 nodes are available: {number}, {GPUS}, 1 CardMigTopologyInfeasible, 1 ResourceQuotaNotFit."
    event = f"{message} (namespace default uses {of_quotas})"
    first, *others = remedies_from_condition(world, waiting, message, event, reason="Unschedulable").remedies
    assert first.startswith(f"ask 1 of nvidia.com/gpu instead of {cards} in container main")
    assert not any("limits." in each or "gpucores" in each for each in (first, *others))
    assert all(each.endswith(NO_HELP) for each in others)


SGPU = {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4, "metax-tech.com/vcore": 10}
LACKING = "42 Insufficient metax-tech.com/sgpu"


@pytest.mark.parametrize(
    ("reason", "annotation", "value", "gives"),
    [
        ("CardAppClassMismatch", "metax-tech.com/sgpu-app-class", "online", "application class"),
        ("CardAppClassMismatch", "metax-tech.com/sgpu-app-class", "offline", "application class"),
        ("CardQosPolicyMismatch", "metax-tech.com/sgpu-qos-policy", "fixed-share", "quality of service"),
        ("CardQosPolicyMismatch", "metax-tech.com/sgpu-qos-policy", "burst-share", "quality of service"),
    ],
)
@pytest.mark.parametrize("tainted", ["", f"1 {TAINT}, "])
def test_the_annotation_is_named_without_which_a_pod_shares_cards_with_others(
    reason: str, annotation: str, value: str, gives: str, tainted: str
) -> None:
    """Whoever has it cannot take up that of the others: they may have none."""
    message = f"0/44 nodes are available: 1 {reason}, {tainted}{LACKING}."
    world, waiting = world_of(node("a"), pod("p", SGPU, metadata={"annotations": {annotation: value}}))
    first, *_ = remedies_from_condition(world, waiting, message, "").remedies
    assert first.startswith(f"leave out its annotation {annotation}"), first
    others = told_of(message, SGPU)
    assert any(f"or give the pod the {gives}" in each for each in others)
    assert not any("annotation" in each for each in others)


SLICES = "all slices of a card have one size, which the pods on it fix: 24576, 49152 or 98304 MiB"


@pytest.mark.parametrize("tainted", ["", f"1 {TAINT}, "])
@pytest.mark.parametrize(
    ("memory", "others"),
    [
        *((40000, [24576]), (49152, [24576]), (100, [49152]), (24576, [49152])),
        *((98304, [24576, 49152]), (None, [24576, 49152])),
    ],
)
@pytest.mark.parametrize("cards", [1, 2])
def test_slices_of_other_sizes_are_told_where_cards_are_split_into_slices_of_one_size(
    memory: int | None, others: list[int], tainted: str, cards: int
) -> None:
    limits = {"kunlunxin.com/vxpu": cards, **({"kunlunxin.com/vxpu-memory": memory} if memory else {})}
    told = told_of(f"0/44 nodes are available: 1 NumaNotFit, {tainted}42 Insufficient kunlunxin.com/vxpu.", limits)
    asked = [each for each in told if each.endswith(f"({SLICES})")]
    assert [int(each.split()[1]) for each in asked] == others
    assert all(
        each.startswith(f"ask {size} of kunlunxin.com/vxpu-memory") for each, size in zip(asked, others, strict=True)
    )
    assert sum(each.startswith(WAIT) and each.endswith(SLICES) for each in told) == 1
    assert any(each.startswith("ask 1 of kunlunxin.com/vxpu ") for each in told) is (cards > 1)


@pytest.mark.parametrize("memory", [40000, 1000])
def test_a_quota_is_told_with_slices_of_another_size_that_exceed_it(memory: int) -> None:
    limits = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": memory}
    message = "0/44 nodes are available: 1 NumaNotFit, 42 Insufficient kunlunxin.com/vxpu."
    world, waiting = world_of(node("a"), pod("p", limits))
    report = QuotaReport("default", "kunlunxin.com/vxpu-memory", 10000, 40000, "MiB")
    told = remedies_from_condition(world, waiting, message, "", QuotaStatus((), limits=(report,))).remedies
    (asked,) = [each for each in told if SLICES in each and each.startswith("ask ")]
    assert ("; and have limits.kunlunxin.com/vxpu-memory raised to 59152" in asked) is (memory < 24577)


MISTAKES = [
    ({"nvidia.com/gpumemory": 4000}, "write nvidia.com/gpumem instead of nvidia.com/gpumemory"),
    ({"nvidia.com/gpucore": 40}, "write nvidia.com/gpucores instead of nvidia.com/gpucore"),
    ({"nvidia.com/gpumemm": 40}, "write nvidia.com/gpumem instead of nvidia.com/gpumemm"),
]


@pytest.mark.parametrize(("limits", "correction"), MISTAKES)
@pytest.mark.parametrize("tainted", [0, 2])
@pytest.mark.parametrize("elsewhere", [0, 5])
def test_nodes_without_cards_mean_nothing_where_others_lack_a_mistyped_resource_alone(
    limits: Object, correction: str, tainted: int, elsewhere: int
) -> None:
    (name,) = limits
    nodes = 40 + tainted + elsewhere
    counts = [f"{tainted} {TAINT}"] if tainted else []
    counts += [f"{elsewhere} {filters.AFFINITY.text}"] if elsewhere else []
    lacking = f"26 Insufficient nvidia.com/gpu, 40 Insufficient {name}"
    told = told_of(f"0/{nodes} nodes are available: {', '.join([*counts, lacking])}.", {"nvidia.com/gpu": 1, **limits})
    assert told[0].startswith(correction)
    assert not any("nvidia.com/gpu left" in each or "use all that nodes have" in each for each in told), told
    everywhere = lacking.replace("26", "40")
    told = told_of(
        f"0/{nodes} nodes are available: {', '.join([*counts, everywhere])}.", {"nvidia.com/gpu": 1, **limits}
    )
    assert any("nodes have none or too few of nvidia.com/gpu left" in each for each in told), told


OF_OTHERS = {
    "limits.hygon.com/dcumem": 6000,
    "limits.huawei.com/Ascend910B3-memory": 20000,
    "limits.cambricon.com/mlu.smlu.vmemory": 20,
}


@pytest.mark.parametrize("seed", range(20))
def test_quotas_of_other_vendors_are_not_told(api: Api, seed: int) -> None:
    """Be they read, or told by the event alone."""
    rng = np.random.default_rng(seed)
    chosen = {name: limit for name, limit in OF_OTHERS.items() if rng.random() < 0.7}
    used, left = int(rng.integers(1, 5000)), int(rng.integers(100, 4000))
    limits = [{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000}, {"nvidia.com/gpu": 1}][int(rng.integers(2))]
    waiting = pod("p", limits, schedulerName="vgpu-scheduler")
    waiting["metadata"] |= {"namespace": "team", "uid": "uid-p"}
    api.objects[:] = [node("a", 4), quota(gpumem=used + left, gpucores=300), held(used), waiting]
    hard = api.objects[1]["spec"]["hard"]
    hard |= {name: str(limit) for name, limit in chosen.items()}
    assert not decided(api, "p")
    for unread in (frozenset(), frozenset({"ResourceQuota"})):
        api.refused_everywhere = unread
        remedies = as_told(api, "p")
        text = run("explain", "p", "-n", "team").stdout
        assert "of limits.nvidia.com/gpumem" in text
        assert "of limits.nvidia.com/gpucores" in text
        assert not any(name in line for name in OF_OTHERS for line in (*remedies, *text.splitlines()))


def kept_from(*topology_keys: str) -> Object:
    """Return a required anti-affinity against pods of an application."""
    terms = [{"labelSelector": {"matchLabels": {"app": "anti"}}, "topologyKey": key} for key in topology_keys]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize("of_other", [(), ("host",), ("zone",), ("host", "zone")])
@pytest.mark.parametrize("own", ["host", "zone"])
def test_an_anti_affinity_that_the_other_pod_has_too_need_not_be_left_out(
    api: Api, own: str, of_other: tuple[str, ...]
) -> None:
    """Pods of one host are pods of one zone, too; on another host only a term about the zone keeps the pod away."""
    there, asked = running("there", "a", "GPU-a-0", 1000), waiting("p")
    for each in (there, asked):
        each["metadata"] |= {"namespace": "team", "labels": {"app": "anti"}}
    asked["spec"]["affinity"] = kept_from(own)
    if of_other:
        there["spec"]["affinity"] = kept_from(*of_other)
    hosts = [node(name, 2, labels={"host": name, "zone": "here"}) for name in ("ab" if own == "zone" else "a")]
    api.objects[:] = [*hosts, there, asked]
    assert not decided(api, "p")
    advice = as_told(api, "p", frozenset({"pods"}))
    assert any("leave out its pod anti-affinity" in each for each in advice) == (own not in of_other)
    del asked["spec"]["affinity"]
    if own == "zone" or own in of_other:  # else a term of the other about the zone may keep the pod away
        assert bool(decided(api, "p")) == ("zone" not in of_other and own not in of_other)

"""The Koordinator dialect: devices, claims, and which devices a claim gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import (
    DIALECT,
    GIB,
    LONG,
    Obj,
    charge,
    container,
    gpu,
    inventory,
    long,
    minors,
    node,
    other,
    place,
    pod,
    state_of,
)

from vgpu_scheduler.allocators import CardChoice, CardLimits, FitColumns, ShareOrder, Strategy, Weights, verdict
from vgpu_scheduler.dialects import ClaimError, CodecError, Dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.koordinator.claims import normalise, split
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.model import Claim, ClaimDefaults, ContainerType, Placement
from vgpu_scheduler.scorers import KOORDINATOR_SHARE_WEIGHTS
from vgpu_scheduler.state import State, canonical


def test_it_is_a_dialect() -> None:
    dialect: Dialect = koordinator_dialect()
    assert (dialect.name, dialect.node_side.locks, dialect.node_side.lock(())) == ("koordinator", (), None)
    assert [d.name for d in dialect.inventory.dimensions] == ["share", "memory", "cores", "memory ratio"]
    assert dialect.inventory.dimensions[dialect.inventory.memory].unit == "bytes"
    assert dialect.inventory.memory_unit == 1
    assert dialect.inventory.dimensions[dialect.inventory.cores].name == "cores"
    assert dialect.allocation.annotations(Placement("node", ((),)), 0) == {}
    assert dialect.allocation.labels(Placement("node")) == {}
    assert dialect.inventory.unknown_to_kubelet == {LONG["shared"]}
    assert dialect.inventory.device_resources.keys() == {
        LONG[name] for name in ("core", "memory", "ratio", "rdma", "fpga")
    }
    assert (dialect.node_side.has_answered({}), dialect.node_side.nothing_left({})) == (False, False)


# Devices -----------------------------------------------------------------------------------------------------------


def test_devices_of_all_types() -> None:
    sick = gpu(7, health=False, topology={"nodeID": 1, "pcieID": "2"}, labels={"a": "b"}, vfGroups=[{}])
    listed = DIALECT.inventory.devices(node(), inventory(sick, other("rdma", 0), other("fpga", 3), gpu_model="H20"))
    assert [(d.uuid, d.vendor, d.index, d.total, d.healthy, d.numa, d.type) for d in listed] == [
        ("gpu/7/GPU-7", "gpu", 7, (0, 16 * GIB, 100, 100), False, 1, "H20"),
        ("rdma/0/rdma0", "rdma", 0, (100, 0, 0, 0), True, 0, ""),
        ("fpga/3/fpga3", "fpga", 3, (100, 0, 0, 0), True, 0, ""),
    ]


def test_nodes_without_an_object_have_no_devices() -> None:
    assert DIALECT.inventory.devices(node()) == ()
    assert DIALECT.inventory.devices(node(), {}) == ()
    assert DIALECT.inventory.devices(node(), inventory()) == ()


def test_what_is_missing_is_empty() -> None:
    bare = {"type": "gpu", "minor": 0}
    (device,) = DIALECT.inventory.devices(node(), inventory(bare, gpu_vendor="nvidia", gpu_model="A100"))
    assert (device.uuid, device.total, device.healthy, device.numa) == ("gpu/0/", (0, 0, 0, 0), False, 0)
    assert device.type == "nvidia A100"
    named = decode_node({"metadata": {"name": "n", "labels": {"node.koordinator.sh/gpu-model": "T4"}}, "spec": {}})
    assert DIALECT.inventory.devices(named, inventory(bare))[0].type == "T4"


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("x", "spec.devices[0] is not an object"),
        ({"type": "xpu", "minor": 0}, "spec.devices[0].type: 'xpu'"),
        ({"type": "gpu"}, "spec.devices[0].minor: None"),
        (gpu(-1), "spec.devices[0].minor: -1"),
        ({"type": "gpu", "minor": True}, "spec.devices[0].minor: True"),
        (gpu(0, id=3), "spec.devices[0].id: 3"),
        (gpu(0, id="\ud800"), "spec.devices[0].id"),
        (gpu(0, health="true"), "spec.devices[0].health: 'true'"),
        (gpu(0, topology=[]), "spec.devices[0].topology is not an object"),
        (gpu(0, topology={"nodeID": "0"}), "spec.devices[0].topology.nodeID: '0'"),
        (gpu(0, resources={LONG["npu"]: "8"}), "spec.devices[0].resources: huawei.com/npu-core"),
        (gpu(0, resources={LONG["core"]: "x"}), "spec.devices[0].resources: koordinator.sh/gpu-core"),
        (gpu(0, resources={LONG["core"]: True}), "koordinator.sh/gpu-core: True is not a quantity"),
        (gpu(0, memory="-1Gi"), "koordinator.sh/gpu-memory: -1Gi is not an amount"),
        (gpu(0, memory="17Ti"), "koordinator.sh/gpu-memory: 17Ti is not an amount"),
    ],
)
def test_a_list_that_is_not_understood_is_refused_by_the_field(device: Any, said: str) -> None:
    with pytest.raises(CodecError) as caught:
        DIALECT.inventory.devices(node(), inventory(device))
    assert said in str(caught.value)
    assert str(caught.value).startswith("Device node: ")


def test_lists_that_are_not_believed() -> None:
    for listed, said in (
        ([gpu(0), gpu(0, id="GPU-1")], "gpu 0 is listed twice"),
        ([gpu(minor) for minor in range(1025)], "1025 devices are more than a node has"),
    ):
        with pytest.raises(CodecError, match=said):
            DIALECT.inventory.devices(node(), inventory(*listed))
    assert len(DIALECT.inventory.devices(node(), inventory(gpu(0), other("rdma", 0)))) == 2
    with pytest.raises(CodecError, match=r"spec\.devices is not a list"):
        DIALECT.inventory.devices(node(), {"spec": {"devices": {"a": 1}}})


# Claims ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "converted", "count", "each"),
    [
        pytest.param({"nvidia": 1}, {"core": 100, "ratio": 100}, 1, (0, 0, 100, 100), id="K01"),
        pytest.param({"nvidia": 4}, {"core": 400, "ratio": 400}, 4, (0, 0, 100, 100), id="K02"),
        pytest.param({"amd": 2}, {"core": 200, "ratio": 200}, 2, (0, 0, 100, 100), id="amd"),
        pytest.param({"gpu": 50}, {"core": 50, "ratio": 50}, 1, (0, 0, 50, 50), id="K03"),
        pytest.param({"gpu": 200}, {"core": 200, "ratio": 200}, 2, (0, 0, 100, 100), id="K04"),
        pytest.param({"core": 50, "ratio": 50}, None, 1, (0, 0, 50, 50), id="K07"),
        pytest.param({"core": 50, "memory": 8}, None, 1, (0, 8, 50, 0), id="K09"),
        pytest.param({"core": 200, "memory": 160}, None, 1, (0, 160, 200, 0), id="K10"),
        pytest.param({"shared": 2, "core": 100, "memory": 4}, None, 2, (0, 2, 50, 0), id="K11"),
        pytest.param({"shared": 4, "memory": 163}, None, 4, (0, 40, 0, 0), id="K12"),
        pytest.param({"shared": 2, "ratio": 200}, None, 2, (0, 0, 0, 100), id="K13"),
        pytest.param({"ratio": 300}, None, 3, (0, 0, 0, 100), id="ratio"),
    ],
)
def test_requests_for_gpus(asked: Obj, converted: Obj | None, count: int, each: tuple[int, ...]) -> None:
    found = normalise(long(asked))
    assert found == long(converted or asked)
    assert split(found) == (count, each)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param({"gpu": "150"}, "koordinator.sh/gpu: 150", id="K05"),
        pytest.param({"core": "50"}, "add koordinator.sh/gpu-memory or", id="K06"),
        pytest.param({"core": "100", "ratio": "150"}, "koordinator.sh/gpu-memory-ratio: 150", id="K08"),
        pytest.param({"shared": "1", "ratio": "101"}, "shared: 1 is more than one device: write up to 100$", id="K14"),
        pytest.param({"shared": "3", "ratio": "100"}, "write a multiple of 3 up to 300", id="K15"),
        pytest.param({"shared": "1"}, "add koordinator.sh/gpu-memory or", id="K16"),
        pytest.param({"nvidia": "1", "memory": "8Gi"}, "cannot be asked for together", id="K17"),
        pytest.param({"memory": "8Gi", "ratio": "50"}, "remove one of them", id="K18"),
        pytest.param({"ratio": "120"}, "write up to 100, or a multiple of 100", id="K19"),
        pytest.param({"rdma": "150"}, "koordinator.sh/rdma: 150", id="K20"),
        pytest.param({"npu": "8", "ratio": "100"}, "huawei.com/npu-core is not supported by this version", id="npu"),
        pytest.param({"shared": "2", "core": "101", "memory": "1"}, "koordinator.sh/gpu-core: 101", id="core"),
    ],
)
def test_requests_that_do_not_go_together_are_refused_by_name(asked: Obj, said: str) -> None:
    with pytest.raises(ClaimError, match=said):
        DIALECT.claims.read(pod(**asked))


def test_one_claim_per_device_type_at_the_first_container_that_lasts() -> None:
    """K20, K55, K56: the requests are the pod's, not the container's."""
    first, second = container("a", cpu="1"), container("b", shared="1", memory="8Gi", rdma="200")
    third, before = container("c", shared="1", memory="8Gi", fpga="30"), container("i", memory="1Gi", shared="1")
    claims = DIALECT.claims.read(pod(first, second, third, init=[before]))
    assert [(c.name, c.type, len(c.claims)) for c in claims] == [
        ("i", ContainerType.INIT, 0),
        ("a", ContainerType.APP, 0),
        ("b", ContainerType.APP, 3),
        ("c", ContainerType.APP, 0),
    ]
    assert claims[2].claims == (
        Claim("fpga", 1, (30, 0, 0, 0), (0, 0, 0, 0)),
        Claim("gpu", 2, (0, 8 * GIB, 0, 0), (0, 0, 0, 0), ""),
        Claim("rdma", 2, (100, 0, 0, 0), (0, 0, 0, 0)),
    )
    with pytest.raises(ClaimError, match="gpu-memory-ratio: 120"):
        DIALECT.claims.read(pod(container("a", ratio="60"), container("b", ratio="60")))
    only_before = DIALECT.claims.read(pod(first, init=[before]))
    assert [len(c.claims) for c in only_before] == [1, 0]


def test_pods_without_devices_claim_nothing() -> None:
    hint = {"scheduling.koordinator.sh/device-allocate-hint": "{}"}
    assert [c.claims for c in DIALECT.claims.read(pod(cpu="1", annotations=hint))] == [()]
    assert [c.claims for c in DIALECT.claims.read(pod(cpu="1", ratio="0"))] == [()]


def test_shares_go_where_the_node_has_the_same_provider_of_isolation() -> None:
    label = "koordinator.sh/gpu-isolation-provider"
    assert label in DIALECT.claims.pod_labels
    named, nameless = {label: "HAMi-core"}, {}
    for on_node, on_pod, asked, fits in (
        (named, named, {"ratio": "50"}, True),
        (nameless, nameless, {"memory": "1Gi"}, True),
        (nameless, named, {"ratio": "50"}, False),
        (named, nameless, {"memory": "1Gi"}, False),
        (nameless, named, {"nvidia": "1", "rdma": "50"}, True),
        (named, nameless, {"shared": "1", "ratio": "100"}, True),
    ):
        state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
        known = node(**on_node)
        devices = DIALECT.inventory.devices(known, inventory(gpu(0), other("rdma", 0)))
        state.observe_node(known, {DIALECT.name: canonical(devices)})
        wanted = pod(labels=on_pod, **asked)
        assert (place(state, wanted) is not None) == fits, (on_node, on_pod, asked)
        if not fits:
            into = FitColumns.empty(state.nodes.capacity)
            allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(wanted), CardChoice())
            allocator.fit(state.devices, np.zeros(1, dtype=np.int64), into)
            assert verdict(into.counts[0], int(into.cards[0])).detail == "1/1 ModeNotFit"


def test_devices_of_other_makers_are_refused_by_name() -> None:
    key = "node.koordinator.sh/gpu-vendor"
    labelled = decode_node({"metadata": {"name": "n", "labels": {key: "metax"}}, "spec": {}})
    for known, listed, maker in (
        (labelled, inventory(gpu(0)), "metax"),
        (node(), inventory(gpu(0), gpu_vendor="huawei"), "huawei"),
    ):
        with pytest.raises(CodecError, match=f"label {key}: what device plugins of '{maker}' read is not written"):
            DIALECT.inventory.devices(known, listed)
    assert DIALECT.inventory.devices(node(), inventory(gpu(0), gpu_vendor="nvidia"))


def gpu_claim(defaults: ClaimDefaults, **asked: str) -> Claim:
    ((claim,),) = (c.claims for c in DIALECT.claims.read(pod(**asked), defaults))
    return claim


def test_defaults_of_a_policy() -> None:
    defaults = ClaimDefaults(memory=4 * GIB, cores=20)
    assert gpu_claim(defaults, core="50").amounts == (0, 4 * GIB, 50, 0)
    assert gpu_claim(defaults, shared="2") == Claim("gpu", 2, (0, 4 * GIB, 20, 0), (0, 0, 0, 0), "")
    assert gpu_claim(defaults, ratio="30").amounts == (0, 0, 20, 30)
    assert gpu_claim(defaults, memory="1Gi", core="10").amounts == (0, GIB, 10, 0)
    assert gpu_claim(defaults, nvidia="1").amounts == (0, 0, 100, 100)
    whole = ClaimDefaults(exclusive=True)
    assert gpu_claim(whole, memory="1Gi", shared="2") == Claim("gpu", 2, (0, 0, 100, 100), (0, 100, 0, 0))


def test_an_exclusive_claim_leaves_room_for_nobody() -> None:
    state = state_of(gpu(0))
    claims = DIALECT.claims.read(pod(memory="1Gi"), ClaimDefaults(exclusive=True))
    placed = DIALECT.claims.allocator({}, claims, CardChoice()).place(state.devices, 0)
    assert placed is not None
    assert placed[0][0].amounts == (0, 16 * GIB, 100, 100)


def test_a_claim_in_percent_of_memory_says_so_for_limits() -> None:
    assert gpu_claim(ClaimDefaults(), ratio="30").percent == (0, 30, 0, 0)
    assert gpu_claim(ClaimDefaults(), memory="1Gi").percent == (0, 0, 0, 0)


# Allocation --------------------------------------------------------------------------------------------------------


def used(*parts: tuple[int, int]) -> State:
    """Four GPUs of 16Gi; percent of compute and memory in use, by minor."""
    state = state_of(*(gpu(minor) for minor in range(4)))
    for minor, percent in parts:
        charge(state, f"gpu/{minor}", (0, 16 * GIB * percent // 100, percent, percent))
    return state


THIRDS = ((1, 30), (2, 60), (3, 100))


@pytest.mark.parametrize(
    ("strategy", "asked", "expected"),
    [
        pytest.param(Strategy.LEAST_ALLOCATED, {"ratio": "30"}, ["gpu/0"], id="K35"),
        pytest.param(Strategy.MOST_ALLOCATED, {"ratio": "30"}, ["gpu/2"], id="K36"),
        pytest.param(Strategy.MOST_ALLOCATED, {"ratio": "50"}, ["gpu/1"], id="K37"),
        pytest.param(Strategy.MOST_ALLOCATED, {"nvidia": "1"}, ["gpu/0"], id="K38"),
        pytest.param(Strategy.MOST_ALLOCATED, {"shared": "2", "ratio": "60"}, ["gpu/2", "gpu/1"], id="K39"),
    ],
)
def test_cards_by_their_score(strategy: Strategy, asked: Obj, expected: list[str]) -> None:
    choice = CardChoice(device_share_order=ShareOrder(strategy, KOORDINATOR_SHARE_WEIGHTS))
    assert minors(place(used(*THIRDS), pod(**asked), choice)) == expected


def test_words_stand_for_strategies() -> None:
    state = used((1, 30), (2, 60))
    found = {word: minors(place(state, pod(ratio="30"), CardChoice(word))) for word in ("spread", "binpack", "mutex")}
    assert found == {"spread": ["gpu/0"], "binpack": ["gpu/2"], "mutex": ["gpu/0"]}
    assert minors(place(used((0, 1)), pod(ratio="10"), CardChoice("mutex"))) == ["gpu/1"]
    assert place(used((0, 1), (1, 1), (2, 1), (3, 1)), pod(ratio="10"), CardChoice("mutex")) is None
    for word in ("bestFit", "numa,spread"):
        assert DIALECT.claims.known_choice(CardChoice(word)) == (CardChoice(), f"the card order {word!r}")
    for word in ("spread", "binpack", "mutex"):
        assert DIALECT.claims.known_choice(CardChoice(word)) == (CardChoice(word), "")
    for choice, said in ((CardChoice(limits=CardLimits(modes=(("mps",),))), r"devices\.modes"),
                         (CardChoice(numa_bind=True), r"devices\.numa")):  # fmt: skip
        with pytest.raises(ClaimError, match=said):
            place(state, pod(ratio="10"), choice)


def reasons(state: State, wanted: Pod, **limits: Any) -> str:
    choice = CardChoice(limits=CardLimits(**limits))
    columns = FitColumns.empty(1)
    allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(wanted), choice)
    allocator.fit(state.devices, np.array([0]), columns)
    assert bool(columns.fits[0]) == (allocator.place(state.devices, 0) is not None)
    return "" if columns.fits[0] else verdict(columns.counts[0], int(columns.cards[0])).detail


def test_reasons() -> None:
    state = state_of(gpu(0, health=False), gpu(1), gpu(2, memory="80Gi"), other("rdma", 0), gpu_model="A100")
    charge(state, "gpu/1", (0, 10 * GIB, 50, 62))
    charge(state, "gpu/2", (0, 10 * GIB, 50, 12))
    assert reasons(state, pod(memory="100Gi")) == "1/3 CardNotHealth, 2/3 CardInsufficientMemory"
    assert reasons(state, pod(ratio="100")) == "1/3 CardNotHealth, 2/3 CardInsufficientMemory"
    assert reasons(state, pod(core="60", memory="1Gi")) == "1/3 CardNotHealth, 2/3 CardInsufficientCore"
    assert reasons(state, pod(core="60", memory="8Gi")) == (
        "1/3 CardInsufficientCore, 1/3 CardInsufficientMemory, 1/3 CardNotHealth"
    )
    assert reasons(state, pod(nvidia="4")) == "NodeInsufficientDevice"
    assert reasons(state, pod(fpga="10")) == "NodeInsufficientDevice"
    assert reasons(State({"koordinator": 4}), pod(ratio="1")) == "node unregistered"
    assert reasons(state, pod(ratio="10", shared="1", rdma="10")) == ""
    charge(state, "rdma/0", (95, 0, 0, 0))
    assert reasons(state, pod(rdma="10")) == "1/1 CardTimeSlicingExhausted"
    two = "1/3 AllocatedCardsInsufficientRequest, 1/3 CardInsufficientMemory, 1/3 CardNotHealth"
    assert reasons(state, pod(shared="2", memory="20Gi")) == two


def test_limits_are_about_gpus() -> None:
    state = state_of(gpu(0), other("rdma", 0), gpu_model="A100")
    both = pod(shared="1", ratio="10", rdma="10")
    for limits in ({"deny": ("a100",)}, {"allow": (("H100",),)}, {"most_memory": GIB}):
        assert reasons(state, both, **limits) == "1/1 CardDeniedByPolicy"
    for limits in ({"deny": ("H100",)}, {"allow": (("a100",),)}, {"most_memory": 16 * GIB}, {"exclusive": True}):
        assert reasons(state, both, **limits) == ""
    half = state_of(gpu(0, resources=long({"core": "50", "memory": "1Gi", "ratio": "100"})))
    assert reasons(half, pod(ratio="10"), exclusive=True) == "1/1 CardDeniedByPolicy"


@pytest.mark.parametrize(
    "limits", [{}, {"deny": ("a100",)}, {"allow": (("H100",),)}, {"most_memory": GIB}, {"exclusive": True}]
)
@pytest.mark.parametrize("provider", ["", "HAMi-core"])
def test_what_a_pod_may_use_is_what_it_would_fit_on_alone(limits: dict[str, Any], provider: str) -> None:
    """No card is told to be nearest, or priced, that limits or another way of sharing leave out."""
    half = gpu(1, resources=long({"core": "50", "memory": "512Mi", "ratio": "100"}))
    state = state_of(gpu(0), half, other("rdma", 0), gpu_model="A100")
    wanted = pod(core="10", ratio="10", labels={"koordinator.sh/gpu-isolation-provider": provider})
    allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(wanted), CardChoice(limits=CardLimits(**limits)))
    numbers, _ = state.devices.listed_numbers()
    fits = allocator.fit_alone(state.devices, numbers, np.zeros((numbers.size, 4), dtype=np.int64))
    assert allocator.may_use(state.devices)[numbers].tolist() == fits.tolist()


def test_only_what_a_card_has_is_compared() -> None:
    """K58 and K59: nothing is asked of what is used up, or the card knows nothing of what is asked."""
    state = state_of(gpu(0))
    charge(state, "gpu/0", (0, 8 * GIB, 100, 50))
    assert reasons(state, pod(memory="4Gi")) == ""
    coreless = state_of(gpu(0, resources=long({"memory": "16Gi", "ratio": "100"})))
    assert reasons(coreless, pod(core="50", memory="4Gi")) == ""
    charge(coreless, "gpu/0", (0, 0, 10, 0))
    assert reasons(coreless, pod(core="50", memory="4Gi")) == "1/1 CardInsufficientCore"


def test_the_nearest_miss_is_about_what_is_asked() -> None:
    state = state_of(gpu(0), gpu(1, memory="80Gi"), other("rdma", 0))
    charge(state, "gpu/0", (0, 0, 90, 0))
    allocator = DIALECT.claims.allocator(
        {}, DIALECT.claims.read(pod(core="20", memory="20Gi", rdma="10")), CardChoice()
    )
    allocator.fit(state.devices, np.array([0]), FitColumns.empty(1))
    relative, dimension, asked, free = allocator.shortfall(state.devices.columns, np.array([0, 1, 2]))
    assert relative.tolist() == [0.5, 0.0, 0.0]
    assert (int(dimension[0]), int(asked[0]), int(free[0])) == (2, 20, 10)


def test_a_device_that_is_not_asked_for_is_no_near_miss() -> None:
    coreless = gpu(0, resources=long({"memory": "16Gi", "ratio": "100"}))
    state = state_of(coreless, other("fpga", 1), other("rdma", 2))
    charge(state, "fpga/1", (90, 0, 0, 0))
    allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(pod(core="20", memory="1Gi", rdma="60")), CardChoice())
    allocator.fit(state.devices, np.array([0]), FitColumns.empty(1))
    relative, *_ = allocator.shortfall(state.devices.columns, np.array([0, 1, 2]))
    assert relative.tolist() == [0, 0, 0]


def test_weights_of_a_policy_hold_for_cards() -> None:
    weights: Weights = ((LONG["core"], 1),)
    state = used((1, 30))
    charge(state, "gpu/2", (0, 0, 90, 0))
    choice = CardChoice(device_share_order=ShareOrder(Strategy.MOST_ALLOCATED, weights))
    assert minors(place(state, pod(ratio="30"), choice)) == ["gpu/2"]

"""DeviceShare: which nodes and cards it takes, alone, and what Koordinator's own numbers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.share_worlds import World, node_scores, random_share_world
from tests.koordinator_arguments import DeviceShareArgumentError, ShareDefaults, deviceshare_arguments
from tests.scorers.clusters import pod, scores, winner

from vgpu_scheduler.allocators import CardChoice, FitColumns, ShareOrder, Strategy, Weights
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device
from vgpu_scheduler.scorers import (
    DOCUMENTED_SHARE_WEIGHTS,
    KOORDINATOR_SHARE_WEIGHTS,
    BinpackScorer,
    DeviceShareScorer,
    HamiScorer,
    NodePolicy,
    NodeScorer,
    ScoredPod,
    WeightedScorer,
)
from vgpu_scheduler.state import State

LEAST, MOST = Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED
RATIO, MEMORY, CORE = (f"koordinator.sh/gpu-{name}" for name in ("memory-ratio", "memory", "core"))
GIB = 2**30


# A node, and a card, that nothing else takes -----------------------------------------------------------------------


def hami_state(nodes: Mapping[str, Sequence[tuple[int, int, int]]], cpu: Mapping[str, int]) -> State:
    """Nodes with cards of 10 shares, 10000 MiB and 100 percent, so much of which is used, and cpu in use of 32."""
    state = State({"hami": 3})
    for name, cards in nodes.items():
        devices = [Device(f"{name}/{i}", "NVIDIA", "NVIDIA T4", (10, 10000, 100), i) for i in range(len(cards))]
        allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        wire = {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": allocatable}}
        state.observe_node(decode_node(wire), {"hami": devices})
        row = state.nodes.row(name)
        assert row is not None
        state.nodes.charge(row, {"cpu": 1000 * cpu.get(name, 0)})
        for number, used in enumerate(cards):
            position = state.devices.position(row, f"{name}/{number}")
            assert position is not None
            state.devices.charge(position, used, 1)
    return state


EACH_ITS_OWN = {
    "emptiest-memory": [(4, 0, 50)],
    "fullest-memory": [(1, 7000, 0)],
    "most-loaded": [(5, 4000, 90)],
    "least-loaded": [(1, 2000, 0)],
    "fullest-cpu": [(2, 3000, 20)],
}
"""Slots, memory and cores in use of the one card of each node."""


@pytest.mark.parametrize(
    ("scorer", "node"),
    [
        (DeviceShareScorer(LEAST), "emptiest-memory"),
        (DeviceShareScorer(MOST), "fullest-memory"),
        (DeviceShareScorer(MOST, ((RATIO, 1), (CORE, 3))), "most-loaded"),
        (HamiScorer(NodePolicy.BINPACK), "most-loaded"),
        (HamiScorer(NodePolicy.SPREAD), "least-loaded"),
        (BinpackScorer(), "fullest-cpu"),
    ],
)
def test_only_deviceshare_takes_the_node(scorer: NodeScorer, node: str) -> None:
    state = hami_state(EACH_ITS_OWN, {"fullest-cpu": 24})
    asked = pod(cpu="1", memory="1Gi", gpu="1", gpumem="1000", gpucores="0")
    assert winner(state, asked, WeightedScorer(scorer)) == node


CARDS = [(3, 2000, 0), (5, 4000, 70), (2, 7000, 0), (4, 0, 60)]


@pytest.mark.parametrize(
    ("choice", "card"),
    [
        (CardChoice(device_share_order=ShareOrder(LEAST, DOCUMENTED_SHARE_WEIGHTS)), "node/3"),
        (CardChoice(device_share_order=ShareOrder(MOST, DOCUMENTED_SHARE_WEIGHTS)), "node/2"),
        (CardChoice(device_share_order=ShareOrder(MOST, ((CORE, 1),))), "node/1"),
        (CardChoice(device_share_order=ShareOrder(MOST, ((MEMORY, 1),))), "node/2"),
        (CardChoice(device_share_order=ShareOrder(LEAST, ((MEMORY, 1),)), policy="binpack"), "node/3"),
        (CardChoice(device_share_order=ShareOrder(MOST, ())), "node/0"),
        (CardChoice(policy="binpack"), "node/1"),
        (CardChoice(policy="spread"), "node/0"),
    ],
)
def test_only_the_device_score_takes_the_card(choice: CardChoice, card: str) -> None:
    state = hami_state({"node": CARDS}, {})
    (((assignment,),),) = [place(state, choice, gpu="1", gpumem="1000")]
    assert assignment.uuid == card


def place(state: State, choice: CardChoice, **amounts: str) -> Any:
    workload, _ = pod(**amounts)
    return hami_dialect().claims.allocator({}, workload.claims, choice).place(state.devices, 0)


def test_cards_are_scored_anew_for_every_container() -> None:
    state = hami_state({"node": [(0, 0, 0), (0, 0, 0)]}, {})
    claim = Claim("NVIDIA", 1, (1, 4000, 0), (0, 0, 0))
    claims = tuple(ContainerClaims(f"c{i}", ContainerType.APP, (claim,)) for i in range(3))
    for strategy, cards in ((LEAST, ["node/0", "node/1", "node/0"]), (MOST, ["node/0", "node/0", "node/1"])):
        choice = CardChoice(device_share_order=ShareOrder(strategy, DOCUMENTED_SHARE_WEIGHTS))
        placed = hami_dialect().claims.allocator({}, claims, choice).place(state.devices, 0)
        assert placed is not None
        assert [assignment.uuid for (assignment,) in placed] == cards


# Koordinator's own numbers -----------------------------------------------------------------------------------------


def koordinator_state(nodes: Mapping[str, Sequence[tuple[int, tuple[int, int, int]]]]) -> State:
    """Nodes with GPUs of so many bytes; compute, bytes and ratio in use of each."""
    state = State({"koordinator": 4})
    for name, cards in nodes.items():
        devices = [Device(f"{name}/{i}", "gpu", "", (0, size, 100, 100), i) for i, (size, _) in enumerate(cards)]
        state.observe_node(
            decode_node({"metadata": {"name": name}, "spec": {}, "status": {}}), {"koordinator": devices}
        )
        row = state.nodes.row(name)
        assert row is not None
        for number, (_, (core, memory, ratio)) in enumerate(cards):
            position = state.devices.position(row, f"{name}/{number}")
            assert position is not None
            state.devices.charge(position, (0, memory, core, ratio), 1)
    return state


def workload(**amounts: int) -> ScoredPod:
    names = {"gpu": "nvidia.com/gpu", "core": CORE, "memory": MEMORY, "ratio": RATIO}
    limits = {names[name]: str(amount) for name, amount in amounts.items()}
    wire = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": limits, "limits": limits}}]},
    }
    known, dialect = decode_pod(wire), koordinator_dialect()
    return ScoredPod(known.spec.requests, dialect.claims.read(known), dialect.inventory.device_resources)


IDLE, HALF = (16 * GIB, (0, 0, 0)), (16 * GIB, (50, 8 * GIB, 50))


@pytest.mark.parametrize(
    ("weights", "nodes", "asked", "least", "most"),
    [
        pytest.param(KOORDINATOR_SHARE_WEIGHTS, {"x": [IDLE]}, {"ratio": 100}, {"x": 50}, {"x": 50}, id="K21"),
        pytest.param(DOCUMENTED_SHARE_WEIGHTS, {"x": [IDLE]}, {"ratio": 100}, {"x": 0}, {"x": 100}, id="K22"),
        pytest.param(KOORDINATOR_SHARE_WEIGHTS, {"x": [IDLE] * 2}, {"ratio": 50}, {"x": 87}, {"x": 12}, id="K23"),
        pytest.param(
            KOORDINATOR_SHARE_WEIGHTS,
            {"x": [IDLE] * 2, "y": [IDLE, HALF]},
            {"ratio": 50},
            {"x": 87, "y": 62},
            {"x": 12, "y": 37},
            id="K24-25",
        ),
        pytest.param(
            ((CORE, 3), (RATIO, 1)),
            {"x": [IDLE] * 2, "y": [IDLE, HALF]},
            {"core": 20, "ratio": 50},
            {"x": 86, "y": 61},
            {"x": 13, "y": 38},
            id="K27",
        ),
        pytest.param(
            DOCUMENTED_SHARE_WEIGHTS, {"x": [(80 * GIB, (0, 0, 0))] * 8}, {"gpu": 8}, {"x": 87}, {"x": 12}, id="K28"
        ),
        pytest.param(KOORDINATOR_SHARE_WEIGHTS, {"x": [IDLE]}, {"memory": 8 * GIB}, {"x": 75}, {"x": 25}, id="K32"),
        pytest.param(DOCUMENTED_SHARE_WEIGHTS, {"x": [IDLE]}, {"memory": 8 * GIB}, {"x": 100}, {"x": 0}, id="K32b"),
        pytest.param(
            KOORDINATOR_SHARE_WEIGHTS,
            {"a16": [IDLE], "b80": [(80 * GIB, (0, 0, 0))]},
            {"memory": 8 * GIB},
            {"a16": 75, "b80": 95},
            {"a16": 25, "b80": 5},
            id="K33-34",
        ),
        pytest.param(
            ((MEMORY, 2), (RATIO, 1)), {"x": [IDLE, IDLE, HALF]}, {"ratio": 50}, {"x": 77}, {"x": 21}, id="K57"
        ),
    ],
)
def test_scenarios(weights: Weights, nodes: Any, asked: Any, least: Any, most: Any) -> None:
    state, wanted = koordinator_state(nodes), workload(**asked)
    for strategy, expected in ((LEAST, least), (MOST, most)):
        assert scores(state, (wanted, None), WeightedScorer(DeviceShareScorer(strategy, weights))) == expected


def test_the_same_hardware_as_the_others() -> None:
    """X01: beside 8000 and 16000 of 24576 MiB, 4000 MiB and 20 percent of compute."""
    mib = 2**20
    size = 24576 * mib
    used = [(0, 8000 * mib, 32), (0, 0, 0), (0, 16000 * mib, 65)]
    state = koordinator_state({"p": [(size, amounts) for amounts in used], "q": [(size, (0, 0, 0))] * 3})
    wanted = workload(memory=4000 * mib, core=20)
    for strategy, expected in ((LEAST, {"p": 64, "q": 97}), (MOST, {"p": 34, "q": 2})):
        scorer = DeviceShareScorer(strategy, KOORDINATOR_SHARE_WEIGHTS)
        assert scores(state, (wanted, None), WeightedScorer(scorer)) == expected


# What a request is -------------------------------------------------------------------------------------------------


def hami_score(scorer: DeviceShareScorer, cards: Sequence[int], *claims: Claim) -> float:
    """The score of a node with idle cards of so many MiB for one container per claim."""
    state = State({"hami": 3})
    devices = [Device(f"card-{i}", "NVIDIA", "", (10, size, 100), i) for i, size in enumerate(cards)]
    state.observe_node(decode_node({"metadata": {"name": "node"}, "spec": {}, "status": {}}), {"hami": devices})
    containers = tuple(ContainerClaims(str(i), ContainerType.APP, (claim,)) for i, claim in enumerate(claims))
    compiled = scorer.compile(ScoredPod({}, containers, hami_dialect().inventory.device_resources))
    return float(compiled.score(state, state.nodes.rows(), FitColumns.empty(state.nodes.capacity))[0])


def hami_claim(memory: int = 0, percent: int = 0, cores: int = 0, count: int = 1) -> Claim:
    return Claim("NVIDIA", count, (1, memory, cores), (0, percent, 0))


def test_one_instance_counts_however_many_devices_are_asked_for() -> None:
    scorer = DeviceShareScorer(MOST)
    assert hami_score(scorer, [1000] * 4, hami_claim(500)) == 12
    assert hami_score(scorer, [1000] * 4, hami_claim(500, count=4)) == 12


def test_the_largest_claim_of_any_container_counts() -> None:
    scorer = DeviceShareScorer(MOST)
    small, large = hami_claim(100), hami_claim(800)
    assert hami_score(scorer, [1000], small, large) == hami_score(scorer, [1000], large, small) == 80


def test_amounts_and_percentages_are_seen_where_percent_is_counted() -> None:
    ratio, memory = DeviceShareScorer(MOST), DeviceShareScorer(MOST, ((MEMORY, 1),))
    assert hami_score(ratio, [1000, 3000], hami_claim(500)) == 12  # 25 percent of the average card, of 200
    assert hami_score(ratio, [1000, 3000], hami_claim(percent=50)) == 25
    assert hami_score(memory, [1000, 3000], hami_claim(500)) == 12
    assert hami_score(memory, [1000, 3000], hami_claim(percent=50)) == 0


def test_names_that_stand_for_nothing_are_skipped_with_their_weight() -> None:
    scorer = DeviceShareScorer(MOST, (("example.com/x", 100), (RATIO, 1), ("koordinator.sh/rdma", 7)))
    assert hami_score(scorer, [1000], hami_claim(500)) == 50
    assert hami_score(DeviceShareScorer(MOST, (("example.com/x", 100),)), [1000], hami_claim(500)) == 0


def test_several_types_add_up_and_are_cut_when_they_are_combined() -> None:
    state = State({"koordinator": 4})
    devices = [Device("gpu/0/", "gpu", "", (0, GIB, 100, 100)), Device("rdma/0/", "rdma", "", (100, 0, 0, 0))]
    state.observe_node(decode_node({"metadata": {"name": "node"}, "spec": {}, "status": {}}), {"koordinator": devices})
    wanted = ScoredPod({}, claims_on("gpu", "rdma"), koordinator_dialect().inventory.device_resources)
    scorer = DeviceShareScorer(LEAST, KOORDINATOR_SHARE_WEIGHTS)
    raw = scorer.compile(wanted).score(state, state.nodes.rows(), FitColumns.empty(state.nodes.capacity))
    assert (raw.tolist(), scorer.normalise(raw).tolist()) == ([200 - 5 - 10], [100])
    assert scorer.normalise(np.array([0.0, 99.0])).tolist() == [0, 99]


def claims_on(*vendors: str) -> tuple[ContainerClaims, ...]:
    of = {
        "gpu": Claim("gpu", 1, (0, 0, 0, 10), (0, 0, 0, 0)),
        "rdma": Claim("rdma", 1, (10, 0, 0, 0), (0, 0, 0, 0)),
    }
    return (ContainerClaims("c", ContainerType.APP, tuple(of[vendor] for vendor in vendors)),)


def test_equal_weights_are_equal_scorers() -> None:
    left, right = DeviceShareScorer(weights=((RATIO, 1), (CORE, 2))), DeviceShareScorer(weights=((CORE, 2), (RATIO, 1)))
    assert left == right
    assert hash(left) == hash(right)
    for weights, name in ((((RATIO, -1),), "negative"), (((RATIO, 1), (RATIO, 2)), "two weights")):
        with pytest.raises(ValueError, match=name):
            DeviceShareScorer(weights=weights)


# Properties --------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_range_and_order_of_nodes(seed: int, data: st.DataObject) -> None:
    world = random_share_world(np.random.default_rng(seed))
    types = len({want.vendor for container in world.pod.containers for want in container.wants})
    found = by_order(world, range(len(world.nodes)))
    assert all(0 <= score <= 100 * types and score == int(score) for score in found.values())
    assert found == by_order(world, data.draw(st.permutations(range(len(world.nodes)))))


def by_order(world: World, order: Sequence[int]) -> dict[str, float]:
    return node_scores(world, world.state(order))


# Arguments ---------------------------------------------------------------------------------------------------------


def test_both_sets_of_defaults() -> None:
    assert deviceshare_arguments({}) == ShareOrder(LEAST, DOCUMENTED_SHARE_WEIGHTS)
    assert deviceshare_arguments({}, ShareDefaults.KOORDINATOR) == ShareOrder(LEAST, KOORDINATOR_SHARE_WEIGHTS)
    most = {"scoringStrategy": {"type": "MostAllocated"}}
    assert deviceshare_arguments(most) == ShareOrder(MOST, DOCUMENTED_SHARE_WEIGHTS)
    assert deviceshare_arguments(most, ShareDefaults.KOORDINATOR) == ShareOrder(MOST, ())
    only = {"scoringStrategy": {"resources": [{"name": CORE, "weight": 2}, {"name": CORE, "weight": 7}]}}
    assert deviceshare_arguments(only) == ShareOrder(LEAST, ((CORE, 7),))
    with pytest.raises(DeviceShareArgumentError, match=r"^scoringStrategy\.type: None is not one of"):
        deviceshare_arguments(only, ShareDefaults.KOORDINATOR)


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        ([], "scoringStrategy"),
        ({"kind": "x"}, r"scoringStrategy\.kind"),
        ({"type": "leastallocated"}, r"scoringStrategy\.type"),
        ({"type": 1}, r"scoringStrategy\.type"),
        ({"resources": {}}, r"scoringStrategy\.resources"),
        ({"resources": ["x"]}, r"scoringStrategy\.resources\[0\]"),
        ({"resources": [{"name": "x", "weight": 1, "more": 1}]}, r"scoringStrategy\.resources\[0\]\.more"),
        ({"resources": [{"name": 1, "weight": 1}]}, r"scoringStrategy\.resources\[0\]\.name"),
        *(
            (
                {"resources": [{"name": "x", "weight": 1}, {"name": "y", "weight": weight}]},
                r"scoringStrategy\.resources\[1\]\.weight",
            )
            for weight in (0, 101, -1, 1.0, True, "1", None)
        ),
    ],
)
def test_a_bad_argument_is_named(strategy: object, field: str) -> None:
    for defaults in ShareDefaults:
        given_type = {"type": "LeastAllocated", **strategy} if isinstance(strategy, dict) else strategy
        with pytest.raises(DeviceShareArgumentError, match=f"^{field}: "):
            deviceshare_arguments({"scoringStrategy": given_type}, defaults)


def test_fields_about_other_things_are_left_alone() -> None:
    about = {"apiVersion": "v1", "kind": "DeviceShareArgs", "gpuShareUnsupportedModels": [], "allocator": "default"}
    assert deviceshare_arguments(about) == ShareOrder(LEAST, DOCUMENTED_SHARE_WEIGHTS)
    with pytest.raises(DeviceShareArgumentError, match=r"^scoreStrategy: no such field"):
        deviceshare_arguments({"scoreStrategy": {}})

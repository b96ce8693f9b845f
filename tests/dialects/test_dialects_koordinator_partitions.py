"""Koordinator's partitions: GPUs that are given out together, as a node says or as a pod wants."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import DIALECT, Obj, gpu, inventory, node, pod

from vgpu_scheduler.allocators import CardChoice, CardLimits, FitColumns, verdict
from vgpu_scheduler.dialects import ClaimError, CodecError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State, canonical

SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
TABLE = "scheduling.koordinator.sh/gpu-partitions"
MODEL = {"node.koordinator.sh/gpu-model": "H100"}
ONLY = {"node.koordinator.sh/gpu-partition-policy": "Honor"}


def listed(cards: int = 8, table: Any = None, **labels: str) -> Obj:
    found = inventory(*(gpu(minor) for minor in range(cards)), **labels)
    if table is not None:
        found["metadata"]["annotations"] = {TABLE: table if isinstance(table, str) else json.dumps(table)}
    return found


def state_with(labels: Obj, device: Obj, *used: int) -> State:
    there = node(**labels)
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    state.observe_node(there, {DIALECT.name: canonical(DIALECT.inventory.devices(there, device))})
    for minor in used:
        number = state.devices.position(0, f"gpu/{minor}/GPU-{minor}")
        assert number is not None
        state.devices.charge(number, (0, 16 * 2**30, 100, 100), 1)
    return state


def numbers(state: State, wanted: Pod, limits: CardLimits | None = None) -> list[int]:
    choice = CardChoice(limits=limits or CardLimits())
    allocator = DIALECT.claims.allocator(wanted.annotations, DIALECT.claims.read(wanted), choice)
    return [int(a.uuid.split("/")[1]) for held in allocator.place(state.devices, 0) or () for a in held]


def spec(**fields: Any) -> Obj:
    return {SPEC: json.dumps(fields)}


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        ("2", (), [0, 1]),
        ("2", (4,), [6, 7]),
        ("4", (4,), [0, 1, 2, 3]),
        ("1", (0, 2, 3), [1]),
        ("8", (), list(range(8))),
        ("3", (), [0, 1, 2]),  # of no partition: as elsewhere
        ("4", (1, 5), [0, 2, 3, 4]),
    ],
)
def test_halves_of_halves_of_known_models(count: str, used: tuple[int, ...], expected: list[int]) -> None:
    assert numbers(state_with(MODEL, listed(), *used), pod(nvidia=count)) == expected


@pytest.mark.parametrize("labels", [{**MODEL, **ONLY}, MODEL])
def test_only_partitions(labels: Obj) -> None:
    state, wish = state_with(labels, listed(), 1, 5), {} if labels is not MODEL else spec()
    assert numbers(state, pod(nvidia="3", annotations=wish)) == []
    assert numbers(state, pod(nvidia="4", annotations=wish)) == []
    assert numbers(state, pod(nvidia="2", annotations=wish)) == [2, 3]
    assert numbers(state, pod(ratio="50", annotations=wish)) == [0]


def test_a_pod_that_wants_a_partition_waits_where_there_is_no_table() -> None:
    assert numbers(state_with({}, listed()), pod(nvidia="2", annotations=spec())) == []
    assert numbers(state_with(ONLY, listed()), pod(nvidia="2")) == []
    assert numbers(state_with({}, listed()), pod(nvidia="2")) == [0, 1]


SCORED = {
    "2": [
        {"minors": [0, 1], "allocationScore": 2, "ringBusBandwidth": "100Gi"},
        {"minors": [3, 2], "allocationScore": 1},
    ]
}


@pytest.mark.parametrize(
    ("fields", "used", "expected"),
    [
        ({}, (), [2, 3]),
        ({}, (2,), [0, 1]),
        ({"allocatePolicy": "Restricted"}, (2,), []),
        ({"allocatePolicy": "BestEffort"}, (2,), [0, 1]),
        ({"ringBusBandwidth": "100Gi"}, (), [0, 1]),
        ({"ringBusBandwidth": "101Gi"}, (), []),
        ({"allocatePolicy": "Restricted", "ringBusBandwidth": "1"}, (), []),
    ],
)
def test_the_table_of_the_object(fields: Obj, used: tuple[int, ...], expected: list[int]) -> None:
    assert numbers(state_with(MODEL, listed(4, SCORED), *used), pod(nvidia="2", annotations=spec(**fields))) == expected


def test_cards_that_a_policy_denies_are_of_no_partition() -> None:
    state = state_with(MODEL, listed(gpu_model="H100"))
    assert numbers(state, pod(nvidia="2"), CardLimits(deny=("H100",))) == []


def test_why_no_partition_is_found() -> None:
    state, wanted = state_with({**MODEL, **ONLY}, listed(), 1, 5), pod(nvidia="4")
    into = FitColumns.empty(state.nodes.capacity)
    allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(wanted), CardChoice())
    allocator.fit(state.devices, np.zeros(1, dtype=np.int64), into)
    assert verdict(into.counts[0], int(into.cards[0])).detail == "2/8 CardInsufficientCore, 6/8 CardPartitionNotFit"


def test_single_cards_are_asked_about_as_nodes_are() -> None:
    table = {"1": [{"minors": [1]}]}
    state = state_with(ONLY, listed(2, table, gpu_partition_policy="Honor"))
    wanted = pod(nvidia="1")
    allocator = DIALECT.claims.allocator({}, DIALECT.claims.read(wanted), CardChoice())
    used = np.zeros((2, state.devices.dimensions), dtype=np.int64)
    assert allocator.takes_one_card
    assert allocator.fit_alone(state.devices, np.arange(2), used).tolist() == [False, True]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("x", "not JSON"),
        ("[]", "it is not an object"),
        ({"2": [{"minors": [0]}]}, "there are not 2"),
        ({"2": [{"minors": [0, 0]}]}, "not different minors"),
        ({"1": [{"minors": [63]}]}, "not different minors below 62"),
        ({"1": [{"minors": [0], "ringBusBandwidth": "fast"}]}, "'1'\\[0\\].ringBusBandwidth"),
        ({"1": [{"minors": [0], "allocationScore": 2**30}]}, "more than a partition can have"),
        ({"1": 3}, "'1' is not a list"),
        ({"1": [{"minors": [0]}] * 2000}, "more than a node has"),
    ],
)
def test_tables_that_cannot_be_read(table: Any, said: str) -> None:
    with pytest.raises(CodecError, match=f"annotation {TABLE}: .*{said}"):
        DIALECT.inventory.devices(node(), listed(4, table))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "it is not an object"),
        ('{"allocatePolicy":"Other"}', "'Other' is not one of Restricted, BestEffort"),
        ('{"ringBusBandwidth":"fast"}', "'ringBusBandwidth'"),
        ('{"size":2}', "'size' is not supported by this version: remove it"),
    ],
)
def test_specs_that_are_not_followed_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ClaimError) as caught:
        DIALECT.claims.read(pod(nvidia="2", annotations={SPEC: text}))
    assert str(caught.value).startswith(f"annotation {SPEC}")
    assert said in str(caught.value)
    assert DIALECT.claims.read(pod(rdma="50", annotations={SPEC: text}))

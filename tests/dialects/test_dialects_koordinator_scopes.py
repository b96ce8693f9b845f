"""Koordinator's topology tree: where its devices are, and from which scope of it a pod gets its GPUs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import (
    DIALECT,
    GIB,
    Obj,
    charge,
    gpu,
    inventory,
    minors,
    node,
    other,
    place,
    pod,
    state_of,
)

from vgpu_scheduler.allocators import CardChoice, FitColumns, ShareOrder, Strategy, verdict
from vgpu_scheduler.dialects import ClaimError, CodecError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.scorers import KOORDINATOR_SHARE_WEIGHTS
from vgpu_scheduler.state import State

HINT = "scheduling.koordinator.sh/device-allocate-hint"


def at(minor: int, numa: int, switch: str, **more: Any) -> Obj:
    return gpu(minor, topology={"nodeID": numa, "pcieID": switch}, **more)


def machine(*used: tuple[int, int]) -> State:
    """Two NUMA nodes of two switches of two GPUs of 16Gi; percent in use, by minor."""
    state = state_of(*(at(minor, minor // 4, str(minor // 2)) for minor in range(8)))
    for minor, percent in used:
        charge(state, f"gpu/{minor}/", (0, 16 * GIB * percent // 100, percent, percent))
    return state


def requiring(scope: str) -> Obj:
    return {HINT: json.dumps({"gpu": {"requiredTopologyScope": scope}})}


def numbers(state: State, wanted: Pod, strategy: Strategy = Strategy.LEAST_ALLOCATED) -> list[int]:
    choice = CardChoice(device_share_order=ShareOrder(strategy, KOORDINATOR_SHARE_WEIGHTS))
    allocator = DIALECT.claims.allocator(wanted.annotations, DIALECT.claims.read(wanted), choice)
    placed = allocator.place(state.devices, 0)
    return [int(held.uuid.split("/")[1]) for container in placed or () for held in container]


# Where devices are -------------------------------------------------------------------------------------------------


def test_switches_are_numbered_by_numa_node_then_id() -> None:
    listed = (at(0, 1, "a"), at(1, 0, "b"), at(2, 0, "a"), at(3, 1, "a"), {**other("rdma", 0), "topology": {}}, gpu(4))
    found = DIALECT.inventory.devices(node(), inventory(*listed))
    assert [(device.numa, device.group) for device in found] == [(1, 3), (0, 2), (0, 1), (1, 3), (0, 0), (0, -1)]


def test_a_switch_without_a_name_is_refused_by_the_field() -> None:
    with pytest.raises(CodecError, match=r"devices\[0\]\.topology\.pcieID: 3 is not a text"):
        DIALECT.inventory.devices(node(), inventory(gpu(0, topology={"pcieID": 3})))
    assert DIALECT.inventory.devices(node(), inventory(gpu(0, topology=None)))[0].group == -1


# Which are chosen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "strategy", "used", "expected"),
    [
        pytest.param({"ratio": "30"}, Strategy.LEAST_ALLOCATED, ((5, 50),), [4], id="K40"),
        pytest.param({"ratio": "30"}, Strategy.MOST_ALLOCATED, ((5, 50),), [5], id="K41"),
        pytest.param({"ratio": "30"}, Strategy.MOST_ALLOCATED, ((6, 25), (7, 50)), [7], id="K42"),
        pytest.param({"ratio": "30"}, Strategy.LEAST_ALLOCATED, ((6, 50), (7, 25)), [7], id="K43"),
        pytest.param({"nvidia": "2"}, Strategy.LEAST_ALLOCATED, ((5, 50),), [6, 7], id="K44"),
        pytest.param({"nvidia": "3"}, Strategy.LEAST_ALLOCATED, ((5, 50),), [4, 6, 7], id="K45"),
        pytest.param({"nvidia": "5"}, Strategy.LEAST_ALLOCATED, ((5, 50),), [0, 1, 2, 3, 4], id="K46"),
        pytest.param({"shared": "2", "ratio": "60"}, Strategy.MOST_ALLOCATED, ((5, 50),), [5, 0], id="several shares"),
    ],
)
def test_cards_of_the_smallest_scope(
    asked: Obj, strategy: Strategy, used: tuple[tuple[int, int], ...], expected: list[int]
) -> None:
    assert numbers(machine(*used), pod(**asked), strategy) == expected


def test_a_node_that_does_not_know_all_places_has_no_tree() -> None:
    state = state_of(at(0, 0, "a"), at(1, 1, "b"), at(2, 1, "b"), gpu(3))
    assert numbers(state, pod(nvidia="2")) == [0, 1]
    assert numbers(state, pod(nvidia="2", annotations=requiring("NUMANode"))) == []
    known = state_of(at(0, 0, "a"), at(1, 1, "b"), at(2, 1, "b"), other("rdma", 0))
    assert numbers(known, pod(nvidia="2")) == [1, 2]


# Required scopes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "count", "fits"),
    [("PCIe", 2, True), ("PCIe", 3, False), ("NUMANode", 3, True), ("NUMANode", 4, False), ("Node", 6, True)],
)
def test_a_required_scope(scope: str, count: int, fits: bool) -> None:  # noqa: FBT001
    state, wanted = machine((5, 50), (0, 100)), pod(nvidia=str(count), annotations=requiring(scope))
    assert len(numbers(state, wanted)) == (count if fits else 0)


def test_why_a_scope_is_not_found() -> None:
    state, wanted = machine((5, 50), (0, 100)), pod(nvidia="4", annotations=requiring("NUMANode"))
    into = FitColumns.empty(state.nodes.capacity)
    allocator = DIALECT.claims.allocator(wanted.annotations, DIALECT.claims.read(wanted), CardChoice())
    allocator.fit(state.devices, np.zeros(1, dtype=np.int64), into)
    assert verdict(into.counts[0], int(into.cards[0])).detail == "2/8 CardInsufficientCore, 6/8 NumaNotFit"


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "it is not an object"),
        ('{"gpu":null}', "'gpu' is not an object"),
        (
            '{"gpu":{"allocateStrategy":"ApplyForAll"}}',
            "'gpu'.'allocateStrategy' is not supported by this version: remove",
        ),
        ('{"gpu":{"vfSelector":{}}}', "'gpu'.'vfSelector' is not followed: remove it"),
        ('{"npu":{}}', "'npu' is not supported by this version: remove it"),
        ('{"rdma":{"selector":{"matchLabels":{"a":1}}}}', "'rdma'.'selector': Expected `str`, got `int`"),
        (
            '{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"Bad"}]}}}',
            "'Bad' is not a valid label selector",
        ),
        ('{"rdma":{"allocateStrategy":"All"}}', "'All' is not one of ApplyForAll, RequestsAsCount"),
        ('{"rdma":{"exclusivePolicy":5}}', "5 is not one of DeviceLevel, PCIeLevel"),
        (
            '{"rdma":{"requiredTopologyScope":"PCIe"}}',
            "'rdma'.'requiredTopologyScope' is not supported by this version",
        ),
        (
            '{"gpu":{"requiredTopologyScope":"Device"}}',
            "'Device' is not a scope that contains GPUs: write one of Node, NUMANode",
        ),
        ('{"gpu":{"requiredTopologyScope":["PCIe"]}}', "is not a scope that contains GPUs"),
    ],
)
def test_hints_that_are_not_followed_are_refused_by_name(hint: str, said: str) -> None:
    with pytest.raises(ClaimError) as caught:
        DIALECT.claims.read(pod(ratio="50", annotations={HINT: hint}))
    assert str(caught.value).startswith(f"annotation {HINT}")
    assert said in str(caught.value)


def test_shares_of_several_gpus_have_no_scope() -> None:
    with pytest.raises(ClaimError, match="not supported for shares of several GPUs"):
        DIALECT.claims.read(pod(shared="2", ratio="60", annotations=requiring("PCIe")))
    assert DIALECT.claims.read(pod(shared="2", ratio="200", annotations=requiring("PCIe")))
    assert DIALECT.claims.read(pod(shared="2", ratio="60", annotations={HINT: "{}"}))
    assert minors(place(machine(), pod(shared="2", ratio="60", annotations={HINT: '{"gpu":{}}'}))) == ["gpu/0", "gpu/1"]

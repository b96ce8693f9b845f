"""Parts of devices (virtual functions of Koordinator's) on the books of an engine, and in what is said of cards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.builders import pod_object
from tests.engine.dialect_worlds import (
    KOORDINATOR,
    KOORDINATOR_KEY,
    asking,
    beside,
    decided,
    engine_of,
    koordinator_node,
)
from tests.engine.test_engine_preemption import found

from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.engine.card_verdicts import card_verdicts
from vgpu_scheduler.engine.pools import pools
from vgpu_scheduler.engine.usage_meter import cards_held
from vgpu_scheduler.kube import decode_node as decode
from vgpu_scheduler.model import CardReason, Decision
from vgpu_scheduler.reading.cards import card_places
from vgpu_scheduler.whatif import World, make_dialect
from vgpu_scheduler.whatif.explanation.cards import held_cards
from vgpu_scheduler.whatif.world import usage

Obj = dict[str, Any]
RDMA, GPU = "koordinator.sh/rdma", "nvidia.com/gpu"
HINT = {"scheduling.koordinator.sh/device-allocate-hint": json.dumps({"rdma": {"vfSelector": {}}})}


def engine(*functions: int, labels: Obj | None = None) -> Engine:
    """A node with two GPUs and a device for each number, which has so many virtual functions."""
    made = engine_of(KOORDINATOR)
    node = koordinator_node("k")
    node["status"]["allocatable"] |= {RDMA: "1000", GPU: "2"}
    node["metadata"]["labels"] = {**node["metadata"].get("labels", {}), **(labels or {})}
    made.observe_node(decode(node), 0.0)
    listed = beside("GPU-0", "GPU-1")
    for minor, count in enumerate(functions):
        group = {"vfs": [{"minor": -1, "busID": f"{minor}.{i}"} for i in range(count)]}
        device = {"type": "rdma", "minor": minor, "id": f"n{minor}", "health": True, "vfGroups": [group]}
        listed["spec"]["devices"].append({**device, "resources": {RDMA: "100"}})
    made.observe_inventory("k", listed, 0.0)
    return made


def given(decision: Decision) -> list[str]:
    assert decision.placement is not None
    text = KOORDINATOR.allocation.annotations(decision.placement, 0)[KOORDINATOR_KEY]
    return [function["busID"] for entry in json.loads(text)["rdma"] for function in entry["extension"]["vfs"]]


def test_decisions_give_each_function_to_one_pod() -> None:
    made = engine(2, 1)
    found = [given(decided(made, asking(str(number), {RDMA: 1}, annotations=HINT))) for number in range(3)]
    assert sorted(found) == [["0.0"], ["0.1"], ["1.0"]]
    late = decided(made, asking("late", {RDMA: 1}, annotations=HINT))
    assert late.message == "0/1 nodes are available: 1 CardVirtualFunctionsExhausted."
    assert decided(made, asking("any", {RDMA: 1})).placement


def test_whoever_has_the_last_function_may_be_ended_for_it() -> None:
    made = engine(1)
    held, other = asking("held", {RDMA: 1}, annotations=HINT), asking("other", {RDMA: 1})
    for each in (held, other):
        assert decided(made, each).placement
        made.binding_succeeded(each.uid)
    high = asking("high", {RDMA: 1}, annotations=HINT, priority=9)
    assert decided(made, high).placement is None
    assert "held" in str(found(made, high))
    assert "other" not in str(found(made, high))


def test_parts_are_not_counted_as_cards() -> None:
    made = engine(3, 3)
    (pool, *rest) = pools(made.state, [KOORDINATOR])
    assert sum(pool.cards.values()) + sum(sum(each.cards.values()) for each in rest) == 4


def test_what_is_said_of_single_devices_knows_their_parts() -> None:
    made = engine(1, 0)
    verdicts = card_verdicts(made.algorithm, asking("p", {RDMA: 1}, annotations=HINT), "k")
    assert [each.reason for each in verdicts] == [None, CardReason.CardVirtualFunctionsExhausted]


@pytest.mark.parametrize(("count", "reasons"), [(2, [None, None]), (1, [None, None])])
def test_what_is_said_of_single_cards_of_a_partition(count: int, reasons: list[CardReason | None]) -> None:
    honour = {"node.koordinator.sh/gpu-model": "H100", "node.koordinator.sh/gpu-partition-policy": "Honor"}
    made = engine(labels=honour)
    assert [each.reason for each in card_verdicts(made.algorithm, asking("p", {GPU: count}), "k")] == reasons


def test_neither_a_function_nor_its_device_is_metered_as_a_card() -> None:
    made = engine(2)
    assert decided(made, asking("a", {RDMA: 1}, annotations=HINT)).placement
    row = made.state.nodes.row("k")
    assert row is not None
    (reservation,) = made.state.reservations("k")
    assert len(reservation.uses["koordinator"].charges) == 2, "it holds the device and a function of it"
    assert not list(cards_held(made.state, made.dialects, row))


def test_what_is_told_of_a_pod_names_devices_and_functions_and_cards_are_neither() -> None:
    made = World(EngineOptions([make_dialect("koordinator")]))
    node = koordinator_node("k")
    node["status"]["allocatable"] |= {RDMA: "100"}
    device = {"type": "rdma", "minor": 0, "id": "n0", "health": True, "resources": {RDMA: "100"}}
    listed = beside()
    listed |= {"kind": "Device", "apiVersion": "scheduling.koordinator.sh/v1alpha1", "metadata": {"name": "k"}}
    listed["spec"]["devices"] = [{**device, "vfGroups": [{"vfs": [{"minor": -1, "busID": "0.0"}]}]}]
    entry = {"minor": 0, "id": "n0", "resources": {RDMA: "1"}, "extension": {"vfs": [{"minor": -1, "busID": "0.0"}]}}
    served = pod_object("a", {"limits": {RDMA: "1"}, "requests": {RDMA: "1"}})
    served["metadata"]["annotations"] = {**HINT, KOORDINATOR_KEY: json.dumps({"rdma": [entry]})}
    served["spec"]["nodeName"] = "k"
    made.add([{"kind": "Node", "apiVersion": "v1", **node}, listed, {"kind": "Pod", "apiVersion": "v1", **served}])
    assert not usage.pods(made), "an RDMA device is no card"
    assert len(list(card_places(made))) == 1
    (bound,) = made.bound.values()
    assert [line for line in held_cards(made, bound) if line.endswith("(a virtual function)")]
    assert len(held_cards(made, bound)) == 2


def test_memory_that_a_pod_holds_is_told_in_mib() -> None:
    made = World(EngineOptions([make_dialect("koordinator")]))
    prefix = "koordinator.sh/gpu"
    listed = beside() | {
        "kind": "Device",
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "metadata": {"name": "k"},
    }
    amounts = {f"{prefix}-core": "100", f"{prefix}-memory": "80Gi", f"{prefix}-memory-ratio": "100"}
    listed["spec"]["devices"] = [{"type": "gpu", "minor": 0, "id": "g0", "health": True, "resources": amounts}]
    held = {f"{prefix}-core": "50", f"{prefix}-memory": str(2**30 + 1), f"{prefix}-memory-ratio": "2"}
    served = pod_object("a", {"limits": held, "requests": held})
    allocated = json.dumps({"gpu": [{"minor": 0, "resources": held}]})
    served["metadata"]["annotations"] = {KOORDINATOR_KEY: allocated}
    served["spec"]["nodeName"] = "k"
    made.add(
        [
            {"kind": "Node", "apiVersion": "v1", **koordinator_node("k")},
            listed,
            {"kind": "Pod", "apiVersion": "v1", **served},
        ]
    )
    (bound,) = made.bound.values()
    (line,) = held_cards(made, bound)
    assert "1025 MiB memory" in line

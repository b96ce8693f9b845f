"""Usage by node, card and model: states of cards and nodes, and devices that are no cards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.whatif.test_whatif_remedies import GPU, node, running
from tests.whatif.test_whatif_remedies_dialects import HALF, cluster

from vgpu_scheduler.engine import EngineOptions, cards_held
from vgpu_scheduler.whatif import World, make_dialect
from vgpu_scheduler.whatif.world import usage


def world_with(*objects: dict[str, Any], dialect: str = "hami") -> World:
    made = World(EngineOptions([make_dialect(dialect)]))
    made.add(objects)
    assert made.problems == []
    return made


def test_cards_that_the_kubelet_does_not_offer_are_neither_idle_nor_free() -> None:
    silent = node("a", cards=3, cordoned=(2,))
    silent["status"] = {field: {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "0"} for field in silent["status"]}
    made = world_with(silent, node("b", cards=1), running("p", "a", "GPU-a-0", 6000))
    cards = usage.cards(made)
    assert [card.state for card in cards] == ["plugin-silent", "plugin-silent", "cordoned", "ready"]
    at_a, at_b = usage.nodes(cards)
    assert (at_a.idle, at_a.memory.used, at_a.memory.free) == (0, 6000, 0)
    assert (at_b.idle, at_b.memory.free) == (1, 16384)
    (model,) = usage.models(made, cards)
    assert (model.cards, model.idle, model.cordoned, model.plugin_silent, model.unhealthy) == (4, 1, 1, 2, 0)
    made.add([node("a", cards=3)])
    assert [card.state for card in usage.cards(made)] == ["ready"] * 4, "the plugin offers the cards again"


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, "Ready"),
        ({"unschedulable": True}, "Ready,SchedulingDisabled"),
        ({"taints": ["not-ready"]}, "NotReady"),
        ({"taints": ["unreachable"], "unschedulable": True}, "NotReady,SchedulingDisabled"),
        ({"taints": ["memory-pressure"]}, "Ready"),
    ],
)
def test_the_status_of_a_node_is_what_kubectl_shows(spec: dict[str, Any], status: str) -> None:
    taints = [{"key": f"node.kubernetes.io/{each}", "effect": "NoSchedule"} for each in spec.pop("taints", ())]
    made = world_with(node("a", **spec, taints=taints))
    assert [each.status for each in usage.nodes(usage.cards(made))] == [status]
    made.add([node("a")])
    assert [each.status for each in usage.nodes(usage.cards(made))] == ["Ready"]


@pytest.mark.parametrize(("ready", "status"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "NotReady")])
def test_the_condition_of_a_node_counts_before_its_taints(ready: str, status: str) -> None:
    there = node("a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    there["status"]["conditions"] = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    assert [each.status for each in usage.nodes(usage.cards(world_with(there)))] == [status]


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_a_full_card_has_no_more_memory_in_use_than_it_has(part: float) -> None:
    """Though its memory is no whole number of MiB."""
    memory = 16945512448
    objects = cluster("koordinator", [[HALF]])
    for each in objects:
        if each["kind"] == "Device":
            each["spec"]["devices"][0]["resources"]["koordinator.sh/gpu-memory"] = str(memory)
        elif each["kind"] == "Pod":
            key = "scheduling.koordinator.sh/device-allocated"
            held = json.loads(each["metadata"]["annotations"][key])
            held["gpu"][0]["resources"]["koordinator.sh/gpu-memory"] = str(int(memory * part))
            each["metadata"]["annotations"][key] = json.dumps(held)
    (card,) = usage.cards(world_with(*objects, dialect="koordinator"))
    assert card.memory.total == memory // 2**20
    assert card.memory.used == (memory // 2**20 if part == 1.0 else -(-memory // 2 // 2**20))


def test_devices_of_other_kinds_are_no_cards() -> None:
    objects = cluster("koordinator", [[HALF]])
    for each in objects:
        if each["kind"] == "Device":
            nic = {"type": "rdma", "minor": 0, "id": "0000:1f:00.0", "health": True}
            each["spec"]["devices"].append({**nic, "resources": {"koordinator.sh/rdma": "100"}})
        elif each["kind"] == "Pod":
            key = "scheduling.koordinator.sh/device-allocated"
            held = each["metadata"]["annotations"][key]
            nic = '"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"100"}}]'
            each["metadata"]["annotations"][key] = f"{held.rstrip()[:-1]},{nic}}}"
            requests = each["spec"]["containers"][0]["resources"]
            for field in requests:
                requests[field]["koordinator.sh/rdma"] = "100"
    made = world_with(*objects, dialect="koordinator")
    assert [card.vendor for card in usage.cards(made)] == ["gpu"]
    assert [each.cards for each in usage.nodes(usage.cards(made))] == [1]
    (held,) = usage.pods(made)
    (reservation,) = made.engine.state.reservations(held.node)
    assert len(reservation.uses["koordinator"].charges) == 2, "the pod holds a card and an RDMA device"
    assert len(held.cards) == 1
    row = made.engine.state.nodes.row(held.node)
    assert row is not None
    assert len(list(cards_held(made.engine.state, made.engine.dialects, row))) == 1, "the meter counts the card alone"

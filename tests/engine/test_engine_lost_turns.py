"""Nodes where a pod of Volcano's names was never served: pods of as many cards keep away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, node_object
from tests.engine.dialect_worlds import HAMI, MEMORY, NUMBER, VOLCANO, asking, engine_of, volcano_node

from vgpu_scheduler.dialects.volcano import PluginVersion, volcano_dialect
from vgpu_scheduler.engine import ClosedByUnservedPods, ClosureCause, Engine, EngineOptions, QueueName
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.whatif import World, ask

LEFT, TIME, ON = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/vgpu-node"
CLOSED = "node(s) had a pod that never took its devices"


def with_node(*dialects: Any) -> Engine:
    """An engine with node ``v`` of two cards."""
    engine = engine_of(*(dialects or (VOLCANO,)))
    engine.observe_node(decode_node(volcano_node("v", "GPU-0", "GPU-1")), 0.0)
    return engine


def unserved(name: str, number: int = 1, *, version: int = 2, phase: str = "Failed", **more: Any) -> Pod:
    """A pod that was bound to ``v`` and has ended with all its cards left to allocate."""
    left = "".join(f"GPU-{index},NVIDIA,1000,0:" for index in range(number))
    notes = {ON: "v", TIME: "5", LEFT: left, "volcano.sh/vgpu-ids-new": left, **more.pop("notes", {})}
    return asking(
        name, {NUMBER: number, MEMORY: 1000}, version=version, nodeName="v", phase=phase, annotations=notes, **more
    )


def placed(engine: Engine, name: str, now: float, **limits: Any) -> str:
    """Have a pod decided; return its node, or the message if there is none."""
    amounts = limits or {NUMBER: 1, MEMORY: 1000}
    engine.observe_pod(asking(name, amounts), now)
    decision = engine.attempt(now)
    assert decision is not None
    return decision.placement.node if decision.placement else decision.message


@pytest.mark.parametrize("others", [(), (HAMI,)])
def test_a_node_is_closed_to_pods_of_as_many_cards_until_the_pod_is_gone(others: tuple[Any, ...]) -> None:
    engine = with_node(*others, VOLCANO)
    engine.observe_pod(unserved("left"), 0.0)
    assert engine.closed_nodes.closures("v") == (ClosedByUnservedPods(f"{NUMBER}: 1"),)
    assert engine.closed_nodes.counts()[ClosureCause.DEVICES_NOT_TAKEN] == 1
    assert list(engine.closed_nodes) == ["v"]
    assert placed(engine, "one", 1.0) == f"0/1 nodes are available: 1 {CLOSED}."
    assert placed(engine, "two", 1.0, **{NUMBER: 2, MEMORY: 1000}) == "v"
    assert placed(engine, "plain", 1.0, cpu=1) == "v"
    assert engine.queue.place("uid-one") is QueueName.UNSCHEDULABLE
    engine.remove_pod("uid-left", 2.0)
    assert engine.queue.place("uid-one") is QueueName.ACTIVE
    assert not engine.closed_nodes
    decision = engine.attempt(2.0)
    assert decision is not None
    assert decision.placement is not None


def test_it_is_opened_by_the_last_of_those_that_were_not_served() -> None:
    engine = with_node()
    for name in ("first", "second", "third"):
        engine.observe_pod(unserved(name), 0.0)
    engine.observe_pod(unserved("other", 2), 0.0)
    placed(engine, "one", 1.0)
    engine.remove_pod("uid-first", 2.0)
    engine.observe_pod(unserved("second", version=3, notes={LEFT: ";"}), 2.0)
    assert engine.queue.place("uid-one") is QueueName.UNSCHEDULABLE
    engine.observe_pod(unserved("third", version=3, notes={TIME: str(2**64 - 1)}), 3.0)
    assert engine.queue.place("uid-one") is QueueName.ACTIVE


def test_a_pod_that_fails_closes_the_node_when_that_is_seen() -> None:
    engine = with_node()
    engine.observe_pod(unserved("p", phase="Pending"), 0.0)
    assert not engine.closed_nodes
    engine.observe_pod(unserved("p", version=3), 1.0)
    assert engine.closed_nodes.is_closed("v", None, f"{NUMBER}: 1", serialized=True)
    assert not engine.closed_nodes.is_closed("v", None, f"{NUMBER}: 2", serialized=True)
    assert not engine.closed_nodes.is_closed("v", None, serialized=True)


def test_a_pod_that_runs_without_what_it_was_given_closes_it_and_stays_charged() -> None:
    """Memory without a number never reaches the plugin; such pods may have been bound before they were refused."""
    engine = with_node()
    notes = {ON: "v", TIME: "5", LEFT: "GPU-0,NVIDIA,1000,0:", "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,0:"}
    engine.observe_pod(asking("p", {MEMORY: 1000}, nodeName="v", annotations=notes, started=True), 0.0)
    assert engine.state.ledger() == {"v": {"GPU-0": (1, 1000, 0)}}
    assert placed(engine, "one", 1.0).endswith(f"1 {CLOSED}.")


def test_before_the_plugin_looked_at_numbers_it_is_closed_to_all_that_claim_cards() -> None:
    engine = with_node(volcano_dialect(plugin=PluginVersion.V1_11))
    engine.observe_pod(unserved("left"), 0.0)
    assert placed(engine, "two", 1.0, **{NUMBER: 2, MEMORY: 1000}).endswith(f"1 {CLOSED}.")
    assert placed(engine, "plain", 1.0, cpu=1) == "v"


def test_a_pod_of_another_dialect_is_not_kept_away() -> None:
    engine = with_node(HAMI, VOLCANO)
    engine.observe_node(decode_node(node_object("v", cards("h", 1), version=2)), 0.0)
    engine.observe_pod(unserved("left"), 0.0)
    engine.observe_pod(asking("h", dict(asks(1, 1000)["limits"])), 1.0)
    decision = engine.attempt(1.0)
    assert decision is not None
    assert decision.placement is not None


def test_a_node_that_is_gone_is_not_told_of() -> None:
    engine = with_node()
    engine.observe_pod(unserved("left"), 0.0)
    engine.remove_node("v")
    assert engine.closed_nodes.closures("v") == ()
    again = volcano_node("v", "GPU-0", version=3)
    again["metadata"]["uid"] = "another"
    engine.observe_node(decode_node(again), 1.0)
    assert engine.closed_nodes.closures("v")


def test_what_is_kept_is_what_the_pods_say_after_any_sequence() -> None:
    rng = np.random.default_rng(7)
    engine = with_node()
    turns = [f"{NUMBER}: {number}" for number in (1, 2, 3)]
    known: dict[str, Pod] = {}
    for step in range(400):
        name = f"p{rng.integers(6)}"
        if name in known and rng.random() < 0.3:
            engine.remove_pod(known.pop(name).uid, float(step))
            continue
        phase = str(rng.choice(["Pending", "Failed", "Succeeded"]))
        if name in known and known[name].terminal:
            phase = known[name].phase
        notes = {ON: str(rng.choice(["v", "w"])), TIME: str(rng.choice(["5", str(2**64 - 1)]))}
        uid = known[name].uid if name in known else f"{name}-{step}"
        known[name] = unserved(name, int(rng.integers(1, 4)), version=step + 3, phase=phase, notes=notes, uid=uid)
        engine.observe_pod(known[name], float(step))
        side = VOLCANO.node_side
        lost = {pod.uid: turn for pod in known.values() if (turn := side.unserved_pod(pod))}
        for turn in turns:
            expected = {each.node for each in lost.values() if each.plugin_key == turn}
            assert set(engine.closed_nodes.closed_to(None, turn, serialized=True)) == expected
            for place in ("v", "w"):
                held = {uid for uid, each in lost.items() if (each.node, each.plugin_key) == (place, turn)}
                assert set(engine.closed_nodes.unserved_pods.pods(place, turn)) == held
        assert bool(engine.closed_nodes) is bool(lost)
        assert set(engine.closed_nodes) == {each.node for each in lost.values()}


def test_what_if_says_the_same() -> None:
    world = World(EngineOptions([VOLCANO]))
    world.add([{"kind": "Node", **volcano_node("v", "GPU-0", "GPU-1")}])
    world.engine.observe_pod(unserved("left"), 0.0)
    decision = ask(world, asking("one", {NUMBER: 1, MEMORY: 1000})).decision
    assert decision.message == f"0/1 nodes are available: 1 {CLOSED}."
    assert decision.verdicts["v"].text == CLOSED
    refused = ask(world, asking("odd", {MEMORY: 1000})).decision
    assert f"{MEMORY} without a limit of {NUMBER}" in refused.message

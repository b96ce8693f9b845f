"""Many pods that all ask for something else: a node that changes costs those whom it may help, and no others."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, engine_with, node, node_object, pod, pod_object
from tests.engine.engine_vendors import ALL_VENDORS, AMOUNTS, ASKS, engine_on

from vgpu_scheduler.engine import Engine, QueueName, node_parts, requeuing
from vgpu_scheduler.engine.equivalence import NodeColumns
from vgpu_scheduler.engine.queued_pods import UnschedulableClass
from vgpu_scheduler.engine.requeuing import WaitingNeeds
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome

MEMORY = 8000
"""MiB of each card."""


def drained(engine: Engine, now: float) -> list[Decision]:
    decisions = []
    while (decision := engine.attempt(now)) is not None:
        decisions.append(decision)
    return decisions


def full_cluster(nodes: int, waiting: int) -> Engine:
    """Return an engine whose cards are all taken, and pods that wait, each for another amount."""
    engine = engine_with([node(f"n{number:03}", cards(f"n{number:03}", 1)) for number in range(nodes)])
    for number in range(nodes):
        engine.observe_pod(pod(f"holder{number}", asks(1, gpumem=MEMORY)), 0.0)
    assert all(decision.placement for decision in drained(engine, 0.0))
    for number in range(waiting):
        engine.observe_pod(pod(f"p{number:04}", asks(1, gpumem=MEMORY - number)), float(number))
    assert not any(decision.placement for decision in drained(engine, float(waiting)))
    return engine


def test_a_freed_card_costs_a_look_at_its_node(fitted: list[int]) -> None:
    engine = full_cluster(50, 600)
    fitted.clear()
    engine.remove_pod("uid-holder7", 800.0)
    placed = engine.attempt(800.0)
    assert placed is not None
    assert placed.placement is not None
    assert (placed.pod, placed.placement.node) == ("default/p0000", "n007")
    assert sum(fitted) <= 2, "neither other nodes nor other pods are looked at before"
    assert not drained(engine, 800.0)
    assert sum(fitted) <= 2 * 600, "each of the others looks at that node, and at no other"
    assert engine.queue.counts()[QueueName.UNSCHEDULABLE] == 599


@pytest.mark.long
def test_what_is_kept_for_waiting_pods_stays_within_64_mib() -> None:
    engine = full_cluster(5000, 0)
    for number in range(2000):
        engine.observe_pod(pod(f"p{number:04}", asks(1, gpumem=MEMORY - number)), 1.0)
    tracemalloc.start()
    try:
        assert not any(decision.placement for decision in drained(engine, 1.0))
        gc.collect()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 48 * 2**20 < kept < 64 * 2**20
    assert most < 72 * 2**20, "decisions themselves need little besides"


def test_what_is_known_of_a_node_is_counted_as_what_it_takes() -> None:
    columns = NodeColumns(1000)
    found = (columns.rejected, columns.score, columns.feasible, columns.fitted_at, *columns.fit.result())
    assert sum(array.nbytes for array in found) == 1000 * node_parts._BYTES_PER_NODE


def test_who_cannot_use_what_was_freed_is_not_tried(fitted: list[int]) -> None:
    engine = engine_with([node("a", cards("a", 1)), node("b", cards("b", 1))])
    for name in ("a", "b"):
        engine.observe_pod(pod(f"small-{name}", asks(1, gpumem=100)), 0.0)
        engine.observe_pod(pod(f"large-{name}", asks(1, gpumem=MEMORY - 100)), 0.0)
    assert all(decision.placement for decision in drained(engine, 0.0))
    for number in range(200):
        engine.observe_pod(pod(f"p{number:03}", asks(1, gpumem=1000 + number)), 1.0)
    engine.observe_pod(pod("fits", asks(1, gpumem=90)), 1.0)
    engine.observe_pod(pod("plain", asks(0, cpu="10000")), 1.0)
    drained(engine, 1.0)
    fitted.clear()
    engine.remove_pod("uid-small-a", 100.0)
    assert [decision.pod for decision in drained(engine, 100.0)] == ["default/fits"]
    assert len(fitted) <= 2


def test_a_new_reason_is_told_however_many_wait() -> None:
    """A node that takes pods again has no room for any of them: that is another reason than before."""
    engine = engine_with([node("a", cards("a", 1), unschedulable=True)])
    for number in range(100):
        engine.observe_pod(pod(f"p{number}", asks(1, gpumem=2 * MEMORY + number)), 0.0)
    assert all("unschedulable" in decision.message for decision in drained(engine, 0.0))
    engine.observe_node(node("a", cards("a", 1), version=2), 100.0)
    told = drained(engine, 100.0)
    assert len(told) == 100
    assert all("CardInsufficientMemory" in decision.message for decision in told)


def test_a_node_that_comes_piece_by_piece_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pods waited for before its labels came is not what they wait for when its cards come."""
    monkeypatch.setattr(requeuing, "_FEW", 0)
    engine = engine_with([node("other", cards("other", 1))])
    for number in range(3):
        engine.observe_pod(pod(f"p{number}", asks(1, gpumem=1000 + number), nodeSelector={"pool": "a"}), 0.0)
    assert len(drained(engine, 0.0)) == 3
    labels = {"pool": "a"}
    engine.observe_node(node("new", labels=labels), 100.0)
    assert not any(decision.placement for decision in drained(engine, 100.0))
    engine.observe_node(node("new", cards("new", 1), labels=labels, version=2), 200.0)
    assert sum(decision.placement is not None for decision in drained(engine, 200.0)) == 3


def test_a_card_that_was_freed_while_the_node_was_full_is_found_when_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeuing, "_FEW", 0)
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(pod("plain", asks(0, cpu="12"), nodeName="a"), 0.0)
    engine.observe_pod(pod("holder", asks(1, gpumem=MEMORY, cpu="2")), 0.0)
    engine.observe_pod(pod("waits", asks(1, gpumem=MEMORY, cpu="2")), 0.0)
    assert [decision.placement is not None for decision in drained(engine, 0.0)] == [True, False]
    engine.observe_pod(pod("more", asks(0, cpu="4"), nodeName="a"), 10.0)  # another scheduler put it there
    engine.remove_pod("uid-holder", 100.0)
    assert not any(decision.placement for decision in drained(engine, 100.0))
    engine.remove_pod("uid-more", 200.0)
    assert [decision.pod for decision in drained(engine, 200.0) if decision.placement] == ["default/waits"]


@pytest.mark.parametrize("few", [0, 32])
@pytest.mark.parametrize("seed", range(8))
def test_nobody_waits_for_whom_there_is_room(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to pods and nodes, who waits would find no place if all nodes were asked.

    Pods come and go; nodes join before their cards, labels and allocatable amounts are known, cards fail, nodes are
    cordoned and relabelled, and placements are checked again.
    """
    monkeypatch.setattr(requeuing, "_FEW", few)
    rng = np.random.default_rng(seed)
    names = ["n0", "n1"]
    engine = engine_with()
    about: dict[str, dict[str, Any]] = {}
    there: list[str] = []
    for step in range(200):
        now = 20.0 * step
        action = rng.integers(7)
        if action <= 2:
            name = f"p{step}"
            asked = asks(int(rng.integers(3)), gpumem=int(rng.integers(1, 10)) * 1000, cpu=str(rng.integers(1, 9)))
            selector = {"pool": "ab"[int(rng.integers(2))]} if rng.integers(2) else {}
            engine.observe_pod(pod(name, asked, priority=int(rng.integers(3)), nodeSelector=selector), now)
            there.append(f"uid-{name}")
        elif action == 3 and there:
            engine.remove_pod(there.pop(int(rng.integers(len(there)))), now)
        elif action == 4 and there:
            uid = there[int(rng.integers(len(there)))]
            if engine.state.reservation(uid) is not None and engine.assumed.recheck(uid) is None:
                engine.unreserve(uid, now)
        else:
            name = names[int(rng.integers(len(names)))]
            of_it = about.setdefault(name, {"cards": None, "unschedulable": False, "labels": {}, "cpu": "0"})
            match rng.integers(4):  # one thing at a time, as what tells of it comes at different times
                case 0:
                    healthy, memory = bool(rng.integers(4)), int(rng.integers(1, 4)) * 4000
                    of_it["cards"] = cards(name, 2, healthy=healthy, memory=memory)
                case 1:
                    of_it["unschedulable"] = not rng.integers(3)
                case 2:
                    of_it["labels"] = {"pool": "ab"[int(rng.integers(2))]}
                case _:
                    of_it["cpu"] = str(rng.integers(4) * 8)
            there_now = node(
                name,
                of_it["cards"],
                version=10 + step,
                unschedulable=of_it["unschedulable"],
                labels=of_it["labels"],
                allocatable={"cpu": of_it["cpu"]},
            )
            engine.observe_node(there_now, now)
        drained(engine, now)
        for uid in engine.queue.unschedulable():
            waiting = engine.state.pod(uid)
            assert waiting is not None
            assert engine.algorithm.decide(waiting).outcome is not Outcome.PLACED, (
                f"step {step}: {waiting.name} would fit"
            )
    assert engine.queue.placed_after_flush == 0


@pytest.mark.parametrize("seed", range(4))
def test_where_a_pod_fits_there_is_what_it_needs(seed: int) -> None:
    """For the cards of every vendor: what is needed at least is needed indeed."""
    rng = np.random.default_rng(seed)
    engine = engine_on(ALL_VENDORS, {**AMOUNTS, "cpu": "64", "memory": "64Gi", "pods": "110"})
    kinds, needs, placed = list(ASKS), WaitingNeeds(engine.state), 0
    for number in range(120):
        asked = dict(ASKS[kinds[int(rng.integers(len(kinds)))]])
        factor = int(rng.integers(1, 4))
        limits = {name: str(int(amount) * factor) if "mem" in name else amount for name, amount in asked.items()}
        wire = pod_object(f"p{number}", {"limits": limits, "requests": {**limits, "cpu": "100m"}})
        coming = decode_pod(wire)
        key = UnschedulableClass(number, ClusterEvent.NODE_ADD, node_local=True)
        if engine.algorithm.decide(coming).placement is not None:
            placed += 1
            needs.put(key, coming, *engine.algorithm.classes.need(coming))
            assert needs.helped_by(np.array([0])) == [key], limits
            needs.discard(key)
        engine.observe_pod(coming, 0.0)
        drained(engine, 0.0)
    assert placed > 20
    assert not len(needs)


def oversized(number: int, kind: str, factor: int, beside: str = "") -> Pod:
    limits = {name: str(int(amount) * (factor if "mem" in name else 1)) for name, amount in ASKS[kind].items()}
    wire = pod_object(f"big{number}", {"limits": limits, "requests": limits})
    if beside:
        first = {"name": "first", "resources": {"limits": ASKS[beside], "requests": ASKS[beside]}}
        wire["spec"]["containers"].insert(0, first)
    return decode_pod(wire)


@pytest.mark.parametrize("seed", range(4))
def test_what_no_card_has_is_refused_as_if_the_cards_were_walked(seed: int, fitted: list[int]) -> None:
    """With the same reasons and counts, and for all such pods at once."""
    rng = np.random.default_rng(seed)
    engine = engine_on(ALL_VENDORS, AMOUNTS)
    for number in range(4):
        wire = node_object(
            f"m{number}", annotations=ALL_VENDORS, allocatable=AMOUNTS, unschedulable=not rng.integers(3)
        )
        engine.observe_node(decode_node(wire), 0.0)
    for number in range(int(rng.integers(12))):
        kind = list(ASKS)[int(rng.integers(len(ASKS)))]
        engine.observe_pod(decode_pod(pod_object(f"p{number}", {"limits": ASKS[kind], "requests": ASKS[kind]})), 0.0)
    drained(engine, 0.0)
    for number, kind in enumerate(ASKS):
        for beside in ("", kind, "NVIDIA"):
            for factor in (1000, 1001, 70_000):
                asking = oversized(number, kind, factor, beside)
                shared, walked = engine.algorithm.decide(asking), engine.algorithm.decide(asking, explain=True)
                assert replace(shared, verdicts={}, near_miss=None) == replace(
                    walked, verdicts={}, near_miss=None, scores=shared.scores
                )
                if walked.placement is None:
                    assert engine.algorithm.nearest(asking) == walked.near_miss
    fitted.clear()
    for number in range(50):
        engine.algorithm.decide(oversized(number, "NVIDIA", 5000 + number))
    assert sum(fitted) <= 5, "the first of them asked all nodes"

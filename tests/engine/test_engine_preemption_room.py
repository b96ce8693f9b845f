"""Room that others have left is not lost to the pod that they left for, whatever becomes of its attempts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, cards, node
from tests.engine.preemption_fleet import CREATED, Fleet
from tests.engine.test_engine_preemption_ends import nominated

from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import Decision


def test_a_pod_that_was_placed_on_another_card_than_was_kept_finds_that_one_again() -> None:
    """The card that was kept at first is another pod's by then."""
    fleet = Fleet([node("a", cards("a", 2))])
    for name in ("low-1", "low-2"):
        fleet.come(name, 0, asks(gpumem=8000))
    fleet.decide()
    fleet.waiting_in_lanes = {"high"}
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    hold = fleet.engine.state.holds.get("uid-high")
    assert hold is not None
    (victim,) = hold.leaving
    other = ({"uid-low-1", "uid-low-2"} - {victim}).pop()
    for uid in (other, victim):  # who was no victim leaves first: its card is free sooner
        fleet.end(uid)
    fleet.decide()
    placed = fleet.engine.state.reservation("uid-high")
    assert placed is not None
    assert placed.uses["hami"].charges.keys() != hold.reservation.uses["hami"].charges.keys()
    fleet.come("rival", 5, asks(gpumem=8000), preemptionPolicy="Never")
    fleet.decide()
    assert fleet.node_of("rival") == "a"
    fleet.engine.unreserve("uid-high", fleet.now)
    assert not fleet.engine.state.over_capacity()
    fleet.come("another", 5, asks(gpumem=8000), preemptionPolicy="Never")
    fleet.decide()
    assert not fleet.node_of("another")
    fleet.waiting_in_lanes = set()
    fleet.now += 20.0
    fleet.decide()
    assert fleet.node_of("high") == "a"
    assert not fleet.engine.state.drift()


def test_an_attempt_that_fails_gives_up_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    fleet.come("rival", 5, asks(gpumem=8000), preemptionPolicy="Never")
    fleet.decide()
    decide, failed = fleet.engine.algorithm.decide, []

    def fail_once(pod: Pod, **how: Any) -> Decision:
        if pod.name == "high" and not failed:
            failed.append(pod.uid)
            raise RuntimeError("once")
        return decide(pod, **how)

    monkeypatch.setattr(fleet.engine.algorithm, "decide", fail_once)
    fleet.end("uid-low")
    fleet.decide()
    assert failed
    fleet.now += 1.2  # the rival is tried again, and the other one not yet
    fleet.decide()
    assert not fleet.node_of("rival")
    fleet.now += 20.0
    fleet.decide()
    assert fleet.node_of("high") == "a"


def test_a_new_leader_evicts_who_shares_the_card_of_those_that_end_already() -> None:
    """Another card is as cheap; but then the first victim would end for nothing."""
    fleet = Fleet([node("a", cards("a", 2))])
    for name, memory in (("z-alone", 8000), ("first", 4000), ("second", 4000)):
        fleet.come(name, 0, asks(gpumem=memory))
        fleet.decide()
    ends = fleet.objects["uid-first"]
    ends["metadata"].update(deletionTimestamp=CREATED, resourceVersion="500")
    ends["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    fleet.engine.observe_pod(decode_pod(ends), fleet.now)
    fleet.engine.observe_pod(nominated("high", "a"), fleet.now)
    fleet.engine.earlier_nominations.restore(fleet.now)
    found = fleet.engine.preemptions.of("uid-high")
    assert found is not None
    assert {victim.pod for victim in found.victims} == {"default/first", "default/second"}

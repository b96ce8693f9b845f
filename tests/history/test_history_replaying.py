"""A history is replayed: the same each time, as the engine decided it, and no card is given out twice."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.engine.builders import allocation, asks, card, in_group, node
from tests.history.recorded import BEGAN, HOUR, PREEMPTS, fleet, history, options, played, waiting
from tests.policy.resources import policy
from tests.seeds import seeds

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History, Removed, ReplayResult, replay
from vgpu_scheduler.kube import decode_budget, decode_quota

WHOLE = asks(1, 8000, 100)
OWNER = {"owner": "job", "owner_kind": "Job"}


def arrives(after: float, name: str, **more: Any) -> Arrived:
    return Arrived(BEGAN + after, waiting(name, **more))


def departs(after: float, name: str) -> Departed:
    return Departed(BEGAN + after, f"uid-{name}")


def decided(after: float, name: str, node: str) -> Decided:
    return Decided(BEGAN + after, f"uid-{name}", node)


def started(result: ReplayResult) -> dict[str, float | None]:
    """Return after how many seconds each pod was placed, by name."""
    return {each.pod.partition("/")[2]: each.started and each.started - BEGAN for each in result.pods}


def where(result: ReplayResult) -> dict[str, str]:
    return {each.uid: each.node for each in result.pods}


def decisions(past: History) -> list[tuple[float, str, str]]:
    return [(each.at, each.uid, each.node) for each in past.decided if each.node]


def audit(at: float, engine: Engine) -> None:
    assert engine.state.over_capacity() == {}, at


@pytest.mark.parametrize("seed", seeds(1, 30))
@pytest.mark.parametrize("preempts", [False, True])
def test_under_the_policies_that_made_it_a_replay_gives_the_same_decisions(seed: int, *, preempts: bool) -> None:
    policies = [PREEMPTS] if preempts else []
    past = played(seed, policies, preemption=preempts)

    result = replay(past, options(preemption=preempts), on_step=audit)

    placed = [(each.at, each.uid) for each in past.decided if each.node]
    found = sorted((each.started, each.uid) for each in result.pods if each.started is not None)
    assert found == sorted(placed)
    assert {each.uid: each.node for each in result.pods if each.node} == {
        each.uid: each.node for each in past.decided if each.node
    }
    assert len(result.evictions) == sum(len(each.evicted) for each in past.decided)
    assert result.lacked == {}
    if preempts and seed == 0:
        assert result.evictions


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_replay_comes_out_the_same_each_time(seed: int) -> None:
    past = played(seed)
    other = [policy("spread", {"nodes": {"policy": "spread"}})]

    first, second = (replay(past, options(), other, audit) for _ in range(2))

    assert first.pods == second.pods
    assert all(np.array_equal(one, two) for one, two in zip(astuple(first.series), astuple(second.series), strict=True))
    assert where(first) != where(replay(past, options()))


def test_what_is_there_in_the_beginning_holds_its_cards_until_it_departs() -> None:
    bound = waiting("old", resources=WHOLE, annotations=allocation("node-0", ("node-0-gpu-0", 8000, 100)),
                    nodeName="node-0", started=True)  # fmt: skip
    past = history(fleet(1, 1), [arrives(10, "new", resources=WHOLE), departs(60, "old")])
    past = History(past.began, past.ended, (*past.first, Changed(BEGAN, "Pod", bound)), past.events)

    result = replay(past, options(), on_step=audit)

    assert started(result) == {"new": 60.0}
    assert result.pods[0].waited == 50.0
    assert result.pods[0].cards == ("node-0-gpu-0",)


def test_a_pod_stays_as_long_as_it_did_from_when_it_is_placed() -> None:
    """In the history the second one had another card, and here it has to wait for the first."""
    events = [
        arrives(0, "first", resources=WHOLE),
        decided(0, "first", "gone"),
        arrives(10, "second", resources=WHOLE),
        decided(10, "second", "node-0"),
        departs(50, "second"),
        departs(100, "first"),
        arrives(120, "third", resources=WHOLE),
    ]

    result = replay(history(fleet(1, 1), events), options(), on_step=audit)

    assert started(result) == {"first": 0.0, "second": 100.0, "third": 140.0}
    assert [each.departed for each in result.pods] == [BEGAN + 100, BEGAN + 140, None]


def test_a_pod_that_was_never_placed_gives_up_when_it_did() -> None:
    events = [
        arrives(0, "large", resources=asks(1, 9000)),
        arrives(1, "long", resources=WHOLE),
        arrives(2, "patient", resources=WHOLE),
        departs(40, "patient"),
        departs(60, "large"),
    ]

    result = replay(history(fleet(1, 1), events), options(), on_step=audit)

    assert started(result) == {"large": None, "long": 1.0, "patient": None}
    assert [(each.waited, each.departed) for each in result.pods] == [
        (60.0, BEGAN + 60),
        (0.0, None),
        (38.0, BEGAN + 40),
    ]


def test_a_pod_that_fits_nowhere_waits_to_the_end() -> None:
    result = replay(history(fleet(1), [arrives(100, "large", resources=asks(3))]), options())

    assert started(result) == {"large": None}
    assert result.pods[0].waited == HOUR - 100
    assert result.pods[0].asked == 3


def test_victims_go_at_once_and_come_again_where_somebody_makes_them_anew() -> None:
    low = waiting("low", resources=WHOLE)
    owned = msgspec.structs.replace(low, **OWNER)
    lone = waiting("lone", resources=WHOLE)
    events = [
        Arrived(BEGAN, owned), decided(0, "low", "node-0"), departs(1000, "low"),
        Arrived(BEGAN, lone), decided(0, "lone", "node-0"),
        *(arrives(100, f"high-{each}", resources=WHOLE, priority=10) for each in range(2)),
        decided(100, "high-0", "elsewhere"), departs(400, "high-0"),
    ]  # fmt: skip
    past = history(fleet(1), events, PREEMPTS)

    result = replay(past, options(preemption=True), on_step=audit)

    by_name = {each.pod.partition("/")[2]: each for each in result.pods}
    assert {each.pod for each in result.evictions} == {"default/low", "default/lone"}
    assert by_name["low"].evictions == by_name["lone"].evictions == 1
    assert by_name["lone"].departed == result.evictions[0].at
    assert started(result)["high-0"] == started(result)["high-1"] == 100.0
    assert by_name["low"].waited == 300.0  # from when it had to go to when the first of the others has ended
    assert by_name["low"].departed == BEGAN + 400 + 1000


def test_who_is_counted_as_disrupted_already_takes_nothing_from_a_budget_again() -> None:
    labels = {"app": "web"}
    first, second = (waiting(name, resources=WHOLE, labels=labels, priority=n) for n, name in enumerate(("one", "two")))
    budget = decode_budget({"metadata": {"name": "b", "namespace": "default", "uid": "b"},
                            "spec": {"selector": {"matchLabels": labels}},
                            "status": {"disruptionsAllowed": 1, "disruptedPods": {"one": None}}})  # fmt: skip
    events = [
        Changed(BEGAN, "PodDisruptionBudget", budget),
        Arrived(BEGAN, first), decided(0, "one", "node-0"), Arrived(BEGAN, second), decided(0, "two", "node-0"),
        arrives(100, "high", resources=WHOLE, priority=10), arrives(200, "higher", resources=WHOLE, priority=11),
    ]  # fmt: skip

    result = replay(history(fleet(1), events, PREEMPTS), options(preemption=True), on_step=audit)

    assert [each.pod for each in result.evictions] == ["default/one", "default/two"]


def test_whom_the_history_evicted_does_not_come_again() -> None:
    low = msgspec.structs.replace(waiting("low", resources=WHOLE), **OWNER)
    again = msgspec.structs.replace(waiting("low-2", resources=WHOLE), **OWNER)
    events = [
        Arrived(BEGAN, low), decided(0, "low", "node-0"),
        arrives(100, "high", resources=WHOLE, priority=10),
        Decided(BEGAN + 100, "uid-high", "", evicted=("uid-low",)), departs(100, "low"),
        Arrived(BEGAN + 100, again), decided(101, "high", "node-0"),
    ]  # fmt: skip
    past = history(fleet(1, 1), events, PREEMPTS)

    result = replay(past, options(preemption=True), on_step=audit)
    assert started(result) == {"low": 0.0, "high": 100.0, "low-2": None}
    assert result.pods[0].departed == BEGAN + 100

    more_room = replay(history(fleet(2, 1), events, PREEMPTS), options(preemption=True), on_step=audit)
    assert started(more_room) == {"low": 0.0, "high": 100.0, "low-2": 101.0}


def test_whom_it_meets_in_the_beginning_comes_again_too() -> None:
    bound = waiting("old", resources=WHOLE, annotations=allocation("node-0", ("node-0-gpu-0", 8000, 100)),
                    nodeName="node-0", started=True)  # fmt: skip
    bound = msgspec.structs.replace(bound, start_time=int(BEGAN) - 500, **OWNER)
    past = history(fleet(1, 1), [arrives(100, "high", resources=WHOLE, priority=10), departs(300, "old"),
                                 decided(100, "high", "x"), departs(150, "high")], PREEMPTS)  # fmt: skip
    past = History(past.began, past.ended, (*past.first, Changed(BEGAN, "Pod", bound)), past.events)

    result = replay(past, options(preemption=True), on_step=audit)

    old = next(each for each in result.pods if each.uid == "uid-old")
    assert old.evictions == 1
    assert old.started == BEGAN - 500
    assert old.departed == BEGAN + 150 + 800  # it runs anew what it ran in all


def test_groups_are_placed_when_all_have_come() -> None:
    group = {"annotations": in_group("trainer", 3), "resources": WHOLE}
    events = [arrives(each * 10, f"worker-{each}", **group) for each in range(3)]

    result = replay(history(fleet(2), events), options(), on_step=audit)

    assert started(result) == {f"worker-{each}": 20.0 for each in range(3)}


def test_objects_change_as_they_did() -> None:
    quota = {"metadata": {"name": "q", "namespace": "default", "uid": "q", "resourceVersion": "5"},
             "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}}}  # fmt: skip
    found = decode_quota(quota)
    later = fleet(2, 1)[1]
    events = [
        Changed(BEGAN, "ResourceQuota", found),
        arrives(0, "first", resources=WHOLE),
        Removed(BEGAN + 100, "ResourceQuota", found),
        arrives(200, "second", resources=WHOLE),
        Changed(BEGAN + 300, "Node", later),
        Removed(BEGAN + 400, "Node", later),
        Changed(BEGAN, "Sparrow", found),
    ]

    result = replay(history(fleet(1, 1), events), options(), on_step=audit)

    assert started(result) == {"first": 100.0, "second": 300.0}
    assert where(result) == {"uid-first": "node-0", "uid-second": "node-1"}
    assert result.lacked == {"objects of kind Sparrow have no meaning with these settings": 1}


def test_policies_are_in_force_instead_of_those_of_the_same_name() -> None:
    denies = policy("cards", {"devices": {"types": {"deny": ["T4"]}}})
    past = history(fleet(1), [arrives(0, "first")], denies)

    assert started(replay(past, options())) == {"first": None}
    assert started(replay(past, options(), [policy("cards", {})])) == {"first": 0.0}
    assert started(replay(past, options(), [policy("others", {})])) == {"first": None}


def test_how_the_cards_stood() -> None:
    events = [arrives(0, "half", resources=asks(1, 4000)), decided(0, "half", "x"),
              arrives(100, "whole", resources=WHOLE), departs(200, "half")]  # fmt: skip

    series = replay(history(fleet(1), events), options()).series

    assert (series.times - BEGAN).tolist() == [0.0, 100.0, 200.0]
    assert series.cards.tolist() == [2.0, 2.0, 2.0]
    assert series.allocated.tolist() == [0.5, 1.5, 1.0]
    assert series.stranded_free.tolist() == [0.5, 0.5, 0.0]
    assert series.idle.tolist() == [1.0, 0.0, 1.0]


def test_cards_out_of_service_are_not_given_out() -> None:
    sick = node("node-0", [card("node-0-gpu-0", index=0), card("node-0-gpu-1", index=1, healthy=False)])
    well = node("node-0", [card("node-0-gpu-0", index=0), card("node-0-gpu-1", index=1)])
    pods = [Arrived(BEGAN, waiting(name, resources=asks(1, 8000, 100))) for name in "ab"]

    series = replay(history([well], [*pods, Changed(BEGAN + 60, "Node", sick)]), options()).series

    assert series.cards.tolist() == [2.0, 1.0]
    assert series.allocated.tolist() == [2.0, 1.0]

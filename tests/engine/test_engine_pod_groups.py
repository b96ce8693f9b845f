"""Groups of pods: as many of them are placed as are needed, or none; and what none leaves behind."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.engine.builders import asks, card, cards, engine_with, in_group, node, pod
from tests.engine.preemption_fleet import Fleet
from tests.simulation.invariants import resources
from tests.state.copies import algorithm_on, copied

from vgpu_scheduler.engine import Engine, QueueName, Requeue
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import Decision, Outcome


def member(name: str, group: str, memory: int = 1000, **more: Any) -> Pod:
    called, _, size = group.partition("/")
    return pod(name, asks(1, memory), annotations=in_group(called, int(size)), **more)


def attempt(engine: Engine, now: float = 0.0) -> list[tuple[str, Outcome]]:
    return [(decision.pod.partition("/")[2], decision.outcome) for decision in engine.schedule_next(now)]


def snapshot(engine: Engine) -> Any:
    """Everything that a decision may leave behind, but versions, which only rise."""
    state = engine.state
    return (
        state.ledger(),
        resources(state),
        state.quota_usage.as_values(),
        {held.uid: held for held in state.reservations()},
        state.devices.columns.used.copy().tolist(),
        state.pending_events.take().quota_freed,
    )


def test_members_are_decided_together_when_all_have_come() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(member("p0", "team/3"), 0.0)
    engine.observe_pod(member("p1", "team/3"), 0.0)
    [decision] = engine.schedule_next(0.0)
    assert decision.message == "waits for other pods of its group default/team: 3 are needed before any is placed."
    [decision] = engine.schedule_next(0.0)
    assert engine.schedule_next(0.0) == ()
    engine.observe_pod(member("p2", "team/3"), 1.0)
    placed = engine.schedule_next(1.0)
    assert [(d.pod, d.outcome) for d in placed] == [(f"default/p{n}", Outcome.PLACED) for n in range(3)]
    assert {held.uid for held in engine.state.reservations()} == {f"uid-p{n}" for n in range(3)}
    assert engine.schedule_next(1.0) == ()


def test_nobody_else_is_looked_at_while_too_few_pods_of_a_group_exist(monkeypatch: Any) -> None:
    engine, looked = engine_with([node("a", cards("a", 4))]), list[GroupKey]()
    status = engine.groups.status
    monkeypatch.setattr(engine.groups, "status", lambda key: (looked.append(key), status(key))[1])
    for number in range(3):
        engine.observe_pod(member(f"p{number}", "team/4"), 0.0)
        assert attempt(engine) == [(f"p{number}", Outcome.UNSCHEDULABLE)]
    assert not looked
    engine.observe_pod(member("p3", "team/4"), 0.0)
    assert [outcome for _, outcome in attempt(engine)] == [Outcome.PLACED] * 4
    assert looked


def test_if_one_does_not_fit_none_is_placed_and_all_say_why() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(pod("tenant", asks(1, 3000)), 0.0)
    assert engine.attempt(0.0) is not None
    before, versions = snapshot(engine), engine.state.nodes.version.copy()
    for number in range(3):
        engine.observe_pod(member(f"p{number}", "team/3", 2000), 0.0)
    decisions = engine.schedule_next(0.0)
    room = "they have room for at most 2 of them: CardInsufficientMemory"
    message = f"0/1 nodes are available: group default/team needs 3 pods to be placed at once, and {room}."
    assert [d.message for d in decisions] == [message] * 3
    assert all(d.placement is None for d in decisions)
    assert snapshot(engine) == before
    assert (engine.state.nodes.version == versions).all()
    assert not engine.state.drift()
    assert engine.schedule_next(5.0) == ()  # it wakes nobody, themselves included
    engine.remove_pod("uid-tenant", 6.0)
    assert attempt(engine, 20.0) == [(f"p{number}", Outcome.PLACED) for number in range(3)]


def test_an_undo_wakes_nobody_who_waits_for_a_quota() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.quota_limits.observe(ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": "2500"}))
    engine.observe_pod(pod("waits", asks(1, 3000)), 0.0)
    assert attempt(engine) == [("waits", Outcome.UNSCHEDULABLE)]
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2", 2000), 1.0)
    assert {outcome for _, outcome in attempt(engine, 1.0)} == {Outcome.UNSCHEDULABLE}
    assert attempt(engine, 30.0) == []
    assert engine.queue.place("uid-waits") is QueueName.UNSCHEDULABLE


@pytest.mark.parametrize(
    "where", ["preemptions.placed", "attempts._requeue_after_attempt", "attempts.waiting_holds.for_group"]
)
def test_an_error_after_the_decision_leaves_nothing_of_any(where: str, monkeypatch: Any) -> None:
    engine = engine_with([node("a", cards("a", 0 if "holds" in where else 2))])
    before = snapshot(engine)
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2"), 0.0)
    path, _, name = where.rpartition(".")
    owner = attrgetter(path)(engine)
    original = getattr(owner, name)

    def fails(*about: Any, **more: Any) -> Any:
        if "p1" in str(about):
            raise ZeroDivisionError
        return original(*about, **more)

    monkeypatch.setattr(owner, name, fails)
    assert attempt(engine) == [("p0", Outcome.ERROR), ("p1", Outcome.ERROR)]
    assert snapshot(engine)[:-1] == before[:-1]
    assert [engine.queue.place(f"uid-p{number}") for number in range(2)] == [QueueName.BACKOFF] * 2
    monkeypatch.undo()
    engine.observe_node(node("a", cards("a", 2), version=9), 5.0)
    assert attempt(engine, 5.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_an_error_in_one_leaves_nothing_of_the_others(monkeypatch: Any) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    before, decide = snapshot(engine), engine.algorithm.decide

    def fails(asked: Pod, **more: Any) -> Decision:
        if asked.name == "p1":
            raise ZeroDivisionError
        return decide(asked, **more)

    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2"), 0.0)
    monkeypatch.setattr(engine.algorithm, "decide", fails)
    assert attempt(engine) == [("p0", Outcome.ERROR), ("p1", Outcome.ERROR)]
    assert snapshot(engine) == before
    monkeypatch.undo()
    assert attempt(engine, 5.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


@pytest.mark.parametrize("lowest_first", [True, False])
def test_the_turn_of_a_group_is_that_of_its_lowest_pod(*, lowest_first: bool) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    pods = [member("p0", "team/2", priority=3), pod("alone", priority=5), member("p1", "team/2", priority=9)]
    for each in pods if lowest_first else reversed(pods):
        engine.observe_pod(each, 0.0)
    assert [name for name, _ in attempt(engine)] == ["alone"]
    engine.observe_pod(pod("below", priority=2), 0.0)
    assert [name for name, _ in attempt(engine)] == ["p0", "p1"]
    assert [name for name, _ in attempt(engine)] == ["below"]


def test_the_turn_of_a_group_comes_earlier_when_its_lowest_pod_goes() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    for name, priority in (("low", 1), ("p0", 9), ("p1", 8)):
        engine.observe_pod(member(name, "team/2", priority=priority), 0.0)
    engine.observe_pod(pod("alone", priority=5), 0.0)
    engine.remove_pod("uid-low", 0.0)
    assert [name for name, _ in attempt(engine)] == ["p0", "p1"]
    assert [name for name, _ in attempt(engine)] == ["alone"]


def test_a_pod_that_leaves_its_group_has_its_own_turn() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    for name, priority in (("low", 1), ("high", 9)):
        engine.observe_pod(member(name, "team/2", priority=priority), 0.0)
    engine.observe_pod(pod("alone", priority=5), 0.0)
    engine.observe_pod(pod("high", asks(1, 1000), priority=9, version=2), 0.0)
    assert [name for _ in range(3) for name, _ in attempt(engine)] == ["high", "alone", "low"]


def test_a_member_that_is_given_back_is_decided_again_beside_those_that_are_bound() -> None:
    engine = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))])
    for number in range(3):
        engine.observe_pod(member(f"p{number}", "team/3"), 0.0)
    engine.schedule_next(0.0)
    for number in range(2):
        engine.binding_succeeded(f"uid-p{number}")
    engine.unreserve("uid-p2", 1.0, Requeue.NOW)
    assert attempt(engine, 1.0) == [("p2", Outcome.PLACED)]


def test_a_member_that_goes_leaves_the_others_waiting_for_another() -> None:
    engine = engine_with([node("a", cards("a", 1, memory=1500))])
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2"), 0.0)
    assert {outcome for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.remove_pod("uid-p1", 1.0)
    engine.observe_node(node("a", cards("a", 2), version=2), 2.0)
    [(name, outcome)] = attempt(engine, 20.0)
    assert (name, outcome) == ("p0", Outcome.UNSCHEDULABLE)
    engine.observe_pod(member("p2", "team/2"), 21.0)
    assert attempt(engine, 21.0) == [("p0", Outcome.PLACED), ("p2", Outcome.PLACED)]


def more_of(size: int, port: int) -> dict[str, Any]:
    """Return the containers of a pod that takes a port of its node, or nothing."""
    if port != 1:
        return {}
    return {"containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": asks(1, size)}]}


sizes = st.lists(
    st.tuples(st.sampled_from([500, 1500, 2500, 4000]), st.sampled_from([0, 0, 1, 2])), min_size=1, max_size=12
)


@pytest.mark.parametrize("ends", ["is deleted", "is being deleted", "fails", "succeeds"])
def test_a_group_that_lost_a_pod_waits_for_another_unless_that_one_has_done_its_work(ends: str) -> None:
    """A Job that is restarted must not begin again below its minimum because one of its old pods is left."""
    engine = engine_with([node("a", cards("a", 3))])
    for number in range(3):
        engine.observe_pod(member(f"p{number}", "team/3"), 0.0)
    engine.schedule_next(0.0)
    engine.binding_succeeded("uid-p0")
    for number in (1, 2):
        engine.unreserve(f"uid-p{number}", 1.0, Requeue.NOW)
    if ends == "is deleted":
        engine.remove_pod("uid-p0", 1.0)
    elif ends == "is being deleted":
        engine.observe_pod(member("p0", "team/3", nodeName="a", deleting=True, version=2), 1.0)
    else:
        phase = "Succeeded" if ends == "succeeds" else "Failed"
        engine.observe_pod(member("p0", "team/3", nodeName="a", phase=phase, version=2), 1.0)
    if ends == "succeeds":
        assert attempt(engine, 1.0) == [("p1", Outcome.PLACED), ("p2", Outcome.PLACED)]
        return
    assert attempt(engine, 1.0) == [("p1", Outcome.UNSCHEDULABLE)]
    assert attempt(engine, 1.0) == [("p2", Outcome.UNSCHEDULABLE)]
    engine.observe_pod(member("p3", "team/3"), 2.0)
    assert attempt(engine, 2.0) == [(f"p{number}", Outcome.PLACED) for number in (1, 2, 3)]


def test_a_new_process_counts_what_has_succeeded() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(member("p0", "team/3", nodeName="a", phase="Succeeded"), 0.0)
    engine.observe_pod(member("p1", "team/3"), 0.0)
    assert attempt(engine) == [("p1", Outcome.UNSCHEDULABLE)]
    engine.observe_pod(member("p2", "team/3"), 0.0)
    assert attempt(engine) == [("p1", Outcome.PLACED), ("p2", Outcome.PLACED)]


def test_more_pods_than_are_needed_are_placed_one_by_one() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    for number in range(5):
        engine.observe_pod(member(f"p{number}", "team/2", 8000), 0.0)
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]
    [decision] = engine.schedule_next(0.0)
    says = "waits until the pods of its group default/team that are placed are bound: 2 are needed."
    assert decision.message == says, "they may be given back, and then this one would run alone"
    assert {outcome for _ in range(2) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.binding_succeeded("uid-p0")
    engine.binding_succeeded("uid-p1")
    found = dict(pair for _ in range(3) for pair in attempt(engine, 20.0))
    assert found == {"p2": Outcome.PLACED, "p3": Outcome.UNSCHEDULABLE, "p4": Outcome.UNSCHEDULABLE}
    engine.binding_succeeded("uid-p2")
    engine.remove_pod("uid-p0", 40.0)
    [(name, outcome)] = attempt(engine, 40.0)
    assert outcome is Outcome.PLACED, name


def test_the_rest_of_a_group_does_not_run_without_those_that_are_given_back() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    for number in range(3):
        engine.observe_pod(member(f"p{number}", "team/2", 8000), 0.0)
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]
    assert attempt(engine) == [("p2", Outcome.UNSCHEDULABLE)]
    for number in range(2):
        engine.unreserve(f"uid-p{number}", 1.0, Requeue.NOW)
    engine.observe_node(node("a", cards("a", 3), version=2, unschedulable=True), 1.0)
    assert {outcome for _, outcome in attempt(engine, 20.0)} == {Outcome.UNSCHEDULABLE}
    assert not list(engine.state.reservations())


@pytest.mark.parametrize("more", [{"nodeSelector": {"pool": "none"}}, {"resourceClaims": [{"name": "x"}]}])
def test_a_pod_that_never_fits_does_not_keep_the_others_from_being_woken(more: dict[str, Any]) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(pod("tenant", asks(1, 8000)), 0.0)
    assert engine.attempt(0.0) is not None
    engine.observe_pod(member("never", "team/2", 8000, **more), 0.0)
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2", 8000), 0.0)
    decisions = {decision.pod: decision for decision in engine.schedule_next(0.0)}
    assert {d.outcome for name, d in decisions.items() if name != "default/never"} == {Outcome.UNSCHEDULABLE}
    assert "CardInsufficientMemory" in decisions["default/p0"].message
    engine.remove_pod("uid-tenant", 20.0)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_what_helps_any_of_its_pods_wakes_a_group() -> None:
    taint = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    nodes = [node("a", cards("a", 1)), node("b", cards("b", 1), labels={"pool": "no"}, **taint)]
    engine = engine_with(nodes)
    engine.observe_pod(member("plain", "team/2", 6000), 0.0)
    term = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["no"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    more = {"affinity": affinity, "tolerations": [{"operator": "Exists"}]}
    engine.observe_pod(member("pool", "team/2", 8000, **more), 0.0)
    assert {outcome for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.observe_node(node("b", cards("b", 1), labels={"pool": "yes"}, version=2, **taint), 20.0)
    assert {outcome for _, outcome in attempt(engine, 20.0)} == {Outcome.PLACED}


@pytest.mark.parametrize("uuid", ["a-0", "a-1"])
def test_pods_that_differ_in_annotations_only_are_tried_in_other_orders(uuid: str) -> None:
    engine = engine_with([node("a", [card("a-0", memory=8000), card("a-1", memory=8000)])])
    engine.observe_pod(member("p0", "team/2", 8000), 0.0)
    notes = {**in_group("team", 2), "nvidia.com/use-gpuuuid": uuid}
    engine.observe_pod(pod("p1", asks(1, 8000), annotations=notes), 0.0)
    assert {outcome for _, outcome in attempt(engine)} == {Outcome.PLACED}


def test_a_member_that_goes_and_said_that_more_are_needed_wakes_the_others() -> None:
    engine = engine_with([node("a", cards("a", 3))])
    engine.observe_pod(member("old", "team/4"), 0.0)
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2"), 0.0)
    assert {outcome for _ in range(3) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.remove_pod("uid-old", 20.0)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_a_pod_that_does_not_fit_does_not_keep_enough_others_from_being_placed() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(member("huge", "team/2", 9000), 0.0)
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2", 8000), 0.0)
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]
    assert attempt(engine) == [("huge", Outcome.UNSCHEDULABLE)]


def test_the_hardest_to_place_comes_first() -> None:
    engine = engine_with([node("a", cards("a", 1)), node("b", cards("b", 1), labels={"pool": "b"})])
    engine.observe_pod(member("anywhere", "team/2", 8000), 0.0)
    engine.observe_pod(member("on-b", "team/2", 8000, nodeSelector={"pool": "b"}), 0.0)
    assert attempt(engine) == [("on-b", Outcome.PLACED), ("anywhere", Outcome.PLACED)]


def test_pods_that_cannot_be_understood_as_members_are_refused_by_themselves() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    notes = {**in_group("team", 2), "gang.scheduling.koordinator.sh/min-available": "two"}
    engine.observe_pod(pod("odd", asks(1, 1000), annotations=notes), 0.0)
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/2"), 0.0)
    [decision] = engine.schedule_next(0.0)
    assert decision.outcome is Outcome.REFUSED
    assert decision.message.startswith("annotation gang.scheduling.koordinator.sh/min-available: 'two' is not a number")
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_members_of_other_schedulers_count_once_they_are_bound() -> None:
    engine = engine_with([node("a", cards("a", 4))])
    for number in range(2):
        engine.observe_pod(member(f"p{number}", "team/3"), 0.0)
    engine.observe_pod(member("theirs", "team/3", scheduler="another", nominated="a"), 0.0)
    assert {outcome for _ in range(2) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.observe_pod(member("theirs", "team/3", scheduler="another", nodeName="a", version=2), 20.0)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


# Objects -------------------------------------------------------------------------------------------------------------


# Undone --------------------------------------------------------------------------------------------------------------


def test_a_group_that_does_not_fit_leaves_the_room_that_is_kept_for_others() -> None:
    """It takes the room of lower priorities, and gives it back with everything else."""
    fleet = Fleet([node("a", cards("a", 1))])
    fleet.come("low", 0, asks(gpumem=8000))
    fleet.decide()
    fleet.come("middle", 5, asks(gpumem=8000))
    fleet.decide()
    engine = fleet.engine
    hold = engine.state.holds.get("uid-middle")
    assert hold is not None
    fleet.end("uid-low")
    engine.queue.remove("uid-middle")  # it would be placed
    snapshot(engine)  # those who were woken are
    before = snapshot(engine)
    for name in ("high-1", "high-2"):
        fleet.come(name, 9, asks(gpumem=8000), annotations=in_group("team", 2))
    assert {decision.outcome for decision in engine.schedule_next(fleet.now)} == {Outcome.UNSCHEDULABLE}
    assert engine.state.holds.get("uid-middle") == hold
    assert snapshot(engine) == before
    assert not engine.state.drift()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), sizes, st.sampled_from([None, 3000, 9000]))
def test_all_or_nothing(nodes: list[int], asked: list[tuple[int, int]], quota: int | None) -> None:
    """A group is placed whenever its pods would be, one after the other; else it leaves nothing behind."""
    listed = [
        node(f"n{n}", [card(f"n{n}-{i}", memory=4000, count=3) for i in range(count)]) for n, count in enumerate(nodes)
    ]
    together, alone = engine_with(listed), engine_with(listed)
    for engine in (together, alone):
        if quota:
            engine.quota_limits.observe(ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": str(quota)}))
    ports = [more_of(size, port) for size, port in asked]
    names = [f"p{number:02}" for number in range(len(asked))]
    key = f"team/{len(asked)}"
    before = snapshot(together)
    for name, (size, _), more in zip(names, asked, ports, strict=True):
        together.observe_pod(member(name, key, size, **more), 0.0)
        alone.observe_pod(pod(name, asks(1, size), **more), 0.0)
    decisions = []
    while not decisions or decisions[-1].message.startswith("waits for other pods"):
        decisions = list(together.schedule_next(0.0))
    one_by_one = {d.pod: d for _ in names if (d := alone.attempt(0.0)) is not None}
    is_placed = decisions[0].placement is not None
    assert {d.pod for d in decisions} == {f"default/{name}" for name in names}
    assert all((d.placement is not None) is is_placed for d in decisions)
    assert is_placed or not all(decision.placement for decision in one_by_one.values())
    if not is_placed:
        assert snapshot(together) == before
    assert not together.state.drift()
    assert not together.state.over_capacity()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([500, 1500, 2500, 4000]), min_size=1, max_size=8),
    st.sampled_from([500, 3000, 4000]),
    st.data(),
)
def test_what_would_fit_without_tenants_is_what_a_copy_says(tenants: list[int], size: int, data: st.DataObject) -> None:
    engine = engine_with([node("a", [card(f"a-{i}", memory=4000, count=3) for i in range(2)])])
    placed = []
    for number, memory in enumerate(tenants):
        engine.observe_pod(pod(f"t{number}", asks(1, memory)), 0.0)
        decision = engine.attempt(0.0)
        assert decision is not None
        if decision.placement:
            placed.append(decision.uid)
    gone = data.draw(st.lists(st.sampled_from(placed), unique=True)) if placed else []
    asked = pod("asks", asks(1, size))
    before, used = snapshot(engine), engine.state.devices.columns.used.copy()
    found = engine.algorithm.node_fit.fits_without(asked, "a", gone)
    assert found == algorithm_on(engine, copied(engine.state, gone)).node_fit.fits_without(asked, "a", ())
    assert snapshot(engine) == before
    assert np.array_equal(engine.state.devices.columns.used, used)

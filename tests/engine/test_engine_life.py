"""What becomes of a pod: who wakes it, what stops it, and the second look right before it is bound."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest
from tests.engine.builders import allocation, asks, card, cards, engine_with, make_engine, node, pod

from vgpu_scheduler.engine import Engine, QueueName, SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement
from vgpu_scheduler.state import Phase


def attempt(engine: Engine, now: float = 0.0) -> Decision:
    decision = engine.attempt(now)
    assert decision is not None
    return decision


def uuids(placement: Placement | None) -> list[str]:
    assert placement is not None
    return [assignment.uuid for container in placement.containers for assignment in container]


def unschedulable(engine: Engine, asking: Pod) -> str:
    """Have a pod found unschedulable; return its UID. It may be tried again at once when something wakes it."""
    engine.observe_pod(asking, 0.0)
    decision = attempt(engine)
    assert decision.outcome is Outcome.UNSCHEDULABLE, decision
    assert engine.queue.place(asking.uid) is QueueName.UNSCHEDULABLE
    return asking.uid


# Hints ---------------------------------------------------------------------------------------------------------------


def test_freed_cards_wake_those_who_lack_cards_only() -> None:
    big = asks(1, 8000)
    engine = engine_with([node("a", cards("a", 1))], [pod("first", big)])
    attempt(engine)
    lacks_card = unschedulable(engine, pod("second", big))
    lacks_label = unschedulable(engine, pod("third", nodeSelector={"pool": "x"}))
    engine.remove_pod("uid-first", 10.0)
    assert engine.queue.place(lacks_card) is QueueName.ACTIVE
    assert engine.queue.place(lacks_label) is QueueName.UNSCHEDULABLE
    assert attempt(engine, 10.0).outcome is Outcome.PLACED


def test_freed_cpu_wakes_those_who_lack_cpu() -> None:
    plain = asks(0, cpu="12")
    engine = engine_with([node("a")], [pod("first", plain)])
    attempt(engine)
    uid = unschedulable(engine, pod("second", plain))
    engine.observe_pod(pod("first", plain, version=2, nodeName="a", phase="Succeeded"), 10.0)
    assert engine.queue.place(uid) is QueueName.ACTIVE


@pytest.mark.parametrize(
    ("changed", "wakes_label", "wakes_card"),
    [
        ({"labels": {"pool": "x"}}, True, False),
        ({"uid": "made-anew"}, True, True),  # a node that comes may help anyone
        ({"taints": [{"key": "a", "effect": "NoExecute"}]}, False, False),
        ({"allocatable": {"cpu": "99"}}, False, False),
        ({"registered": cards("a", 2, memory=9000)}, False, True),
        ({"annotations": {"heartbeat": "2"}}, False, False),
    ],
)
def test_a_node_wakes_those_whom_its_change_could_help(
    changed: dict[str, Any], *, wakes_label: bool, wakes_card: bool
) -> None:
    first = cards("a", 2)
    engine = engine_with([node("a", first)])
    lacks_label = unschedulable(engine, pod("label", nodeSelector={"pool": "x"}))
    lacks_card = unschedulable(engine, pod("card", asks(1, 9000)))
    engine.observe_node(node("a", **{"registered": first, "version": 2, **changed}), 10.0)
    assert (engine.queue.place(lacks_label) is QueueName.ACTIVE) is wakes_label
    assert (engine.queue.place(lacks_card) is QueueName.ACTIVE) is wakes_card


def test_a_card_that_is_healthy_again_wakes() -> None:
    engine = engine_with([node("a", cards("a", 1, healthy=False))])
    uid = unschedulable(engine, pod("p"))
    engine.observe_node(node("a", cards("a", 1), version=2), 10.0)
    assert engine.queue.place(uid) is QueueName.ACTIVE


def test_a_placement_given_back_wakes_others() -> None:
    big = asks(1, 8000)
    engine = engine_with([node("a", cards("a", 1))], [pod("first", big)])
    attempt(engine)
    uid = unschedulable(engine, pod("second", big))
    engine.unreserve("uid-first", 10.0)
    assert engine.queue.place(uid) is QueueName.ACTIVE


def test_a_heartbeat_of_the_pod_itself_wakes_nobody_but_a_change_of_what_it_asks_does() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(pod("p", asks(1, 9000)), 0.0)
    attempt(engine)
    engine.observe_pod(pod("p", asks(1, 9000), version=2), 1.0)
    assert engine.queue.place("uid-p") is QueueName.UNSCHEDULABLE
    engine.observe_pod(pod("p", asks(1, 9000), version=3, annotations={"nvidia.com/use-gputype": "T4"}), 2.0)
    assert engine.queue.place("uid-p") is QueueName.ACTIVE


# Pods that must not be placed ----------------------------------------------------------------------------------------


def test_a_gated_pod_waits_for_its_last_gate() -> None:
    gates = [{"name": "one"}, {"name": "two"}]
    engine = engine_with([node("a", cards("a", 1))], [pod("p", schedulingGates=gates)])
    assert (engine.attempt(0.0), engine.unbound_pods.gated) == (None, 1)
    engine.observe_pod(pod("p", version=2, schedulingGates=gates[:1]), 0.0)
    assert (engine.attempt(0.0), engine.unbound_pods.gated) == (None, 1)
    engine.observe_pod(pod("p", version=3), 0.0)
    assert (attempt(engine).outcome, engine.unbound_pods.gated) == (Outcome.PLACED, 0)


def test_a_gated_pod_that_is_deleted_is_gated_no_more() -> None:
    engine = engine_with([], [pod("p", schedulingGates=[{"name": "one"}])])
    engine.remove_pod("uid-p", 0.0)
    assert engine.unbound_pods.gated == 0


@pytest.mark.parametrize(
    "change",
    [{"deleting": True}, {"phase": "Failed"}, {"nodeName": "b"}, {"scheduler": "another"}],
    ids=["deleting", "terminal", "bound", "not ours"],
)
def test_pods_that_are_not_queued(change: dict[str, Any]) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("p", **change)])
    assert engine.attempt(0.0) is None
    if "scheduler" not in change:
        waiting = engine_with([], [pod("q")])
        waiting.observe_pod(pod("q", version=2, **change), 0.0)
        assert "uid-q" not in waiting.queue


def test_older_versions_and_removed_pods_are_ignored() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("p", version=5, deleting=True)])
    engine.observe_pod(pod("p", version=4), 0.0)
    assert engine.attempt(0.0) is None
    engine.remove_pod("uid-p", 0.0)
    engine.observe_pod(pod("p", version=9), 0.0)
    assert engine.attempt(0.0) is None
    assert engine.state.pod("uid-p") is None


# Errors --------------------------------------------------------------------------------------------------------------


def test_a_pod_whose_decision_raises_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("bad", priority=9), pod("good")])
    decide = SchedulingAlgorithm.decide

    def fails(self: SchedulingAlgorithm, asked: Pod, **more: Any) -> Decision:
        if asked.name == "bad":
            raise ZeroDivisionError("odd")
        return decide(self, asked, **more)

    monkeypatch.setattr(SchedulingAlgorithm, "decide", fails)
    bad, good = attempt(engine), attempt(engine)
    assert (bad.outcome, bad.message) == (Outcome.ERROR, "internal error: ZeroDivisionError('odd')")
    assert isinstance(bad.error, ZeroDivisionError)
    assert good.outcome is Outcome.PLACED
    assert engine.queue.place("uid-bad") is QueueName.BACKOFF  # tried again without any event
    monkeypatch.undo()
    assert attempt(engine, 1.0).outcome is Outcome.PLACED


@pytest.mark.parametrize(
    "where",
    [
        "groups.problem",
        "groups.incomplete_status",
        "attempts.gang_status",
        "attempts._requeue_after_attempt",
        "storage.decisions_before_sync",
        "preemptions.post_filter",
        "preemptions.placed",
        "attempts.waiting_holds.for_pod",
    ],
)
def test_a_pod_whose_attempt_raises_anywhere_does_not_stop_the_others(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asks(99) if "filter" in where or "holds" in where else asks()
    engine = engine_with([node("a", cards("a", 1))], [pod("bad", asked, priority=9), pod("good")])
    path, _, name = where.rpartition(".")
    owner = attrgetter(path)(engine)
    original = getattr(owner, name)

    def fails(*about: Any, **more: Any) -> Any:
        if "bad" in str(about):
            raise ZeroDivisionError("odd")
        return original(*about, **more)

    monkeypatch.setattr(owner, name, fails)
    bad, good = attempt(engine), attempt(engine)
    assert (bad.pod, bad.outcome, bad.message) == (
        "default/bad",
        Outcome.ERROR,
        "internal error: ZeroDivisionError('odd')",
    )
    assert good.outcome is Outcome.PLACED
    assert engine.queue.place("uid-bad") is QueueName.BACKOFF
    assert [held.uid for held in engine.state.reservations()] == ["uid-good"]
    assert not engine.state.in_flight("uid-bad")
    monkeypatch.undo()
    again = attempt(engine, 1.0)
    assert again.outcome is (Outcome.UNSCHEDULABLE if asked == asks(99) else Outcome.PLACED)


def test_a_pod_whose_look_at_changed_nodes_raises_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("bad", priority=9), pod("good")])
    monkeypatch.setattr(engine.queue, "retry_basis", lambda uid: uid if uid == "uid-bad" else None)
    monkeypatch.setattr(engine.attempts._requeuer, "changed_since", lambda *_: 1 / 0)
    assert [attempt(engine).outcome for _ in range(2)] == [Outcome.ERROR, Outcome.PLACED]
    assert engine.queue.place("uid-bad") is QueueName.BACKOFF


@pytest.mark.parametrize("step", ["_fit", "_score"])
def test_an_evaluation_that_broke_off_is_not_remembered(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("p")])
    with monkeypatch.context() as patch:
        patch.setattr(NodePart, step, lambda *_: 1 / 0)
        assert attempt(engine).outcome is Outcome.ERROR
    assert attempt(engine, 1.0).outcome is Outcome.PLACED


def test_an_assumption_that_raises_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("p")])
    with monkeypatch.context() as patch:
        patch.setattr(engine.state, "assume", lambda *_: 1 / 0)
        assert attempt(engine).outcome is Outcome.ERROR
    assert not engine.state.in_flight("uid-p")
    assert engine.state.ledger() == {}
    assert attempt(engine, 1.0).outcome is Outcome.PLACED


def test_unreadable_objects_are_problems_and_change_nothing() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    [problem] = engine.observe_node(node("a", "[{", version=2), 0.0)
    assert (problem.kind, problem.reason) == ("Node", "RegistrationUnreadable")
    assert [device.uuid for device in engine.state.devices.devices(0)] == ["a-gpu-0"]
    broken = {**allocation("a"), "hami.io/vgpu-devices-allocated": "x,y:"}
    [problem] = engine.observe_pod(pod("p", nodeName="a", started=True, annotations=broken), 0.0)
    assert (problem.kind, problem.name, problem.reason) == ("Pod", "p", "AllocationUnreadable")
    assert engine.observe_pod(pod("p", version=0, nodeName="a", started=True, annotations=broken), 0.0) == ()


# The second look -----------------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> Engine:
    """An engine that has just assumed pod ``p`` on a card of node ``a``; node ``b`` is there as well."""
    made = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], [pod("p")])
    assert attempt(made).placement
    return made


def test_a_placement_holds_while_nothing_changes(engine: Engine) -> None:
    first = engine.assumed.recheck("uid-p")
    assert first is not None
    assert first.node == "a"
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={"heartbeat": "1"}), 0.0)
    engine.observe_pod(pod("p", version=2, labels={"note": "x"}), 0.0)
    engine.observe_pod(pod("q"), 0.0)
    attempt(engine)
    assert engine.assumed.recheck("uid-p") is first


def test_a_card_that_became_unhealthy_is_exchanged_on_the_same_node(engine: Engine) -> None:
    [chosen] = uuids(engine.assumed.recheck("uid-p"))
    listed = [card(f"a-gpu-{n}", index=n, healthy=f"a-gpu-{n}" != chosen) for n in range(2)]
    engine.observe_node(node("a", listed, version=2), 0.0)
    [other] = uuids(engine.assumed.recheck("uid-p"))
    assert {chosen, other} == {"a-gpu-0", "a-gpu-1"}
    assert engine.state.ledger() == {"a": {other: (1, 1000, 0)}}
    assert engine.state.in_flight("uid-p")
    assert engine.assumed.recheck("uid-p") == engine.assumed.recheck("uid-p")


def test_the_cards_that_an_exchange_frees_help_those_who_wait() -> None:
    engine = engine_with([node("a", cards("a", 2))], [pod("p", asks(gpumem=6000))])
    [chosen] = [a.uuid for c in attempt(engine).placement.containers for a in c]
    engine.observe_pod(pod("other", asks(gpumem=6000), annotations={"nvidia.com/use-gpuuuid": chosen}), 0.0)
    assert attempt(engine).placement is None
    assert engine.queue.place("uid-other") is QueueName.UNSCHEDULABLE
    allowed = {"nvidia.com/nouse-gpuuuid": chosen}
    engine.observe_pod(pod("p", asks(gpumem=6000), version=2, annotations=allowed), 0.0)
    assert uuids(engine.assumed.recheck("uid-p")) != [chosen]
    decision = engine.attempt(10.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.uid == "uid-other"


def test_a_card_that_others_took_is_exchanged(engine: Engine) -> None:
    [chosen] = uuids(engine.assumed.recheck("uid-p"))
    greedy = allocation("a", (chosen, 8000, 0))
    engine.observe_pod(pod("greedy", scheduler="another", nodeName="a", annotations=greedy), 0.0)
    assert uuids(engine.assumed.recheck("uid-p")) != [chosen]
    assert engine.state.over_capacity() == {}


@pytest.mark.parametrize("takes", [{"cpu": "15"}, {"memory": "64Gi"}])
def test_a_node_that_others_filled_is_given_up(takes: dict[str, str]) -> None:
    engine = engine_with([node("a", cards("a", 2)), node("b")], [pod("p", asks(cpu="2", memory="1Gi"))])
    assert attempt(engine).placement
    engine.observe_pod(pod("other", asks(0, **takes), scheduler="another", nodeName="a"), 0.0)
    assert engine.assumed.recheck("uid-p") is None


@pytest.mark.parametrize(
    "change",
    [
        {"registered": cards("a", 2, healthy=False)},
        {"unschedulable": True},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"allocatable": {"nvidia.com/gpu": "0"}},
        {"allocatable": {"pods": "0"}},
    ],
    ids=["no healthy card", "cordoned", "tainted", "no slots", "no pods"],
)
def test_a_placement_on_a_node_that_does_not_take_it_any_more(engine: Engine, change: dict[str, Any]) -> None:
    engine.observe_node(node("a", **{"registered": cards("a", 2), "version": 2, **change}), 0.0)
    assert engine.assumed.recheck("uid-p") is None
    engine.unreserve("uid-p", 0.0)
    decision = attempt(engine, 1.0)
    assert decision.placement is not None
    assert decision.placement.node == "b"


@pytest.mark.parametrize(
    "change", [{"deleting": True}, {"phase": "Failed"}, {"nodeName": "b"}, {"schedulingGates": [{"name": "g"}]}]
)
def test_a_pod_that_must_not_be_bound_any_more(engine: Engine, change: dict[str, Any]) -> None:
    engine.observe_pod(pod("p", version=2, **change), 0.0)
    assert engine.assumed.recheck("uid-p") is None
    engine.unreserve("uid-p", 0.0)
    assert "uid-p" not in engine.queue
    assert not engine.state.in_flight("uid-p")


def test_a_pod_or_a_node_that_is_gone(engine: Engine) -> None:
    engine.remove_node("a")
    assert engine.assumed.recheck("uid-p") is None
    engine.remove_pod("uid-p", 0.0)
    assert engine.assumed.recheck("uid-p") is None
    engine.unreserve("uid-p", 0.0)
    engine.binding_succeeded("uid-p")  # an answer that comes late
    assert engine.state.reservation("uid-p") is None
    assert not list(engine.state.reservations())


def test_what_a_pod_asks_for_may_change_while_it_waits_at_its_node(engine: Engine) -> None:
    [chosen] = uuids(engine.assumed.recheck("uid-p"))
    engine.observe_pod(pod("p", version=2, annotations={"nvidia.com/nouse-gpuuuid": chosen}), 0.0)
    assert uuids(engine.assumed.recheck("uid-p")) != [chosen]
    engine.observe_pod(pod("p", version=3, nodeSelector={"pool": "none"}), 0.0)
    assert engine.assumed.recheck("uid-p") is None


def test_only_assumed_placements_are_looked_at(engine: Engine) -> None:
    assert engine.assumed.recheck("uid-unknown") is None
    engine.binding_succeeded("uid-p")
    assert engine.assumed.recheck("uid-p") is None


def test_the_answer_and_the_watch_may_come_in_either_order(engine: Engine) -> None:
    notes = engine.dialects.annotations(engine.assumed.recheck("uid-p") or Placement(""), 0)
    held = engine.state.ledger()
    engine.binding_succeeded("uid-p")
    reservation = engine.state.reservation("uid-p")
    assert reservation is not None
    assert reservation.phase is Phase.CONFIRMED
    engine.observe_pod(pod("p", version=2, labels={"late": "news"}), 0.0)  # from before the Binding
    assert engine.state.ledger() == held
    engine.observe_pod(pod("p", version=3, nodeName="a", annotations=notes), 0.0)
    engine.binding_succeeded("uid-p")
    reservation = engine.state.reservation("uid-p")
    assert reservation is not None
    assert reservation.phase is Phase.BOUND
    assert engine.state.ledger() == held
    assert "uid-p" not in engine.queue


# Nodes ----------------------------------------------------------------------------------------------------------------


def test_late_news_of_an_earlier_node_do_not_touch_its_namesake() -> None:
    engine = engine_with([node("a", cards("a", 1), version=3, uid="one")])
    engine.observe_node(node("a", cards("a", 2), version=6, uid="two"), 0.0)  # nobody reported the end of the first
    engine.observe_node(node("a", cards("a", 1), version=5, uid="one"), 0.0)
    known = engine.state.node("a")
    assert known is not None
    assert known.uid == "two"


def test_a_late_answer_does_not_bring_a_node_back() -> None:
    engine = make_engine()
    engine.observe_node(node("a", cards("a", 1), version=3, uid="one"), 0.0)
    engine.remove_node("a")
    engine.observe_node(node("a", cards("a", 1), version=4, uid="one"), 0.0)
    assert engine.state.node("a") is None
    engine.observe_node(node("a", cards("a", 2), version=6, uid="two"), 0.0)
    engine.observe_node(node("a", cards("a", 1), version=5, uid="one"), 0.0)
    assert [device.uuid for device in engine.state.devices.devices(engine.state.nodes.row("a") or 0)] == [
        "a-gpu-0",
        "a-gpu-1",
    ]

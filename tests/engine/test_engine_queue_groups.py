"""Unschedulable pods that would get the same answer: one is tried for all, and nobody is stranded by that."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine, QueueName, SchedulingQueue
from vgpu_scheduler.engine.queue import FLUSH_AFTER
from vgpu_scheduler.engine.queued_pods import MAX_BACKOFF, QueueEvent
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome


def unschedulable(
    *uids: str, waits_for: ClusterEvent = ClusterEvent.NODE_ADD, equivalence: str | None = "shape"
) -> SchedulingQueue:
    queue = SchedulingQueue()
    for uid in uids:
        queue.add(uid, 0, 0.0)
    while (uid := queue.pop(0.0)) is not None:
        queue.add_unschedulable(uid, waits_for, 0.0, equivalence)
    return queue


def test_one_is_tried_for_all_that_are_alike() -> None:
    queue = unschedulable("a", "b", "c")
    assert queue.requeue(ClusterEvent.NODE_ADD, 20.0) == 1
    assert queue.pop(20.0) == "a"
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 20.0, "shape")
    assert queue.pop(20.0) is None


def test_after_one_that_was_placed_comes_the_next() -> None:
    queue = unschedulable("a", "b", "c")
    queue.requeue(ClusterEvent.NODE_ADD, 20.0)
    for uid in "ab":
        assert queue.pop(20.0) == uid
        queue.placed(uid, 20.0)
    assert queue.pop(20.0) == "c"
    queue.add_unschedulable("c", ClusterEvent.NODE_ADD, 20.0, "shape")
    assert queue.counts()[QueueName.UNSCHEDULABLE] == 1


def test_the_highest_priority_is_tried_first_and_one_in_back_off_is_passed_over() -> None:
    queue = SchedulingQueue()
    for number, (uid, priority) in enumerate((("low", 0), ("high", 5), ("late", 5))):
        queue.add(uid, priority, float(number))
    while (popped := queue.pop(3.0)) is not None:
        queue.add_unschedulable(popped, ClusterEvent.NODE_ADD, 3.0, "shape")
    queue.requeue(ClusterEvent.NODE_ADD, 10.0)
    assert queue.pop(10.0) == "high"
    queue.add_unschedulable("high", ClusterEvent.NODE_ADD, 10.0, "shape")
    queue.requeue(ClusterEvent.NODE_ADD, 10.5)
    assert queue.pop(10.5) == "late"


def test_one_that_goes_before_it_was_tried_passes_its_turn_on() -> None:
    queue = unschedulable("a", "b")
    queue.requeue(ClusterEvent.NODE_ADD, 20.0)
    queue.remove("a")
    assert queue.pop(20.0) == "b"


def test_one_that_asks_for_something_else_by_now_passes_its_turn_on() -> None:
    queue = unschedulable("a", "b")
    queue.requeue(ClusterEvent.NODE_ADD, 20.0)
    assert queue.pop(20.0) == "a"
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 20.0, "another shape")
    assert queue.pop(20.0) == "b"


def test_one_whose_attempt_failed_keeps_its_turn() -> None:
    queue = unschedulable("a", "b")
    queue.requeue(ClusterEvent.NODE_ADD, 20.0)
    assert queue.pop(20.0) == "a"
    queue.back_off("a", 20.0)
    assert queue.pop(20.0) is None
    assert queue.pop(40.0) == "a"
    queue.placed("a", 40.0)
    assert queue.pop(40.0) == "b"


def test_pods_that_stand_for_themselves_are_all_tried() -> None:
    queue = unschedulable("a", "b", equivalence=None)
    assert queue.requeue(ClusterEvent.NODE_ADD, 20.0) == 2


def test_a_flush_tries_each_by_itself_and_what_it_places_is_counted() -> None:
    """Grouping itself may be wrong: the flush does not rely on it."""
    queue = unschedulable("a", "b", "c")
    assert [queue.pop(FLUSH_AFTER) for _ in range(4)] == ["a", "b", "c", None]
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, FLUSH_AFTER, "shape")
    queue.placed("b", FLUSH_AFTER)
    queue.add_unschedulable("c", ClusterEvent.NODE_ADD, FLUSH_AFTER, "shape")
    assert queue.placed_after_flush == 1
    queue.requeue(ClusterEvent.NODE_ADD, FLUSH_AFTER + 20)
    assert queue.pop(FLUSH_AFTER + 20) == "a"
    queue.placed("a", FLUSH_AFTER + 20)
    assert queue.pop(FLUSH_AFTER + 20) == "c"
    queue.placed("c", FLUSH_AFTER + 20)
    assert queue.placed_after_flush == 1, "an event has woken them"


def test_one_that_could_not_be_tried_has_made_no_attempt() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    assert queue.pop(0.0) == "a"
    queue.return_untried("a", ClusterEvent.STORAGE, 0.0)
    assert queue.attempts("a") == 0
    queue.requeue(ClusterEvent.STORAGE, 0.1)
    assert queue.pop(0.1) == "a", "without any back-off"


def test_what_a_change_has_helped_since_the_flush_is_not_counted() -> None:
    for claims_only in (False, True):
        queue = unschedulable("a", "b")
        queue.flush_due(FLUSH_AFTER)
        if claims_only:
            queue.wake(["a"], FLUSH_AFTER, QueueEvent.VOLUME_CLAIM_UPDATE)
        else:
            queue.requeue(ClusterEvent.NODE_ADD, FLUSH_AFTER)
        assert queue.pop(FLUSH_AFTER) == "a"
        queue.placed("a", FLUSH_AFTER)
        assert queue.placed_after_flush == 0
    queue = unschedulable("a")
    queue.flush_due(FLUSH_AFTER)
    queue.requeue(ClusterEvent.POLICY, FLUSH_AFTER)
    assert queue.pop(FLUSH_AFTER) == "a"
    queue.placed("a", FLUSH_AFTER)
    assert queue.placed_after_flush == 1, "what came could not help it"


def test_one_that_was_woken_before_the_flush_is_tried_for_all_even_if_nobody_looked_meanwhile() -> None:
    queue = unschedulable("a", "b")
    queue.requeue(ClusterEvent.NODE_ADD, 0.5)
    assert queue.place("a") is QueueName.BACKOFF
    assert queue.pop(FLUSH_AFTER) == "a"
    queue.placed("a", FLUSH_AFTER)
    assert queue.pop(FLUSH_AFTER) == "b"
    queue.placed("b", FLUSH_AFTER)
    assert queue.placed_after_flush == 0


SHAPES = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": 1}
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["come", "go", "change", "free", "try", "fail", "wait"]),
        st.sampled_from(sorted(SHAPES)),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=500, deadline=None)
@given(MOVES)
def test_nobody_waits_for_what_is_free(moves: list[tuple[str, str, int]]) -> None:
    """Slots of two classes are freed, one event each; in the end no pod waits while a slot of its class is free."""
    queue, now, pod_class, free = SchedulingQueue(), 0.0, dict(SHAPES), Counter({0: 1, 1: 1})

    def attempt(*, fails: bool = False) -> bool:
        uid = queue.pop(now)
        if uid is None:
            return False
        if fails:
            queue.back_off(uid, now)
        elif free[pod_class[uid]]:
            free[pod_class[uid]] -= 1
            queue.placed(uid, now)
            queue.remove(uid)
        else:
            queue.add_unschedulable(
                uid,
                ClusterEvent.NODE_ADD | (ClusterEvent.DEVICE_ADD if now % 2 else ClusterEvent.NONE),
                now,
                pod_class[uid],
            )
        return True

    for move, uid, number in moves:
        match move:
            case "come":
                queue.add(uid, number, now)
            case "go":
                queue.remove(uid)
            case "change" if uid in queue:
                pod_class[uid] = 1 - pod_class[uid]
                queue.add(uid, number, now)
            case "free":
                free[number % 2] += 1
                queue.requeue(ClusterEvent.NODE_ADD, now)
            case "try":
                attempt()
            case "fail":
                attempt(fails=True)
            case _:
                now += (0.3, 2.0, 7.0)[number]
    for _ in range(8):
        now += MAX_BACKOFF
        while attempt():
            pass
    for uid in queue.unschedulable():
        assert not free[pod_class[uid]]
    assert queue.counts()[QueueName.UNSCHEDULABLE] == len(queue)


# In the engine -------------------------------------------------------------------------------------------------------


def full(waiting: int, **more: Any) -> Engine:
    """Return an engine with one card that is taken, and pods that wait for it and were tried once."""
    engine = engine_with([node("n", cards("n", 1))])
    for name in ("holder", *(f"p{number}" for number in range(waiting))):
        engine.observe_pod(pod(name, asks(1, gpumem=8000), **more), 0.0)
        assert engine.attempt(0.0) is not None
    return engine


def tried(engine: Engine, now: float) -> list[Decision]:
    decisions = []
    while (decision := engine.attempt(now)) is not None:
        decisions.append(decision)
    return decisions


def test_a_freed_slice_costs_two_decisions_however_many_wait_for_it() -> None:
    engine = full(200)
    assert engine.queue.counts()[QueueName.UNSCHEDULABLE] == 200
    engine.remove_pod("uid-holder", 20.0)
    outcomes = [decision.outcome for decision in tried(engine, 20.0)]
    assert outcomes == [Outcome.PLACED, Outcome.UNSCHEDULABLE]


def test_pods_of_another_priority_or_shape_are_tried_by_themselves() -> None:
    engine = full(3)
    engine.observe_pod(pod("urgent", asks(1, gpumem=8000), priority=7), 0.0)
    engine.observe_pod(pod("small", asks(1, gpumem=1000)), 0.0)
    assert len(tried(engine, 0.0)) == 2
    engine.remove_pod("uid-holder", 20.0)
    found = {decision.pod: decision.outcome for decision in tried(engine, 20.0)}
    assert found["default/urgent"] is Outcome.PLACED
    assert found["default/small"] is Outcome.UNSCHEDULABLE
    assert len(found) == 3


def test_a_thousand_pods_that_do_not_fit_cost_nothing_while_nothing_changes() -> None:
    engine = full(1000)
    for second in range(1, 61):
        for beat in range(5):
            version = 2 + 10 * second + beat
            engine.observe_node(node("n", cards("n", 1), version=version), float(second))
        assert engine.attempt(float(second)) is None
    assert engine.queue.placed_after_flush == 0

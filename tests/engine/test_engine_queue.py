"""The scheduling queue: whose turn it is, and what wakes whom."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu_scheduler.engine import QueueName, SchedulingQueue
from vgpu_scheduler.engine import queue as queue_module
from vgpu_scheduler.engine.queue import FLUSH_AFTER
from vgpu_scheduler.engine.queued_pods import MAX_BACKOFF, QueueEvent, RetryBasis
from vgpu_scheduler.model import ClusterEvent


def drain(queue: SchedulingQueue, now: float) -> list[str]:
    """Pop all that is active."""
    popped = []
    while (uid := queue.pop(now)) is not None:
        popped.append(uid)
    return popped


ROW = re.compile(
    r"^    (active|backoff|unschedulable|in flight) +(\w+(?:, \w+)*) +(active|backoff|unschedulable|in flight)\b"
)
PLACES = {"active": QueueName.ACTIVE, "backoff": QueueName.BACKOFF, "unschedulable": QueueName.UNSCHEDULABLE}
PLACES["in flight"] = QueueName.IN_FLIGHT
ROWS = [
    (row[1], method, row[3])
    for line in (queue_module.__doc__ or "").splitlines()
    if (row := ROW.match(line))
    for method in row[2].split(", ")
]
BASIS = RetryBasis(None, ClusterEvent.NODE_ADD, (), 1, 0.0, FLUSH_AFTER)
LATER = 2 * FLUSH_AFTER
CALLS: dict[str, Callable[[SchedulingQueue], object]] = {
    "pop": lambda queue: queue.pop(0.5),
    "pop_specific": lambda queue: queue.pop_specific("a", 0.0),
    "add": lambda queue: queue.add("a", 0, 0.0),
    "back_off": lambda queue: queue.back_off("a", 0.0),
    "add_unschedulable": lambda queue: queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0),
    "return_unschedulable": lambda queue: queue.return_unschedulable("a", BASIS, 0.0),
    "return_untried": lambda queue: queue.return_untried("a", ClusterEvent.NODE_ADD, 0.0),
    "flush_due": lambda queue: queue.flush_due(LATER),
    "requeue": lambda queue: queue.requeue(ClusterEvent.NODE_ADD, LATER - 1.0),
    "wake": lambda queue: queue.wake(["a"], LATER - 1.0, QueueEvent.NODE_ADD),
    "wake_equivalent": lambda queue: queue.wake_equivalent(["a"], LATER - 1.0, QueueEvent.NODE_ADD),
    "placed": lambda queue: queue.placed("a", 0.0),
    "prioritise": lambda queue: queue.prioritise("a", 0),
}
"""The calls that concern one pod, as the decision to place it or an event would make them."""


def queue_with(place: str) -> SchedulingQueue:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    if place != "active":
        queue.pop(0.0)
    if place == "backoff":
        queue.back_off("a", 0.0)
    elif place == "unschedulable":
        queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    assert queue.place("a") is PLACES[place]
    return queue


@pytest.mark.parametrize(("place", "method", "to"), ROWS)
def test_each_row_of_the_table_of_places_holds(place: str, method: str, to: str) -> None:
    queue = queue_with(place)
    CALLS[method](queue)
    assert queue.place("a") is PLACES[to]
    assert queue.counts()[PLACES[to]] == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", CALLS)
def test_no_other_call_moves_a_pod(place: str, method: str) -> None:
    """Calls that end an attempt are only made for a pod that is in flight."""
    rows = [row for row in ROWS if row[:2] == (place, method)]
    ends = place != "in flight" and method in {row[1] for row in ROWS if row[0] == "in flight"} - {"add"}
    if not rows and not ends:
        queue = queue_with(place)
        CALLS[method](queue)
        assert queue.place("a") is PLACES[place]


def test_a_pod_that_is_woken_during_its_back_off_waits_for_the_end_of_it() -> None:
    queue = queue_with("unschedulable")
    queue.requeue(ClusterEvent.NODE_ADD, 0.5)
    assert queue.place("a") is QueueName.BACKOFF


def test_priority_then_time_in_queue() -> None:
    queue = SchedulingQueue()
    for now, (uid, priority) in enumerate([("late", 0), ("later", 0), ("high", 5), ("higher", 9), ("low", -1)]):
        queue.add(uid, priority, float(now))
    assert drain(queue, 10.0) == ["higher", "high", "late", "later", "low"]
    assert queue.counts()[QueueName.IN_FLIGHT] == 5


def test_one_that_is_active_keeps_its_turn_unless_its_priority_changes() -> None:
    queue = SchedulingQueue()
    for uid in "abc":
        queue.add(uid, 0, 0.0)
    queue.add("a", 0, 5.0)
    queue.add("c", 1, 5.0)
    assert drain(queue, 5.0) == ["c", "a", "b"]


def test_back_off_doubles_from_one_second_to_ten() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        assert queue.pop(now) == "a"
        queue.back_off("a", now)
        assert queue.place("a") is QueueName.BACKOFF
        due = queue.flush_due(now)
        assert due is not None
        assert queue.pop(due - 0.001) is None
        waits.append(due - now)
        now = due
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert queue.attempts("a") == 6


def test_back_off_counts_from_the_attempt_and_can_be_longer() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    queue.pop(5.0)
    queue.back_off("a", 5.4)
    assert queue.flush_due(5.4) == 6.0
    queue.pop(6.0)
    queue.back_off("a", 6.0, at_least=30.0)
    assert queue.flush_due(6.0) == 36.0
    queue.pop(36.0)
    queue.back_off("a", 100.0)  # the back-off is long over
    assert queue.pop(100.0) == "a"


def test_after_very_many_attempts_the_longest_back_off_stays() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    now = 0.0
    for _ in range(2000):
        assert queue.pop(now) == "a"
        queue.back_off("a", now)
        now += MAX_BACKOFF
    assert queue.attempts("a") == 2000


def test_a_parked_pod_waits_for_what_could_help_it() -> None:
    queue = SchedulingQueue()
    for uid, event in (
        ("node", ClusterEvent.NODE_ADD),
        ("devices", ClusterEvent.DEVICE_ADD | ClusterEvent.DEVICE_FREED),
        ("other", ClusterEvent.ASSIGNED_POD_DELETE),
    ):
        queue.add(uid, 0, 0.0)
        queue.pop(0.0)
        queue.add_unschedulable(uid, event, 0.0)
    assert queue.requeue(ClusterEvent.NONE, 20.0) == 0
    assert queue.requeue(ClusterEvent.POLICY, 20.0) == 0
    assert queue.requeue(ClusterEvent.DEVICE_FREED, 20.0) == 1
    assert drain(queue, 20.0) == ["devices"]
    assert queue.requeue(ClusterEvent.NODE_ADD | ClusterEvent.ASSIGNED_POD_DELETE, 20.0) == 2
    assert sorted(drain(queue, 20.0)) == ["node", "other"]


def test_a_hint_does_not_cut_the_back_off_short() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    assert queue.requeue(ClusterEvent.NODE_ADD, 0.25) == 1
    assert queue.place("a") is QueueName.BACKOFF
    assert queue.pop(0.75) is None
    assert queue.pop(1.0) == "a"


def test_looks_that_do_not_help_again_and_again_make_a_pod_back_off() -> None:
    """A node may have room that this pod cannot use: it is not looked at whenever something happens there."""
    queue = SchedulingQueue()
    queue.add("p", 0, 0.0)
    assert queue.pop(0.0) == "p"
    key = queue.add_unschedulable("p", ClusterEvent.DEVICE_FREED, 0.0, "alike", nodes_version=1)
    now, looks = 100.0, 0
    while key is not None and looks < 100:
        queue.requeue(ClusterEvent.DEVICE_FREED, now, [key])
        if queue.pop(now) is None:
            break
        looks += 1
        retry_basis = queue.retry_basis("p")
        assert retry_basis is not None
        key = queue.return_unschedulable("p", retry_basis, now)
    assert looks == 9
    assert queue.attempts("p") == 1, "looks are no attempts"
    assert queue.place("p") is QueueName.BACKOFF
    assert queue.pop(now + 1.0) == "p"
    assert queue.retry_basis("p") is not None, "only nodes that changed are looked at after it, too"


def test_looks_do_not_put_off_the_next_attempt() -> None:
    queue = SchedulingQueue()
    queue.add("p", 0, 0.0)
    assert queue.pop(0.0) == "p"
    key = queue.add_unschedulable("p", ClusterEvent.DEVICE_FREED, 0.0, "alike", nodes_version=1)
    for now in (100.0, 200.0):
        assert key is not None
        queue.requeue(ClusterEvent.DEVICE_FREED, now, [key])
        assert queue.pop(now) == "p"
        retry_basis = queue.retry_basis("p")
        assert retry_basis is not None
        key = queue.return_unschedulable("p", retry_basis, now)
    assert queue.pop(FLUSH_AFTER - 1.0) is None
    assert queue.pop(FLUSH_AFTER) == "p"
    assert queue.retry_basis("p") is None, "all nodes are asked"


def test_a_parked_pod_is_flushed_after_five_minutes() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    assert queue.flush_due(1.0) == FLUSH_AFTER
    assert queue.pop(FLUSH_AFTER - 0.01) is None
    assert queue.pop(FLUSH_AFTER) == "a"
    queue.add_unschedulable(
        "a", ClusterEvent.NODE_ADD, FLUSH_AFTER
    )  # the flush did not leave the pod among those that events wake
    assert queue.requeue(ClusterEvent.NODE_ADD, 2 * FLUSH_AFTER - 1) == 1
    assert queue.requeue(ClusterEvent.NODE_ADD, 2 * FLUSH_AFTER - 1) == 0


def test_a_flush_of_an_earlier_stay_does_not_end_a_later_one() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    queue.requeue(ClusterEvent.NODE_ADD, 100.0)
    assert queue.pop(100.0) == "a"
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 100.0)
    assert queue.pop(FLUSH_AFTER + 1) is None
    assert queue.pop(FLUSH_AFTER + 100.0) == "a"


@pytest.mark.parametrize("place", list(QueueName))
def test_an_update_makes_a_pod_active_wherever_it_waits(place: QueueName) -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    if place is not QueueName.ACTIVE:
        queue.pop(0.0)
    if place is QueueName.BACKOFF:
        queue.back_off("a", 0.0)
    elif place is QueueName.UNSCHEDULABLE:
        queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    assert queue.place("a") is place
    queue.add("a", 3, 0.1)
    assert queue.place("a") is QueueName.ACTIVE
    assert queue.requeue(ClusterEvent.NODE_ADD, 0.1) == 0
    assert drain(queue, 0.1) == ["a"]
    assert drain(queue, 1000.0) == []  # nothing of the earlier place is left


@pytest.mark.parametrize("place", list(QueueName))
def test_a_removed_pod_never_comes_back(place: QueueName) -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    if place is not QueueName.ACTIVE:
        queue.pop(0.0)
    if place is QueueName.BACKOFF:
        queue.back_off("a", 0.0)
    elif place is QueueName.UNSCHEDULABLE:
        queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    queue.remove("a")
    queue.remove("a")
    queue.add_unschedulable("a", ClusterEvent.NODE_ADD, 0.0)
    queue.back_off("a", 0.0)
    assert queue.requeue(ClusterEvent.NODE_ADD, 1.0) == 0
    assert drain(queue, 1000.0) == []
    assert ("a" in queue, len(queue), queue.place("a"), queue.attempts("a")) == (False, 0, None, 0)


EVENTS = st.sampled_from(
    [
        ClusterEvent.NODE_ADD,
        ClusterEvent.DEVICE_ADD,
        ClusterEvent.NODE_ADD | ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.DEVICE_FREED | ClusterEvent.DEVICE_ADD,
    ]
)
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["add", "pop", "park", "back_off", "event", "remove", "wait"]),
        st.sampled_from("abcd"),
        st.integers(0, 2),
        EVENTS,
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_nobody_is_lost_and_nobody_is_tried_twice(moves: list[tuple[str, str, int, ClusterEvent]]) -> None:
    queue, members, trying, now = SchedulingQueue(), set[str](), set[str](), 0.0
    for move, uid, number, event in moves:
        if move == "add":
            queue.add(uid, number, now)
            members.add(uid)
            trying.discard(uid)
        elif move == "pop":
            popped = queue.pop(now)
            assert popped is None or popped in members - trying
            trying |= {popped} if popped else set()
        elif move == "park" and uid in trying:
            queue.add_unschedulable(uid, event, now)
            trying.discard(uid)
        elif move == "back_off" and uid in trying:
            queue.back_off(uid, now, float(number))
            trying.discard(uid)
        elif move == "event":
            queue.requeue(event, now)
        elif move == "remove":
            queue.remove(uid)
            members.discard(uid)
            trying.discard(uid)
        else:
            now += (0.3, 2.0, 40.0)[number]
        assert {uid for uid in "abcd" if uid in queue} == members
        assert {uid for uid in "abcd" if queue.place(uid) is QueueName.IN_FLIGHT} == trying
    assert set(drain(queue, now + FLUSH_AFTER + MAX_BACKOFF)) == members - trying

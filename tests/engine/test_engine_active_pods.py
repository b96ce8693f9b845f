"""Whose turn it is among the active pods: priority, then age, and nobody starves."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vgpu_scheduler.engine import QueueName, SchedulingQueue
from vgpu_scheduler.engine.queued_pods import MAX_UNHELPFUL_CHANGES, QueueEvent
from vgpu_scheduler.model import ClusterEvent


def created(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def test_pods_are_as_old_as_their_objects_however_they_came() -> None:
    queue = SchedulingQueue()
    for uid, second in (("young", 9), ("b", 1), ("a", 1), ("old", 0)):
        queue.add(uid, 0, 1.0, created=created(second))
    assert [queue.pop(1.0) for _ in range(5)] == ["old", "b", "a", "young", None]


def test_the_next_of_a_class_does_not_wait_until_younger_pods_had_their_turns() -> None:
    queue = SchedulingQueue()
    for second, (uid, equivalence) in enumerate((("x1", "x"), ("x2", "x"), ("y3", "y"))):
        queue.add(uid, 0, 0.0, created=created(second))
        assert queue.pop(0.0) == uid
        queue.add_unschedulable(uid, ClusterEvent.NODE_ADD, 0.0, equivalence)
    queue.requeue(ClusterEvent.NODE_ADD, 20.0)
    assert queue.pop(20.0) == "x1"
    queue.placed("x1", 20.001)
    assert queue.pop(20.001) == "x2"


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    "events", [(ClusterEvent.NODE_ADD, ClusterEvent.DEVICE_ADD), (ClusterEvent.DEVICE_ADD, ClusterEvent.NODE_ADD)]
)
def test_the_oldest_of_those_that_get_the_same_answer_is_tried_whatever_each_waits_for(
    events: tuple[ClusterEvent, ClusterEvent], *, alone: bool
) -> None:
    queue = SchedulingQueue()
    for second, uid in enumerate(("old", "young")):
        queue.add(uid, 0, 0.0, created=created(second))
    while queue.pop(0.0) is not None:
        pass
    queue.add_unschedulable("young", events[0], 0.0, "alike")
    queue.add_unschedulable("old", events[1], 0.0, "alike")
    queue.requeue(events[0] if alone else ClusterEvent.NODE_ADD | ClusterEvent.DEVICE_ADD, 0.5)
    assert queue.pop(1.0) == "old"


def test_a_pod_that_is_tried_again_before_the_others_had_their_turns_comes_after_them() -> None:
    queue = SchedulingQueue()
    for second, uid in enumerate("abc"):
        queue.add(uid, 0, 0.0, created=created(second))
    assert queue.pop(0.0) == "a"
    queue.add("a", 0, 1.0)
    queue.add("younger", 0, 1.0, created=created(9))
    assert [queue.pop(1.0) for _ in range(4)] == ["b", "c", "a", "younger"]


@pytest.mark.parametrize("seed", range(60))
def test_nobody_starves_however_often_others_are_tried_again(seed: int) -> None:
    """Until a pod has its turn, each other one of its priority has two at most, but for looks that are no attempts.

    And of those that come in the meantime only older ones are tried before it.
    """
    rng = np.random.default_rng(seed)
    queue, now, number = SchedulingQueue(), 0.0, 0
    since: dict[str, Counter[str]] = {}
    newer: dict[str, set[str]] = {}
    priority, age = dict[str, int](), dict[str, int]()
    looks = rng.random() < 0.5
    for _ in range(400):
        if rng.random() < 0.4:
            uid, number = f"p{number}", number + 1
            priority[uid], age[uid] = int(rng.random() < 0.1), int(rng.integers(0, 3600))
            queue.add(uid, priority[uid], now, created=created(age[uid]))
            for each in since:
                newer[each].add(uid)
        known = list(priority)
        for uid in rng.permutation(known)[: int(rng.integers(0, 4))]:
            queue.wake([str(uid)], now, QueueEvent.OTHER)
        if rng.random() < 0.2 and known:
            queue.add(uid := str(rng.choice(known)), priority[uid], now)
        for uid in known:
            if queue.place(uid) is QueueName.ACTIVE and uid not in since:
                since[uid], newer[uid] = Counter(), set()
        popped = queue.pop(now)
        if popped is None:
            now += 0.5
            continue
        since.pop(popped, None)
        for uid, turns in since.items():
            if priority[uid] == priority[popped]:
                turns[popped] += 1
                assert popped not in newer[uid] or age[popped] <= age[uid], f"{popped} came later, and is younger"
                assert turns[popped] <= 2 + looks * MAX_UNHELPFUL_CHANGES, (
                    f"{popped} was tried {turns[popped]} times before {uid}"
                )
        now += float(rng.choice([0.001, 11.0]))
        kind = rng.random()
        if looks and kind < 0.5:
            queue.return_untried(popped, ClusterEvent.STORAGE, now)
        elif kind < 0.8:
            queue.add_unschedulable(popped, ClusterEvent.NODE_ADD, now)
        else:
            queue.back_off(popped, now)

"""What waiting pods say, and when: values and an injected time."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.builders import pod, pod_object

from vgpu_scheduler.binding.reports import ConditionText, WaitingPods
from vgpu_scheduler.engine import ClosureCause
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import CardReason, ClusterEvent, ConditionReason
from vgpu_scheduler.predicates import Reason, unschedulable_message
from vgpu_scheduler.predicates import reasons as filters

FULL, ERROR = ConditionReason.UNSCHEDULABLE, ConditionReason.SCHEDULER_ERROR
HEAD = "0/3 nodes are available"


def saying(message: str, status: str = "False") -> Pod:
    """Return a pod with a condition."""
    body = pod_object("p")
    condition = {"type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": message}
    body["status"]["conditions"] = [condition]
    return decode_pod(body)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (f"{HEAD}: 1 x, 2 y.", "0/4 nodes are available: 3 x, 1 y.", True),
        (f"{HEAD}: 10 x, 2 y.", f"{HEAD}: 2 y, 9 x.", True),  # the parts are sorted as text
        (f"{HEAD}: 1 x, 2 y.", f"{HEAD}: 3 y.", False),
        (f"{HEAD}: 1 x.", "no nodes available to schedule pods", False),
        (f"{HEAD}: 3 Insufficient hugepages-2Mi.", f"{HEAD}: 3 Insufficient hugepages-1Gi.", False),
        (f"{HEAD}: 3 Insufficient example.com/v1.", f"{HEAD}: 3 Insufficient example.com/v2.", False),
        ("2 more pods of group a have to come", "1 more pods of group a have to come", True),
        ("2 more pods of group a-1 have to come", "2 more pods of group a-2 have to come", False),
        ("internal error: KeyError('a')", "internal error: KeyError('b')", False),
    ],
)
def test_what_is_left_of_a_message_without_its_numbers(one: str, other: str, *, same: bool) -> None:
    assert (ConditionText(FULL, one).without_numbers == ConditionText(FULL, other).without_numbers) is same
    assert ConditionText(FULL, one).without_numbers != ConditionText(ERROR, one).without_numbers


def rejection(**counts: int) -> ConditionText:
    """Return the condition of a pod that so many nodes rejected for each reason."""
    reasons = {Reason("Any", text, ClusterEvent.NONE): count for text, count in counts.items()}
    return ConditionText(FULL, unschedulable_message(sum(counts.values()), reasons))


def test_every_reason_of_a_node_is_told_from_every_other_whatever_the_numbers() -> None:
    texts = {
        *(each.text for each in vars(filters).values() if isinstance(each, filters.Reason)),
        *(cause.text for cause in ClosureCause),
        *(reason.text for reason in CardReason),
        *(filters.insufficient(name).text for name in ("cpu", "hugepages-2Mi", "example.com/v1", "example.com/v2")),
    }
    assert len(texts) > 40
    known = {rejection(**{text: 2, "x": 1}).without_numbers for text in texts}
    assert known == {rejection(**{text: 31, "x": 4}).without_numbers for text in texts}
    assert len(known) == len(texts)


def test_numbers_wait_for_their_minute_and_reasons_do_not() -> None:
    waiting, asking = WaitingPods(), pod("p")
    assert waiting.report(asking, ConditionText(FULL, "1 x"), 0.0)
    assert not waiting.report(asking, ConditionText(FULL, "2 x"), 59.0)
    assert waiting.report(asking, ConditionText(FULL, "3 x"), 60.0)
    assert waiting.report(asking, ConditionText(ERROR, "3 x"), 61.0)
    assert waiting.report(asking, ConditionText(ERROR, "3 y"), 61.0)


def test_numbers_that_come_back_need_no_write() -> None:
    waiting, asking = WaitingPods(), pod("p")
    waiting.report(asking, ConditionText(FULL, "1 x"), 0.0)
    for text in ("2 x", "1 x"):
        assert waiting.adopt_unless_new(asking, FULL, text, 10.0)
        assert not waiting.report(asking, ConditionText(FULL, text), 10.0)
    assert waiting.due(3299.0, 10) == []
    assert waiting.due(3300.0, 10) == ["uid-p"]
    assert waiting.catch_up("uid-p", 3300.0) == (ConditionText(FULL, "1 x"), False)


def test_few_are_due_at_a_time_and_none_is_left_out() -> None:
    waiting = WaitingPods()
    for number in range(120):
        waiting.report(pod(f"p{number}"), ConditionText(FULL, "1 x"), 0.0)
    found = [waiting.due(3300.0, 50) for _ in range(4)]
    assert [len(some) for some in found] == [50, 50, 20, 0]
    assert len({uid for some in found for uid in some}) == 120


def test_what_a_pod_says_is_taken_over_and_told_again_within_five_minutes() -> None:
    waiting, asking = WaitingPods(), saying("1 x")
    assert not waiting.adopt_unless_new(asking, FULL, "1 x", 1000.0)
    assert waiting.is_false("uid-p")
    assert waiting.due(1300.0, 10) == ["uid-p"]
    assert waiting.catch_up("uid-p", 1300.0) == (ConditionText(FULL, "1 x"), False)
    assert waiting.due(4599.0, 10) == []
    assert waiting.due(4600.0, 10) == ["uid-p"]


def test_an_old_observation_is_not_mistaken_for_what_was_said_since() -> None:
    waiting, asking = WaitingPods(), saying("1 x")
    assert waiting.adopt_unless_new(asking, FULL, "1 y", 0.0)
    waiting.report(asking, ConditionText(FULL, "1 y"), 0.0)
    assert waiting.adopt_unless_new(asking, FULL, "1 x", 1.0)  # the watch is late: it says 1 y by now
    assert waiting.report(asking, ConditionText(FULL, "1 x"), 1.0)


@pytest.mark.parametrize(("status", "is_false"), [("False", True), ("True", False), ("Unknown", False)])
def test_a_transition_is_one_from_another_status(status: str, *, is_false: bool) -> None:
    waiting = WaitingPods()
    waiting.report(saying("gated", status), ConditionText(FULL, "1 x"), 0.0)
    assert waiting.is_false("uid-p") is is_false
    waiting.was_written("uid-p")
    assert waiting.is_false("uid-p")


def test_what_was_lost_is_news_and_tried_again() -> None:
    waiting, asking = WaitingPods(), pod("p")
    waiting.report(asking, ConditionText(FULL, "1 x"), 0.0)
    waiting.was_lost("uid-p", 5.0)
    assert waiting.adopt_unless_new(asking, FULL, "1 x", 6.0)
    assert waiting.due(64.0, 10) == []
    assert waiting.due(65.0, 10) == ["uid-p"]
    assert waiting.catch_up("uid-p", 65.0) == (ConditionText(FULL, "1 x"), True)
    assert not waiting.adopt_unless_new(asking, FULL, "1 x", 66.0)


def test_who_waits_no_more_is_silent() -> None:
    waiting, asking = WaitingPods(), pod("p")
    waiting.report(asking, ConditionText(FULL, "1 x"), 0.0)
    waiting.forget("uid-p")
    assert waiting.due(1e9, 10) == []
    assert waiting.catch_up("uid-p", 1e9) is None


MESSAGES = [f"{number} {word}" for number in (1, 2, 3) for word in "xy"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MESSAGES), st.integers(0, 90)), min_size=1, max_size=40))
def test_the_condition_is_true_within_a_minute_and_seldom_written(moves: list[tuple[str, int]]) -> None:
    waiting, asking, now = WaitingPods(), pod("p"), 0.0
    writes: list[tuple[float, str]] = []

    def catch_up(until: float) -> None:
        for second in range(int(now), int(until) + 1):
            for uid in waiting.due(float(second), 10):
                found = waiting.catch_up(uid, float(second))
                if found and found[1]:
                    writes.append((float(second), found[0].message))

    for message, pause in moves:
        if waiting.adopt_unless_new(asking, FULL, message, now) and waiting.report(
            asking, ConditionText(FULL, message), now
        ):
            writes.append((now, message))
        catch_up(now + pause)
        now += pause
    catch_up(now + 60.0)
    assert writes[-1][1] == moves[-1][0]
    for (earlier, before), (later, after) in pairwise(writes):
        assert before != after
        assert later - earlier >= 60.0 or before[-1] != after[-1]


def test_pods_that_come_and_go_leave_a_bounded_number_of_bytes_and_timers() -> None:
    waiting, asking = WaitingPods(), pod("p")
    for number in range(30_000):
        waiting.report(msgspec.structs.replace(asking, uid=f"uid-{number}"), ConditionText(FULL, "x" * 1500), 0.0)
        if number % 2:
            waiting.forget(f"uid-{number}")
    assert 5000 < len(waiting) < 15_000
    assert waiting._told.bytes <= 24 * 2**20
    assert len(waiting._timers) <= 2 * len(waiting) + 1001
    assert waiting.is_false("uid-1") is False
    due = waiting.due(4000.0, 30_000)
    assert len(due) == len(waiting), "who is remembered is told again"

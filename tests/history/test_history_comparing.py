"""Decisions are asked for again, arrivals drawn again, and what a policy would have meant is told with an interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engine.builders import OURS, allocation, asks, in_group
from tests.history.recorded import BEGAN, HOUR, PREEMPTS, fleet, history, options, played, waiting
from tests.policy.resources import policy
from tests.seeds import seeds

from vgpu_scheduler.history import (
    Arrived,
    Decided,
    Departed,
    ReplayedEviction,
    ReplayedPod,
    ReplayResult,
    Series,
    replay,
)
from vgpu_scheduler.history.checking import check
from vgpu_scheduler.history.comparing import compared, measured
from vgpu_scheduler.history.resampling import Blocks, resampled

WHOLE = asks(1, 8000, 100)


# Decisions are asked for again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("preempts", [False, True])
def test_the_policies_that_made_a_history_agree_with_it(seed: int, *, preempts: bool) -> None:
    past = played(seed, [PREEMPTS] if preempts else [], preemption=preempts)

    found = check(past, options(preemption=preempts))

    assert found.decisions == len(list(past.decided))
    assert (found.same, found.same_node, found.differences) == (found.decisions, 0, [])
    assert found.lacked == {}


def test_what_comes_out_differently_is_told_and_happens_as_it_did() -> None:
    past = played(0, pods=30)
    other = policy("other", {"nodes": {"policy": "spread"}})
    found = check(replace(past, first=(*past.first, replace(past.first[0], kind=other.kind, value=other))), options())

    assert 0 < found.same < found.decisions
    assert len(found.differences) == found.decisions - found.same
    first = found.differences[0]
    assert first.then.startswith("placed on node node-")
    assert first.now.startswith("placed on node node-")


def test_pods_of_a_group_are_compared_one_by_one() -> None:
    names = [f"worker-{each}" for each in range(3)]
    events = [Arrived(BEGAN, waiting(name, resources=WHOLE, annotations=in_group("g", 3))) for name in names]
    result = replay(history(fleet(2), events), options())
    decided = [
        Decided(BEGAN, each.uid, each.node, allocation(each.node, (each.cards[0], 8000, 100)), OURS)
        for each in result.pods
    ]

    found = check(history(fleet(2), [*events, *decided]), options())

    assert (found.decisions, found.same, found.differences) == (3, 3, [])


def test_what_a_history_lacks_is_said() -> None:
    events = [
        Decided(BEGAN, "stranger", "node-0", {}, OURS),
        Arrived(BEGAN, waiting("p")),
        Decided(BEGAN, "uid-p", "gone", allocation("gone", ("card", 1000, 0)), OURS),
        Departed(BEGAN, "uid-p"),
    ]
    found = check(history(fleet(1), events), options())

    assert found.decisions == 0
    assert list(found.lacked) == [
        "there are decisions about pods that are not in the log",
        "there is no node gone, where a pod was placed",
    ]


# Arrivals are drawn again ---------------------------------------------------------------------------------------------


def test_arrivals_are_drawn_block_by_block() -> None:
    past = played(3, pods=50)
    blocks = Blocks.of(past.began, past.ended)
    counts = np.bincount([blocks.number(each.at) for each in past.arrived], minlength=blocks.count)

    found = resampled(past, 7)

    again = np.bincount([blocks.number(each.at) for each in found.arrived], minlength=blocks.count)
    assert again.tolist() == counts[blocks.drawn(7)].tolist()
    uids = [each.pod.uid for each in found.arrived]
    assert len(set(uids)) == len(uids)
    assert found == resampled(past, 7)
    assert [each.at for each in found.events] == sorted(each.at for each in found.events)
    lifetimes = past.pod_lifetimes()
    for uid, lifetime in found.pod_lifetimes().items():
        then = lifetimes[uid.partition("~")[0]]
        if lifetime.placed is not None and lifetime.departed is not None:
            assert then.placed is not None
            assert then.departed is not None
            assert lifetime.departed - lifetime.placed == pytest.approx(then.departed - then.placed)
    assert replay(found, options()).lacked == {}


# Measures -------------------------------------------------------------------------------------------------------------


def result(waits: list[float], *, given: float = 0.5, never: int = 0, evictions: int = 0) -> ReplayResult:
    """Return a replay of 12 hours with a pod for each wait, spread evenly; of four cards so much is given out."""
    ended = BEGAN + 12 * HOUR
    pods = [
        ReplayedPod(
            f"u{number}", f"team-{number % 2}/p{number}", f"team-{number % 2}", number % 3, 1 + number % 2,
            BEGAN + 12 * HOUR * number / len(waits), None if number < never else BEGAN, waited=wait,
        )
        for number, wait in enumerate(waits)
    ]  # fmt: skip
    columns = [np.array([value, value]) for value in (4.0, 4.0 * given, 0.5, 1.0)]
    series = Series(np.array([BEGAN, BEGAN + HOUR]), *columns)
    gone = [ReplayedEviction(BEGAN, "n/p", "n", 0, "n/q")] * evictions
    return ReplayResult(BEGAN, ended, pods, series, gone, {})


def test_measures_are_means_over_time_and_pods() -> None:
    found = measured(result([0.0] * 45 + [100.0] * 55, given=0.75, never=2, evictions=3))

    assert found == pytest.approx(
        {"allocated": 75.0, "stranded_free": 12.5, "idle": 1.0, "evictions": 3.0, "wait_mean": 55.0, "wait_half": 100.0,
         "wait_most": 100.0, "never": 2.0}
    )  # fmt: skip


def test_the_same_course_differs_by_nothing() -> None:
    one = result(list(range(100)))
    for each in compared([one], [one]):
        assert (each.difference.low, each.difference.value, each.difference.high) == (0.0, 0.0, 0.0)
        assert each.verdict == 0
        assert each.before.low <= each.before.value <= each.before.high


def test_what_is_surely_better_is_told_from_what_may_be_chance() -> None:
    rng = np.random.default_rng(1)
    waits = rng.exponential(100.0, 200)
    sure = compared([result(waits.tolist())], [result((waits * 0.5).tolist(), given=0.6)])
    open_ = compared([result(waits.tolist())], [result(rng.permutation(waits).tolist())])

    by_name = {each.measure.name: each for each in sure if not each.group}
    assert by_name["wait_mean"].verdict == 1
    assert by_name["allocated"].verdict == 1
    assert by_name["idle"].verdict == 0
    assert by_name["wait_mean"].difference.value == pytest.approx(-waits.mean() / 2)
    assert [each.verdict for each in open_ if each.measure.name == "wait_mean" and not each.group] == [0]
    worse = compared([result((waits * 0.5).tolist())], [result(waits.tolist())])
    assert next(each.verdict for each in worse if each.measure.name == "wait_mean") == -1


def test_groups_are_by_priority_namespace_and_size() -> None:
    found = compared([result([1.0] * 60)], [result([2.0] * 60)])

    groups = list(dict.fromkeys(each.group for each in found))
    assert groups == ["", "priority 2", "priority 1", "priority 0", "namespace team-0", "namespace team-1",
                      "1 card", "2 cards"]  # fmt: skip
    assert {each.pods for each in found if each.group.startswith("priority")} == {20}
    assert found[0].as_json()["verdict"] == "open"


def test_resampled_courses_give_the_interval_where_there_are_some() -> None:
    before = [result([10.0] * 30), result([8.0] * 30), result([12.0] * 30)]
    after = [result([9.0] * 30), result([5.0] * 30), result([11.0] * 30)]

    found = next(each for each in compared(before, after) if each.measure.name == "wait_mean")

    assert found.before.value == 10.0
    assert 8.0 <= found.before.low < found.before.high <= 12.0
    assert found.difference.value == -1.0
    assert -3.0 <= found.difference.low < found.difference.high <= -1.0

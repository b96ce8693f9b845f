"""What would have become of the same arrivals: within an hour, and all the time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import seeds
from tests.shadow.clusters import LOCK, START, Cluster, FewLines, stamp
from tests.shadow.watched import OPTIONS, Watched, beside_itself

from vgpu_scheduler.history import Arrived, Decided, Departed, History, Series, replay
from vgpu_scheduler.shadow import objects_at, one_hour, summed_up, whole_time
from vgpu_scheduler.shadow.horizons import _mean_allocated, hours, resampled, some_hours, with_placements_as_arrivals


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_beside_itself_no_horizon_tells_of_a_difference(seed: int) -> None:
    watched, _ = beside_itself(seed)
    history = watched.history()
    placed = {entry.uid: (entry.node, entry.cards) for entry in replay(history, OPTIONS).pods if entry.node}
    theirs = {uid: entry.place for uid, entry in watched.record.pods.items() if entry.place is not None}
    whole, hour = whole_time([history], OPTIONS), one_hour([history], OPTIONS)
    assert whole is not None
    assert hour is not None
    late = [each for each in watched.record.missed if each.lasted(watched.record.until) > 0.0]
    if not late:  # else it has backed off for longer than a replay does
        assert {uid: (node, tuple(sorted(cards))) for uid, (node, cards) in placed.items()} == {
            uid: (place.node, place.cards) for uid, place in theirs.items()
        }
        assert whole.saved.mean == 0.0
        assert whole.allocated == whole.would_be_allocated
        assert hour.saved.mean == 0.0


def test_pods_that_wait_for_this_scheduler_are_in_no_horizon() -> None:
    cluster = Cluster()
    cluster.add_node("a", 1)
    watched = Watched(cluster)
    cluster.add_pod("theirs", 4000, START + 60)
    theirs = cluster.get("Pod", "theirs")
    spec = {**theirs["spec"], "schedulerName": OPTIONS.scheduler_names[0]}
    metadata = {name: theirs["metadata"][name] for name in ("namespace", "creationTimestamp")}
    cluster.put({**theirs, "metadata": {**metadata, "name": "ours"}, "spec": spec})
    watched.see(START + 60)
    watched.see(START + 600)
    for horizon in (whole_time([watched.history()], OPTIONS), one_hour([watched.history()], OPTIONS)):
        assert horizon is not None
        assert (horizon.pods, horizon.waited) == (1, 540.0)


def test_what_is_kept_waiting_would_not_wait() -> None:
    played = FewLines(3, faults=0)
    watched = Watched(played.cluster)
    for number in range(40):
        played.step()
        watched.see(played.now)
        if number % 10 == 5:
            played.keep()
    for horizon in (whole_time([watched.history()], OPTIONS), one_hour([watched.history()], OPTIONS)):
        assert horizon is not None
        assert horizon.saved.mean > 0.0
        assert horizon.would_be_placed >= horizon.placed


def test_each_hour_begins_with_the_cluster_as_it_was() -> None:
    played = FewLines(1)
    watched = Watched(played.cluster)
    while played.now < START + 3 * 3600:
        played.step()
        played.now += 120.0
        watched.see(played.now)
    history = watched.history()
    found = [hour.history() for hour in hours(history)]
    assert [hour.began for hour in found] == [START + 3600.0 * number for number in range(len(found))]
    assert sum(len(hour.events) for hour in found) == len(history.events)
    there: dict[str, bool] = {}
    for event in history.events:
        if event.at > found[2].began:
            break
        if isinstance(event, Arrived):
            there[event.pod.uid] = False
        elif isinstance(event, Decided):
            there[event.uid] = True
        elif isinstance(event, Departed):
            there.pop(event.uid)
    pods = {e.pod.uid: False for e in found[2].first if isinstance(e, Arrived)}
    pods |= {e.value.uid: True for e in found[2].first if not isinstance(e, Arrived) and e.kind == "Pod"}
    assert pods == there


def test_a_pod_stays_in_an_hour_as_long_as_it_did_though_its_end_was_seen_later() -> None:
    cluster = Cluster()
    cluster.add_node("a", 1)
    watched = Watched(cluster)
    cluster.add_pod("x", 16_000, START + 60)
    watched.see(START + 60)
    cluster.announce("x", "a", ["GPU-a-0"], 16_000)
    cluster.bind("x", "a")
    watched.see(START + 3720)
    cluster.delete("Pod", "x")
    watched.see(START + 3780)
    watched.see(START + 7200)
    found = one_hour([watched.history()], OPTIONS)
    assert found is not None
    ran = [60.0, 60.0]  # once in each hour
    assert found.would_be_allocated == pytest.approx(sum(ran) / 7200, abs=0.01)
    assert (found.placed, found.would_be_placed) == (1, 2)
    assert found.waited == pytest.approx(np.mean([3600 - 60, 120]), abs=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_the_whole_time_counts_a_pod_of_several_watches_once_as_the_head_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster()
    cluster.add_node("a", 1)
    now, record, found = START, None, list[History]()
    waits = dict[str, float]()
    numbers = iter(range(99))
    for _ in range(int(rng.integers(2, 5))):
        watched = Watched(cluster, now, record)
        for _ in range(int(rng.integers(0, 3))):
            name = f"p{next(numbers)}"
            cluster.add_pod(name, 30_000, now)  # of which no card has so much
            waits[name] = 0.0
        watched.see(now)
        lasts = float(rng.integers(100, 5000))
        now += lasts
        watched.see(now)
        for name in waits:
            waits[name] += lasts
        record = watched.record
        found.append(watched.history())
        now += float(rng.integers(10, 5000))  # nobody watches
    horizon, head = whole_time(found, OPTIONS), summed_up(watched.record, 60.0)
    assert (0 if horizon is None else horizon.pods) == head.arrived == len(waits)
    if horizon is not None:
        assert horizon.waited == horizon.would_wait == pytest.approx(np.mean(list(waits.values())), abs=1.0)
        assert (horizon.placed, horizon.would_be_placed) == (0, 0)


def test_no_more_hours_are_replayed_of_many_watches_than_of_one() -> None:
    cluster = Cluster()
    cluster.add_node("a", 1)
    watched = Watched(cluster)
    cluster.add_pod("x", 30_000, START + 60)
    watched.see(START + 60)
    watched.see(START + 20 * 3600)
    for watches, most in ((2, 40), (3, 48), (4, 48)):
        found = [list(theirs) for theirs in some_hours([watched.history()] * watches)]
        assert len(found) == watches
        assert sum(map(len, found)) == most
        assert all(found)


def test_cards_that_were_given_out_are_means_over_the_time_that_is_meant() -> None:
    ones = np.ones(3)
    series = Series(np.array([0.0, 10.0, 30.0]), ones, np.array([0.0, 4.0, 1.0]), ones, ones)
    assert _mean_allocated(series, 0.0, 40.0) == pytest.approx((0 * 10 + 4 * 20 + 1 * 10) / 40)
    assert _mean_allocated(series, 20.0, 40.0) == pytest.approx((4 * 10 + 1 * 10) / 20)
    assert _mean_allocated(series, 5.0, 5.0) == 0.0


def test_what_happened_is_replayed_as_it_was() -> None:
    played = FewLines(2, faults=0)
    watched = Watched(played.cluster)
    for _ in range(30):
        played.step()
        watched.see(played.now)
    entry = replay(with_placements_as_arrivals(watched.history()), OPTIONS)
    last = watched.record.samples[-1]
    at = int(np.searchsorted(entry.series.times, last.at, side="right")) - 1
    assert entry.series.allocated[at] == pytest.approx(last.allocated)
    assert not entry.pods


def test_an_interval_comes_of_blocks_that_are_drawn_anew() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(10.0, 1.0, 400)
    found = resampled(np.arange(400) // 10, values, seed=1)
    assert found == resampled(np.arange(400) // 10, values, seed=1)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 10.0 < found.high < found.low + 0.5
    wide = resampled(np.arange(400), 1000.0 * values, seed=1)
    assert wide.low is not None
    assert wide.high is not None
    assert wide.high - wide.low == pytest.approx(2 * 1.645 * 1000.0 / 20.0, rel=0.08)  # 90 %; 95 % are a fifth wider
    few = resampled(np.arange(400) // 100, values, seed=1)
    assert (few.low, few.high) == (None, None)


def test_locks_are_of_the_other_one_and_close_nothing_in_a_replay() -> None:
    cluster = Cluster()
    cluster.add_node("a", 1)
    cluster.lock("a", f"{stamp(START)},default,gone")
    watched = Watched(cluster)
    cluster.add_pod("x", 4000, START + 10)
    watched.see(START + 10)
    written = len(watched.lines)
    cluster.lock("a", f"{stamp(START + 20)},default,x")
    watched.see(START + 100)
    assert len(watched.lines) == written
    horizon = whole_time([watched.history()], OPTIONS)
    assert horizon is not None
    assert (horizon.placed, horizon.would_be_placed) == (0, 1)
    assert not [obj for obj in objects_at(watched.lines, START + 50) if LOCK in obj["metadata"].get("annotations", {})]
    assert objects_at(watched.lines, START - 1) == []

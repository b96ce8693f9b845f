"""What is known of how long pods run: with durations that are known exactly, and with pods that still run."""

from __future__ import annotations

from math import inf, log
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.forecast.futures import NOW, WHOLE, past
from tests.history.recorded import BEGAN, HOUR, history, waiting

from vgpu_scheduler.forecast import Durations, ObservedLifetime, WorkloadHistory, lifetimes_of
from vgpu_scheduler.forecast.survival import Survival
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History
from vgpu_scheduler.kube import Pod


def lifetime(name: str, seconds: float, *, ended: bool = True, **more: Any) -> ObservedLifetime:
    return ObservedLifetime(waiting(name, **more), seconds, ended)


def test_the_estimate_of_kaplan_and_meier_is_that_of_a_textbook() -> None:
    """Times 6, 6, 6, 6+, 7, 9+, 10, 10+, 11+, 13, 16, 17+, ...: the remissions of Freireich and others (1963)."""
    times = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    censored = {3, 5, 7, 8, 11, 12, 13, 16, 17, 18, 19, 20}
    found = Survival(times, [number not in censored for number in range(len(times))])

    for at, part in ((5, 1.0), (6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448)):
        assert found.after(at) == pytest.approx(part, abs=0.001)
    assert found.rest(0, 0.449) == 23
    assert found.rest(0, 0.4) == inf
    assert found.rest(10, 0.5) == inf
    assert found.rest(10, 0.9) == 6


def test_draws_with_exponential_durations_have_their_quantiles_at_every_age() -> None:
    rng = np.random.default_rng(0)
    found = Survival(rng.exponential(100.0, 20_000).tolist(), [True] * 20_000)

    for age in (0.0, 50.0, 150.0):
        rests = np.sort([found.rest(age, chance) for chance in rng.random(20_000)])
        for part in (0.1, 0.5, 0.9):
            assert rests[int(part * len(rests))] == pytest.approx(-100.0 * log(1 - part), rel=0.12)


def test_pods_that_still_run_do_not_shorten_what_is_expected() -> None:
    rng = np.random.default_rng(1)
    lasts, watched = rng.exponential(100.0, 20_000), rng.uniform(0.0, 200.0, 20_000)
    found = Survival(np.minimum(lasts, watched).tolist(), (lasts <= watched).tolist())

    assert found.rest(0.0, 0.5) == pytest.approx(100.0 * log(2), rel=0.05)


def test_who_was_old_already_when_it_was_seen_first_does_not_lengthen_what_is_expected() -> None:
    rng = np.random.default_rng(2)
    lasts, entered = rng.exponential(100.0, 20_000), rng.uniform(0.0, 200.0, 20_000)
    seen = lasts > entered
    found = Survival(lasts[seen].tolist(), [True] * int(seen.sum()), entered[seen].tolist())

    assert found.rest(0.0, 0.5) == pytest.approx(100.0 * log(2), rel=0.08)


def test_all_of_few_that_end_early_do_not_end_all() -> None:
    found = Survival([10.0, 90.0, 100.0], [True, True, True], [0.0, 50.0, 50.0])

    assert 0.0 < found.after(10.0) < 1.0
    assert found.after(100.0) == 0.0


def drawn(known: Durations, pod_name: str, age: float = 0.0, count: int = 4000, **more: Any) -> list[float]:
    rng = np.random.default_rng(0)
    return [known.draw(waiting(pod_name, **more), age, rng).seconds for _ in range(count)]


def test_the_narrow_class_is_believed_as_far_as_it_knows() -> None:
    others = [lifetime(f"other-{n}", 1000.0, namespace="other") for n in range(100)]
    for count in (1, 5, 45):
        own = [lifetime(f"own-{n}", 10.0, namespace="own") for n in range(count)]
        found = drawn(Durations(others + own), "new", namespace="own")
        # The two narrow classes have the same pods: what one leaves open, the other decides by half and half again.
        left = (5 / (count + 5)) ** 2 * 100 / (100 + count)
        assert np.mean(np.array(found) == 1000.0) == pytest.approx(left, abs=0.03)


def test_a_class_that_has_seen_nobody_so_old_says_nothing() -> None:
    own = [lifetime(f"own-{n}", 10.0, namespace="own") for n in range(100)]
    others = [lifetime(f"other-{n}", 1000.0, namespace="other") for n in range(100)]

    assert set(drawn(Durations(own + others), "old", 500.0, 50, namespace="own")) == {500.0}
    assert set(drawn(Durations(own + others), "old", 5000.0, 50, namespace="own")) == {inf}


def test_many_pods_that_run_do_not_hide_those_that_have_ended() -> None:
    ended = [lifetime(f"old-{n}", 50.0) for n in range(300)]
    running = [lifetime(f"runs-{n}", 10.0, ended=False) for n in range(3000)]

    assert set(drawn(Durations([*ended, *running]), "new", 10.0, 50)) == {40.0}


def test_daemons_and_pods_of_other_controllers_say_nothing_of_jobs() -> None:
    service = {"owner": "web", "owner_kind": "ReplicaSet"}
    pods = [lifetime("job", 10.0)]
    other = ObservedLifetime(owned("web", **service), 5000.0, ended=True)
    daemon = owned("agent", owner="agents", owner_kind="DaemonSet")
    rng = np.random.default_rng(0)

    known = Durations([*pods, other])

    assert known.draw(waiting("new"), 0.0, rng).seconds == 10.0
    assert known.draw(owned("web-2", **service), 0.0, rng).seconds == 5000.0
    assert known.draw(daemon, 0.0, rng).seconds == inf


def owned(name: str, *, owner: str, owner_kind: str) -> Pod:
    return msgspec.structs.replace(waiting(name), owner=owner, owner_kind=owner_kind)


def test_lifetimes_are_read_from_a_history() -> None:
    bound = waiting("before", resources=WHOLE, nodeName="node-0", started=True)
    bound = msgspec.structs.replace(bound, start_time=int(BEGAN) - 500)
    events = [
        Arrived(BEGAN, waiting("ended")),
        Decided(BEGAN + 10, "uid-ended", "node-0"),
        Arrived(BEGAN + 20, waiting("runs")),
        Decided(BEGAN + 30, "uid-runs", "node-0"),
        Arrived(BEGAN + 40, waiting("evicted")),
        Decided(BEGAN + 50, "uid-evicted", "node-0"),
        Arrived(BEGAN + 60, waiting("never")),
        Decided(BEGAN + 70, "uid-runs-2", "", evicted=("uid-evicted",)),
        Departed(BEGAN + 70, "uid-evicted"),
        Departed(BEGAN + 100, "uid-before"),
        Departed(BEGAN + 110, "uid-ended"),
        Departed(BEGAN + 120, "uid-never"),
    ]
    story = History(BEGAN, BEGAN + HOUR, (Changed(BEGAN, "Pod", bound),), tuple(events))

    found = {uid: (each.seconds, each.ended, each.entered) for uid, each in lifetimes_of(story).items()}

    assert found == {
        "uid-ended": (100.0, True, 0.0),
        "uid-runs": (HOUR - 30, False, 0.0),
        "uid-evicted": (20.0, False, 0.0),
        "uid-before": (600.0, True, 500.0),
    }


def test_pods_come_as_they_came() -> None:
    events = [
        event
        for n in range(50)
        for event in (
            Arrived(BEGAN + 100 * n, waiting(f"pod-{n}")),
            Decided(BEGAN + 100 * n, f"uid-pod-{n}", "node-0"),
            Departed(BEGAN + 100 * n + 7, f"uid-pod-{n}"),
        )
    ]
    known = past([])
    assert list(known.draw(NOW, np.random.default_rng(0))) == []

    known = WorkloadHistory(history([], sorted(events, key=lambda event: event.at), ended=5000.0))
    coming = list(known.draw(12_000.0, np.random.default_rng(3)))

    assert len(coming) == 120
    assert len({each.pod.uid for each in coming}) == 120
    assert np.diff([each.after for each in coming]) == pytest.approx(100.0)
    assert {each.runs for each in coming} == {7.0}

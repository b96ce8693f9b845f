"""How long pods will wait: where it can be calculated by hand, and what must hold of any cluster."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.engine.builders import asks
from tests.forecast.futures import NOW, WHOLE, of_service, past, present, runs, waits
from tests.history.recorded import BEGAN, HOUR, PREEMPTS, options, played, waiting
from tests.seeds import seeds

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.forecast import (
    CurrentCluster,
    DurationClass,
    Forecast,
    NoForecast,
    WorkloadHistory,
    forecast,
    present_of,
)
from vgpu_scheduler.forecast import waiting as waiting_module
from vgpu_scheduler.forecast.waiting import BUDGET, beside_past, interval, replay_waits
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History, HistoryEvent, replay
from vgpu_scheduler.kube import Pod

HOST = "kubernetes.io/hostname"


def asked(
    scene: CurrentCluster, known: WorkloadHistory, pod: Pod | None = None, seed: int = 0
) -> Forecast | NoForecast:
    """Return what is said of a pod, of the one called new if none is named."""
    pod = pod or next(each for each in scene.waiting if each.name == "new")
    (found,) = forecast(scene, known, options(), [pod], seed).values()
    return found


def told(found: Forecast | NoForecast) -> Forecast:
    assert isinstance(found, Forecast), found
    return found


def test_a_pod_with_an_idle_card_waits_not_at_all() -> None:
    known = past([100.0] * 20)

    found = asked(present(2, [runs("old", 0, 50.0)], [waits("new")]), known)

    assert (told(found).least, told(found).most) == (0.0, 0.0)
    assert found.text() == "It fits now and is placed when its turn comes."


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_pod_for_which_another_has_to_end_does_not_fit_now(nodes: int) -> None:
    scene = present(nodes, [runs("old", 0, 50.0)], [waits("new", priority=9)])
    scene = replace(scene, objects=[*scene.objects, Changed(NOW, PREEMPTS.kind, PREEMPTS)])
    (found,) = forecast(scene, past([100.0] * 20), options(preemption=True), scene.waiting).values()

    if nodes == 2:
        assert found.text() == "It fits now and is placed when its turn comes."
    else:
        why = "pods must end for it first, and how long that takes is not known"
        assert found.text() == f"How long it will wait cannot be estimated: {why}."


def test_it_fits_now_whatever_is_known_of_durations() -> None:
    assert told(asked(present(1, [], [waits("new")]), past([]))).most == 0.0


def test_a_pod_waits_for_the_one_that_runs() -> None:
    found = told(asked(present(1, [runs("old", 0, 40.0)], [waits("new")]), past([100.0] * 20)))

    assert (found.least, found.most) == (60.0, 60.0)
    assert (found.pods, found.known_from, found.draws) == (20, DurationClass.REQUEST, 99)


def test_a_pod_waits_for_those_before_it_too() -> None:
    scene = present(1, [runs("old", 0, 40.0)], [waits("first", 20.0), waits("second", 10.0), waits("new")])

    assert told(asked(scene, past([100.0] * 20))).least == 260.0
    urgent = present(1, [runs("old", 0, 40.0)], [waits("first", 20.0), waits("new", priority=100)])
    assert told(asked(urgent, past([100.0] * 20))).least == 60.0


def test_with_exponential_durations_the_range_has_their_quantiles() -> None:
    """The first of four to end does so four times as early, whatever their ages are."""
    rng = np.random.default_rng(0)
    known = past(rng.exponential(1000.0, 1000).tolist())
    scene = present(4, [runs(f"old-{n}", n, 300.0 * n) for n in range(4)], [waits("new")])

    three = [replay_waits(scene, known, options(), ["uid-new"], seed).waits["uid-new"] for seed in range(3, 6)]

    assert [len(found) for found in three] == [99] * 3
    for part in (0.25, 0.5, 0.75):
        expected = -250.0 * np.log(1.0 - part)
        assert np.quantile(np.concatenate(three), part) == pytest.approx(expected, rel=0.3)


def test_the_range_holds_as_often_as_it_says() -> None:
    """What comes is drawn as what is forecast was, so 8 of 10 ranges hold."""
    rng = np.random.default_rng(1)
    held = []
    for number in range(400):
        drawn = np.sort(rng.exponential(1.0, 9 if number % 2 else 19))
        least, most = interval(drawn.tolist())
        held.append(least <= rng.exponential(1.0) <= most)
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_more_in_the_queue_before_it_never_shortens_a_wait(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = past(rng.exponential(1000.0, 100).tolist())
    running = [runs(f"old-{n}", n, float(rng.uniform(0, 2000))) for n in range(3)]
    before: list[list[float]] = []
    for number in range(0, 5, 2):
        queue = [waits(f"before-{n}", 100.0 - n) for n in range(number)]
        scene = present(3, running, [waits("new"), *queue])
        before.append(replay_waits(scene, known, options(), ["uid-new"], seed, 500).waits["uid-new"])
    for fewer, more in pairwise(before):
        assert np.mean(fewer) <= np.mean(more)
        assert fewer[4] <= more[4]


def test_a_pod_that_is_being_deleted_goes_when_its_grace_is_over() -> None:
    going = runs("old", 0, 40.0)
    going = replace(going, pod=msgspec.structs.replace(going.pod, deleting=True, ends_by=int(NOW) + 30))

    for known in (past([100.0] * 20), past([])):
        assert told(asked(present(1, [going], [waits("new")]), known)).least == 30.0


def test_a_pod_that_needs_those_that_run_waits_for_the_others() -> None:
    """The job ends, the database that it has to be near to stays."""
    half = asks(1, 4000, 50)
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    database = runs("db", 0, 100000.0, 50, resources=half, labels={"app": "db"})
    job = runs("job", 0, 40.0, 50, resources=half)
    job = replace(job, pod=msgspec.structs.replace(job.pod, deleting=True, ends_by=int(NOW) + 60))
    scene = present(2, [database, job], [waits("new", resources=half, affinity=affinity)])
    nodes = [(each, msgspec.structs.replace(each.value, labels={HOST: each.value.name})) for each in scene.objects]
    scene = replace(scene, objects=[replace(each, value=node) for each, node in nodes])

    assert told(asked(scene, past([100.0] * 20))).least == 60.0


def of_group(minimum: int) -> dict[str, Any]:
    """Return the labels of a pod of a group, of which so many are needed."""
    label = "pod-group.scheduling.sigs.k8s.io"
    return {"labels": {label: "team", f"{label}/min-available": str(minimum)}}


def copies_came(number: int, **more: Any) -> WorkloadHistory:
    """Return a past in which a pod came each minute, ran for 90 seconds and went."""
    events: list[HistoryEvent] = []
    for n in range(number):
        pod, at = waits(f"copy-{n}", **more), NOW - 60.0 * (number - n)
        events += [Arrived(at, pod), Decided(at, pod.uid, "node-0"), Departed(at + 90.0, pod.uid)]
    return WorkloadHistory(History(NOW - 10 * HOUR, NOW, (), tuple(sorted(events, key=lambda event: event.at))))


@pytest.mark.parametrize("copies", [0, 600])
def test_a_member_waits_beside_those_of_its_group_that_run(copies: int) -> None:
    """Copies of its pods that may come do not complete a group that lacks one."""
    mate = runs("mate", 0, 100000.0, **of_group(2))
    job = runs("job", 1, 40.0)
    job = replace(job, pod=msgspec.structs.replace(job.pod, deleting=True, ends_by=int(NOW) + 60))
    known = copies_came(copies, **of_group(2)) if copies else past([100.0] * 20)

    assert told(asked(present(2, [mate, job], [waits("new", **of_group(2))]), known)).least == 60.0
    assert isinstance(asked(present(3, [mate], [waits("new", **of_group(3))]), known), NoForecast)


def test_those_that_come_meanwhile_may_go_first() -> None:
    """Small pods come every minute, and take what a large one needs."""
    events = []
    small = asks(1, 4000, 50)
    for n in range(600):
        pod = waits(f"small-{n}", resources=small)
        at = NOW - 60.0 * (600 - n)
        events += [Arrived(at, pod), Decided(at, pod.uid, "node-0"), Departed(at + 90.0, pod.uid)]
    known = WorkloadHistory(History(NOW - 10 * HOUR, NOW, (), tuple(sorted(events, key=lambda event: event.at))))
    scene = present(1, [runs("old", 0, 45.0, 50, resources=small)], [waits("new")])

    busy = replay_waits(scene, known, options(), ["uid-new"], budget=900).waits["uid-new"]
    quiet = replay_waits(scene, past([90.0] * 600, resources=small), options(), ["uid-new"]).waits["uid-new"]

    assert quiet[-1] <= 90.0
    assert np.median(busy) > 90.0


def test_it_comes_out_the_same_each_time_and_otherwise_with_another_seed() -> None:
    rng = np.random.default_rng(0)
    known = past(rng.exponential(1000.0, 100).tolist())
    scene = present(2, [runs("a", 0, 10.0), runs("b", 1, 500.0)], [waits("new")])

    assert asked(scene, known) == asked(scene, known)
    assert asked(scene, known) != asked(scene, known, seed=1)


# What cannot be known ------------------------------------------------------------------------------------------------


def unknown(found: Forecast | NoForecast) -> str:
    assert isinstance(found, NoForecast), found
    return found.why


def test_nothing_is_made_up_where_nothing_is_known() -> None:
    scene = present(1, [runs("old", 0, 40.0)], [waits("new")])

    assert unknown(asked(scene, past([]))) == "it does not fit now, and the run time of no pod is known"
    assert asked(scene, past([])).text().startswith("How long it will wait cannot be estimated: it does not fit now")


def test_where_nobody_is_known_to_end_it_is_said() -> None:
    scene = present(1, [runs("old", 0, 5000.0)], [waits("new")])

    assert "when a running pod will end cannot be estimated" in unknown(asked(scene, past([100.0] * 20)))


@pytest.mark.parametrize("of_unknown_kind", [0, 1, 2])
def test_those_before_it_of_which_nobody_can_say_how_long_they_will_run_are_told(of_unknown_kind: int) -> None:
    """Pods of one kind of controller say nothing of those of another."""
    before = [waits(f"first-{number}", 20.0 + number) for number in range(2)]
    before[:of_unknown_kind] = [
        msgspec.structs.replace(each, owner="web", owner_kind="ReplicaSet") for each in before[:of_unknown_kind]
    ]
    scene = present(1, [runs("old", 0, 40.0)], [*before, waits("new"), waits("later", 0.0)])
    found = asked(scene, past([100.0] * 20))
    if not of_unknown_kind:
        assert isinstance(found, Forecast)
        return
    # Of two such pods the second one never runs: the first one keeps its card.
    assert unknown(found).endswith(": 1 pod is served before it, and how long it will run is not known")


@pytest.mark.parametrize("ended", range(1, 5))
def test_few_pods_that_have_ended_make_no_range(ended: int) -> None:
    scene = present(1, [runs("old", 0, 40.0)], [waits("new")])
    why = unknown(asked(scene, past([100.0] * ended)))
    assert why == "it does not fit now, and the run time of fewer than 5 pods is known"
    assert isinstance(asked(scene, past([100.0] * 5)), Forecast)


@pytest.mark.parametrize("services", [1, 8])
def test_those_count_whose_lifetimes_say_most(services: int) -> None:
    """Of Jobs it is known how long many ran, of the kind that holds most of the cards hardly of any."""
    service = [runs(f"s{number}", number, 40.0) for number in range(services)]
    service = [replace(each, pod=of_service(each.pod)) for each in service]
    scene = present(services + 2, [*service, *(runs(f"j{n}", services + n, 40.0) for n in range(2))], [waits("new")])
    known = past([100.0] * 20, services=[100.0])
    found = asked(scene, known)
    assert isinstance(found, Forecast) == (services == 1)
    if isinstance(found, Forecast):
        assert found.pods == 20


@pytest.mark.long
def test_each_of_many_that_ask_for_the_same_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    plain = waiting_module._range

    def counted(pod: Pod, *more: Any) -> tuple[float, float]:
        looked.append(pod.uid)
        return plain(pod, *more)

    monkeypatch.setattr(waiting_module, "_range", counted)
    queue = [waits(f"w{number}", 100.0 - number) for number in range(30)]
    found = forecast(present(1, [runs("old", 0, 40.0)], queue), past([100.0] * 20), options(), queue)
    assert len(found) == 30
    assert len(looked) == len(set(looked)) == 30


def test_a_member_of_a_group_that_lacks_pods_is_told_so() -> None:
    scene = present(2, [runs("old", 0, 40.0)], [waits("new", **of_group(2))])
    assert "pods of its group default/team do not exist yet" in unknown(asked(scene, past([100.0] * 20)))
    held = replace(scene, others=[waits("held", **of_group(2))])  # by a gate
    assert "do not exist yet" not in unknown(asked(held, past([100.0] * 20)))


def test_a_pod_that_no_node_could_ever_take_is_told_so() -> None:
    scene = present(1, [runs("old", 0, 40.0)], [waits("new", resources=asks(1, 9000))])

    assert "even if no pod ran" in unknown(asked(scene, past([100.0] * 20)))


def test_gates_and_other_schedulers_are_named() -> None:
    gated = waits("gated", schedulingGates=[{"name": "quota"}])
    scene = present(1, [], [])

    assert "scheduling gate" in unknown(asked(scene, past([100.0] * 20), gated))
    other = waits("other", scheduler="default-scheduler")
    assert "default-scheduler" in unknown(asked(scene, past([100.0] * 20), other))


def test_where_some_courses_never_end_only_the_least_is_said() -> None:
    known = past([100.0] * 10, running=[4000.0] * 5)
    found = told(asked(present(1, [runs("old", 0, 40.0)], [waits("new")]), known))

    assert (found.least, found.most) == (60.0, inf)
    rests = "(run times are those of 10 pods of the same namespace that ask for the same)"
    assert found.text() == f"It waits at least 60 seconds more, in 9 of 10 cases {rests}."
    assert found.as_json()["mostSeconds"] is None


# Its cost ------------------------------------------------------------------------------------------------------------


def test_large_clusters_are_replayed_less_often() -> None:
    known = past([100.0] * 20)
    scene = present(1, [runs("old", 0, 40.0)], [waits("new")])
    counts = [
        len(replay_waits(scene, known, options(), ["uid-new"], budget=budget).waits["uid-new"])
        for budget in (1, 100, 300, BUDGET)
    ]
    assert counts[0] == 9
    assert counts == sorted(counts)
    assert counts[-1] == 99
    assert all((count + 1) % 10 == 0 for count in counts)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_forecasts_of_a_played_history_are_of_what_an_engine_knows(seed: int) -> None:
    """Each pod that waits in the end has an answer; the same cluster twice gives the same."""
    story = played(seed, pods=80)
    scenes: list[CurrentCluster] = []

    def look(at: float, engine: Engine) -> None:
        if at > story.ended - 600:
            scenes.append(present_of(engine, at))

    replay(story, options(), on_step=look)
    scene = next(scene for scene in reversed(scenes) if scene.waiting)
    known = WorkloadHistory(
        History(story.began, scene.at, story.first, tuple(e for e in story.events if e.at <= scene.at))
    )

    found = forecast(scene, known, options(), scene.waiting)

    assert found.keys() == {pod.uid for pod in scene.waiting}
    assert found == forecast(scene, known, options(), scene.waiting)


def test_how_long_others_waited_is_a_fourth_of_what_is_drawn() -> None:
    drawn = beside_past([600.0] * 99, waited_so_long([3600.0] * 20), waited=600.0)

    assert Counter(drawn) == {600.0: 99, 3000.0: 33}
    assert interval(drawn) == (600.0, 3000.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_who_asks_for_the_same_and_is_served_later_is_told_no_earlier_place(seed: int) -> None:
    chance = random.Random(seed)
    queue = [waits(f"w{number}", 1000.0 - number, priority=chance.choice((0, 0, 100))) for number in range(8)]
    scene = present(2, [runs(f"r{number}", number, chance.uniform(0, 500)) for number in range(2)], queue)
    known = waited_so_long([chance.choice((30.0, 60.0, 5000.0)) for _ in range(40)], ran=chance.uniform(60, 900))

    found = forecast(scene, known, options(), queue)

    served = sorted(queue, key=lambda pod: (-pod.priority, pod.created_at))
    ranges = [(each.least, each.most) for pod in served if isinstance(each := found[pod.uid], Forecast)]
    assert [least for least, _ in ranges] == sorted(least for least, _ in ranges)
    assert [most for _, most in ranges] == sorted(most for _, most in ranges)
    alone = {pod.uid: forecast(scene, known, options(), [pod])[pod.uid] for pod in chance.sample(queue, 2)}
    assert alone == {uid: found[uid] for uid in alone}


def test_of_others_those_count_that_waited_as_long() -> None:
    known = waited_so_long([*range(100, 200, 10)])

    assert known.rest_of_waits(0.0, 5) == [110.0, 130.0, 150.0, 170.0, 190.0]
    assert known.rest_of_waits(145.0, 5) == [5.0, 15.0, 25.0, 35.0, 45.0]
    assert known.rest_of_waits(150.0, 4) == [], "four have waited longer: too few"


def test_pods_that_were_placed_at_once_say_nothing_of_those_that_wait() -> None:
    assert waited_so_long([0.0, 0.02, 1.0, 9.0] * 25).rest_of_waits(0.0, 4) == []
    assert waited_so_long([50.0] * 4).rest_of_waits(0.0, 4) == [], "too few"


@pytest.mark.long
def test_a_queue_that_stands_takes_the_end_from_no_range() -> None:
    queue = [waits("new", 100.0), *(waits(f"behind-{number}", 50.0, resources=asks(9)) for number in range(10))]
    scene = present(1, [runs("runs", 0, 600.0)], queue)

    alone, beside = (told(asked(scene, waited_so_long([0.0] * 20, still, ran=1200.0))) for still in (0, 10))

    assert (alone.least, alone.most) == (beside.least, beside.most) == (600.0, 600.0)


@pytest.mark.parametrize("ended", range(1, 30))
def test_whatever_part_of_the_courses_ends_it_can_be_said(ended: int) -> None:
    """Of 29 courses so many have an end; others waited long, or nobody has."""
    drawn = sorted([600.0] * ended + [inf] * (29 - ended))
    for known in (past([]), waited_so_long([3600.0] * 20), waited_so_long([3600.0] * 20, still=50)):
        found = interval(beside_past(drawn, known, 60.0))
        if interval(drawn)[0] < inf:
            assert found[0] < inf
            assert Forecast(*found, draws=29).text()


@pytest.mark.long
def test_a_pod_that_the_courses_know_is_told_a_range_beside_what_others_waited() -> None:
    scene = present(1, [runs("runs", 0, 600.0)], [waits("new", 100.0)])
    (found,) = forecast(scene, past([1200.0] * 20), options(), scene.waiting).values()
    (beside,) = forecast(scene, waited_so_long([400.0] * 20, ran=1200.0), options(), scene.waiting).values()

    assert isinstance(found, Forecast)
    assert isinstance(beside, Forecast)
    assert (found.least, found.most) == (600.0, 600.0)
    assert (beside.least, beside.most) == (300.0, 600.0)


def waited_so_long(seconds: Sequence[float], still: int = 0, ran: float = 60.0) -> WorkloadHistory:
    """Return what is known where pods were placed after so many seconds, and some wait since an hour."""
    events: list[HistoryEvent] = []
    for number, each in enumerate(seconds):
        pod, at = waiting(f"waited-{number}", resources=WHOLE), NOW - 5 * HOUR
        events += [Arrived(at, pod), Decided(at + each, pod.uid, "node-0"), Departed(at + each + ran, pod.uid)]
    events += [Arrived(NOW - HOUR, waiting(f"still-{number}", resources=WHOLE)) for number in range(still)]
    events.sort(key=lambda event: event.at)
    return WorkloadHistory(History(BEGAN, NOW, (), tuple(events)))

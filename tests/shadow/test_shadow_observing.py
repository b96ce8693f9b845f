"""What is planted on a cluster is named, and nothing else; and what is claimed is proven on the cluster as it was."""

from __future__ import annotations

import itertools

import pytest
from tests.seeds import seeds
from tests.shadow.clusters import START, Cluster, FewLines, stamp
from tests.shadow.watched import OPTIONS, Watched, beside_itself

from vgpu_scheduler.shadow import MissedPlacement, Place, faults, objects_at
from vgpu_scheduler.shadow.observer import SHORTEST_MISS
from vgpu_scheduler.whatif import World, simulate
from vgpu_scheduler.whatif.world.queue_order import queue_of

MIN_DURATION = 60.0


def one_node(cards: int = 2) -> Cluster:
    cluster = Cluster()
    cluster.add_node("a", cards)
    return cluster


def test_a_pod_is_followed_from_its_arrival_to_its_end() -> None:
    cluster = one_node()
    watched = Watched(cluster)
    cluster.add_pod("x", 4000, START + 10)
    watched.see(START + 10)
    cluster.announce("x", "a", ["GPU-a-0"], 4000)
    watched.see(START + 12)
    cluster.bind("x", "a")
    watched.see(START + 13)
    cluster.delete("Pod", "x")
    watched.see(START + 60)
    entry = watched.entry("x")
    assert (entry.arrived, entry.fitted, entry.placed, entry.bound, entry.left) == tuple(
        START + second for second in (10, 10, 12, 13, 60)
    )
    assert entry.place == Place("a", ("GPU-a-0",))
    assert entry.choice.place == Place("a", ("GPU-a-1",))  # the later one of equals
    assert entry.differs
    assert entry.waited(START + 99) == 3.0
    assert not watched.anew


def test_how_the_cluster_stands_is_looked_at_closely_in_the_beginning_and_each_minute_later() -> None:
    watched = Watched(one_node())
    for second in range(1, 7201):
        watched.see(START + second)
    times = [sample.at - START for sample in watched.record.samples]
    apart = [after - before for before, after in itertools.pairwise(times)]
    assert len([time for time in times if time <= 120]) > 50
    assert max(apart) == apart[-1] == 60.0
    assert len(times) < 320


def test_what_was_placed_before_anybody_watched_is_not_told_of() -> None:
    cluster = one_node()
    cluster.add_pod("x", 4000, START - 50)
    cluster.announce("x", "a", ["GPU-a-0"], 4000)
    cluster.bind("x", "a")
    watched = Watched(cluster)
    cluster.lock("a", None)
    watched.see(START + 5)
    pod = cluster.get("Pod", "x")
    pod["status"]["phase"] = "Running"
    cluster.put(pod)
    watched.see(START + 6)
    assert not watched.record.pods


def test_a_choice_is_made_on_the_cluster_that_the_other_one_saw() -> None:
    cluster = one_node(1)
    watched = Watched(cluster)
    cluster.add_pod("x", 10_000, START)
    cluster.add_pod("y", 10_000, START)
    for name in ("y", "x"):  # the second one is over the card
        cluster.announce(name, "a", ["GPU-a-0"], 10_000)
        cluster.bind(name, "a")
    watched.see(START + 1)
    assert watched.entry("y").choice.place == Place("a", ("GPU-a-0",))
    assert watched.entry("x").choice.place is None
    assert "CardInsufficientMemory" in watched.entry("x").choice.reason


def test_a_pod_behind_a_gate_arrives_when_the_gate_is_gone() -> None:
    cluster = one_node()
    cluster.add_pod("x", 4000, START)
    pod = cluster.get("Pod", "x")
    pod["spec"]["schedulingGates"] = [{"name": "later"}]
    cluster.put(pod)
    watched = Watched(cluster)
    watched.see(START + 100)
    assert not watched.record.pods
    del pod["spec"]["schedulingGates"]
    cluster.put(pod)
    watched.see(START + 200)
    assert watched.entry("x").arrived == START + 200


@pytest.mark.parametrize(("lasts", "kept"), [(0.02, 0), (SHORTEST_MISS - 0.01, 0), (SHORTEST_MISS, 1), (5.0, 1)])
def test_a_pod_that_waits_for_its_decision_alone_misses_nothing(lasts: float, kept: int) -> None:
    cluster = one_node()
    watched = Watched(cluster)
    cluster.add_pod("first", 4000, START + 1)
    watched.see(START + 1)
    cluster.add_pod("x", 4000, START + 2)
    watched.see(START + 2)
    cluster.announce("x", "a", ["GPU-a-0"], 4000)
    cluster.bind("x", "a")
    watched.see(START + 2 + lasts)
    missed = [each.pod for each in watched.record.missed]
    assert missed == ["default/first", *["default/x"] * kept]
    assert watched.entry("x").fitted == START + 2


def test_who_is_announced_and_not_bound_when_somebody_begins_to_watch_waits() -> None:
    cluster = one_node()
    cluster.add_pod("bound", 4000, START - 50)
    cluster.announce("bound", "a", ["GPU-a-0"], 4000)
    cluster.bind("bound", "a")
    cluster.add_pod("leaky", 4000, START - 40)
    cluster.announce("leaky", "a", ["GPU-a-0"], 4000)
    watched = Watched(cluster)
    watched.see(START + 5)
    assert [entry.pod for entry in watched.record.pods.values()] == ["default/leaky"]
    assert (watched.entry("leaky").arrived, watched.entry("leaky").bound) == (START - 40, None)


def test_what_was_announced_and_taken_back_waits_again() -> None:
    cluster = one_node()
    watched = Watched(cluster)
    cluster.add_pod("x", 4000, START)
    cluster.announce("x", "a", ["GPU-a-0"], 4000)
    watched.see(START + 1)
    assert watched.entry("x").place == Place("a", ("GPU-a-0",))
    pod = cluster.get("Pod", "x")
    pod["metadata"]["annotations"] = {}
    cluster.put(pod)
    watched.see(START + 5)
    entry = watched.entry("x")
    assert (entry.place, entry.placed, entry.bound) == (None, None, None)
    assert [(missed.since, missed.until) for missed in watched.record.missed] == [(START + 5, None)]


def test_a_lock_that_nobody_needs_keeps_no_pod_from_the_room_that_it_would_have_had() -> None:
    cluster = one_node()
    watched = Watched(cluster)
    cluster.lock("a", f"{stamp(START)},default,gone")
    cluster.add_pod("x", 4000, START + 10)
    watched.see(START + 10)
    watched.see(START + 200)
    assert [(missed.since, missed.until) for missed in watched.record.missed] == [(START + 10, None)]
    (fault,) = faults.named(watched.record.faults, MIN_DURATION)
    assert (fault.id, fault.object, fault.about) == ("lock-stale", "Node a", "hami.io/mutex.lock")
    cluster.lock("a", None)
    watched.see(START + 300)
    assert (fault.seen, fault.lasts) == (START + 200, False)


def test_room_that_is_gone_is_missed_no_more_and_may_come_again() -> None:
    cluster = one_node(1)
    watched = Watched(cluster)
    cluster.add_pod("kept", 9000, START)
    watched.see(START + 1)
    cluster.add_pod("y", 9000, START + 5)
    cluster.announce("y", "a", ["GPU-a-0"], 9000)
    cluster.bind("y", "a")
    watched.see(START + 6)
    cluster.delete("Pod", "y")
    watched.see(START + 90)
    times = [(missed.since, missed.until) for missed in watched.record.missed]
    assert times == [(START + 1, START + 6), (START + 90, None)]
    assert watched.entry("kept").fitted == START + 1


def test_two_pods_are_not_told_of_for_the_same_room() -> None:
    cluster = one_node(1)
    watched = Watched(cluster)
    for number in range(3):
        cluster.add_pod(f"p{number}", 7000, START + number)
    watched.see(START + 5)
    assert [missed.pod for missed in watched.record.missed] == ["default/p0", "default/p1"]


def test_what_is_about_to_be_bound_is_no_leak() -> None:
    cluster = one_node()
    watched = Watched(cluster)
    cluster.add_pod("x", 4000, START)
    cluster.announce("x", "a", ["GPU-a-0"], 4000)
    watched.see(START + 1)
    watched.see(START + 30)
    assert [fault.id for fault in watched.record.faults] == ["allocation-unbound"]
    assert not faults.named(watched.record.faults, MIN_DURATION)
    cluster.bind("x", "a")
    watched.see(START + 31)
    watched.see(START + 200)
    assert not watched.record.faults


def proven(watched: Watched) -> int:
    """Prove what is claimed of pods that wait: on the cluster as it was recorded, the engine places them there."""
    claims: dict[float, list[MissedPlacement]] = {}
    for missed in watched.record.missed:
        claims.setdefault(missed.since, []).append(missed)
    for since, claimed in claims.items():
        world = World(OPTIONS)
        world.add(objects_at(watched.lines, since))
        answers = simulate(world, queue_of(world), as_they_are=True)
        placements = {each.pod.key: each.decision.placement for each in answers}
        for missed in claimed:
            placement = placements[missed.pod]
            assert placement is not None, missed
            cards = {card.uuid for container in placement.containers for card in container}
            assert Place(placement.node, tuple(sorted(cards))) == missed.place
    return sum(map(len, claims.values()))


@pytest.mark.parametrize("seed", seeds(3, 80))
def test_what_is_planted_is_named_and_nothing_else(seed: int) -> None:
    played = FewLines(seed)
    watched = Watched(played.cluster)
    for _ in range(60):
        played.step()
        watched.see(played.now)
    planted, named = played.planted, faults.named(watched.record.faults, MIN_DURATION)

    def lasting(times: dict[str, float]) -> set[str]:
        return {name for name, since in times.items() if played.now - since >= MIN_DURATION}

    leaked = {fault.object for fault in named if fault.id in faults.LEAKED}
    assert leaked == {f"Pod default/{name}" for name in lasting(planted.leaked)}
    stalled = {fault.object for fault in named if fault.id in faults.STALLED}
    assert stalled == {f"Node {name}" for name in planted.stalled if played.now - planted.stalled[name] > MIN_DURATION}
    over = {fault.about for fault in named if fault.id in faults.OVER}
    assert over == {card for card, lasted in planted.over.items() if lasted >= MIN_DURATION}
    missed = {
        each.pod.removeprefix("default/") for each in watched.record.missed if each.lasted(played.now) >= MIN_DURATION
    }
    assert lasting(planted.kept) <= missed <= planted.kept.keys() | planted.blocked
    assert proven(watched) == len(watched.record.missed)


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_beside_itself_there_is_no_difference(seed: int) -> None:
    watched, now = beside_itself(seed)
    placed = [entry for entry in watched.record.pods.values() if entry.placed is not None]
    assert len(placed) > 20
    assert not [entry for entry in placed if entry.choice is None or entry.differs]
    assert not [missed for missed in watched.record.missed if missed.lasted(now) >= MIN_DURATION]  # it backs off


@pytest.mark.parametrize("is_known", [True, False])
def test_the_lock_of_a_pod_that_is_placed_at_the_same_time_closes_no_node(*, is_known: bool) -> None:
    cluster = Cluster()
    cluster.add_node("a", 1)
    watched = Watched(cluster)
    for name in ("first", "second"):
        if is_known:
            cluster.add_pod(name, 4000, START)
        cluster.lock("a", f"{stamp(START)},default,{name}")
        if not is_known:
            cluster.add_pod(name, 4000, START)
        cluster.announce(name, "a", ["GPU-a-0"], 4000)
        cluster.bind(name, "a")
        cluster.lock("a", None)
    watched.see(START + 1.0)
    assert [watched.entry(name).differs for name in ("first", "second")] == [False, False]

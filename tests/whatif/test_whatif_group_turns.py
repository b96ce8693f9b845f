"""The turns of groups of pods: what is said of a place in the queue is what becomes of it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.whatif.group_worlds import drawn, member, named, simulated
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import explain_pod, simulate
from vgpu_scheduler.whatif.world.queue_order import places_in_queue, pods_before_and_after, queue_of


@pytest.mark.parametrize("seed", range(50))
def test_a_group_is_told_of_the_pods_that_are_served_before_it(seed: int) -> None:
    """Only where they take room that it could have: without them all of it goes to the group."""
    rng = np.random.default_rng(seed)
    count, memory = int(rng.integers(1, 4)), int(rng.integers(9000, 16000))
    earlier = [
        waits(f"w{n}", {GPU: 1, MEMORY: memory}, 1 if seed % 2 else 9, **({} if seed % 2 else {"priority": 5}))
        for n in range(count)
    ]
    world = world_of(node("a", 2), *earlier, member("p0", 5, 2, memory=9000), member("p1", 6, 2, memory=9000))
    for name in ("p0", "p1"):
        found = explain_pod(world, named(world, name))
        assert not found.answer.node
        fit = min(count, 2)
        assert f"{fit} pod{'s' if fit > 1 else ''} that fit{'' if fit > 1 else 's'} now" in found.text()
        assert "served before it" in found.as_json()["first"]
    alone = world_of(node("a", 2), member("p0", 5, 2, memory=9000), member("p1", 6, 2, memory=9000))
    found = explain_pod(alone, named(alone, "p0"))
    assert found.answer.node == "a"
    assert not found.first


def test_a_simulated_pod_of_a_group_is_asked_about_by_itself_where_only_it_is() -> None:
    world = world_of(node("a", 2))
    asked = world.pod(member("p0", 1, 8))
    (answer,) = simulate(world, [asked], each_alone=True)
    assert answer.node == "a"


@pytest.mark.parametrize("seed", range(60))
def test_what_is_said_of_each_member_is_what_becomes_of_it_in_its_turn(seed: int) -> None:
    objects = drawn(seed)
    goes = simulated(world_of(*objects))
    world = world_of(*objects)
    for pod in sorted(world.pending.values(), key=lambda pod: pod.name):
        group = world.engine.attempts.gang_status(pod)
        if group is not None and group.needed < len(group.waiting):
            continue  # which of them are more than are needed, others decide that come between
        found = explain_pod(world, pod)
        assert bool(found.answer.node) == (pod.name in goes), f"seed {seed}, pod {pod.name}"
    assert not world.engine.state.drift()
    assert not list(world.engine.state.reservations())


@pytest.mark.parametrize(
    ("minimum", "waiting", "told"),
    [
        (2, 1, "  1 to be placed at once: p0"),
        (2, 2, "  1 of 2 to be placed at once: p0, p1"),
        (1, 1, ""),
    ],
)
def test_a_pod_that_is_placed_by_itself_is_told_how_far_its_group_is(minimum: int, waiting: int, told: str) -> None:
    there = running("m0", "a", "GPU-a-0", 16384, 0)
    there["metadata"]["annotations"] |= in_group("team", minimum)
    world = world_of(node("a", 1), there, *(member(f"p{n}", n, minimum, memory=16000) for n in range(waiting)))
    found = explain_pod(world, named(world, f"p{waiting - 1}"))
    assert not found.answer.node
    runs = f"It belongs to group default/team, of which at least {minimum} pods run, or none:"
    assert found.group.splitlines() == ([runs, "  1 placed or succeeded", told] if told else [])


@pytest.mark.parametrize("seed", range(30))
def test_a_place_in_the_queue_is_behind_all_that_are_said_to_be_served_before(seed: int) -> None:
    """Those of one second and one priority, and those that are placed together, included."""
    rng = np.random.default_rng(seed)
    pods = [
        waits(f"p{number}", {GPU: 1}, int(rng.integers(0, 4)), priority=int(rng.integers(0, 2)))
        for number in range(int(rng.integers(1, 7)))
    ]
    pods += [member(f"m{number}", int(rng.integers(0, 4)), 3) for number in range(int(rng.integers(0, 5)))]
    world = world_of(node("a", 1), *pods)
    places = places_in_queue(world)
    listed = queue_of(world)
    assert places == {each.uid: len(pods_before_and_after(world, each).before) + 1 for each in listed}
    assert [places[each.uid] for each in listed if not each.name.startswith("m")] == sorted(
        places[each.uid] for each in listed if not each.name.startswith("m")
    )


@pytest.mark.parametrize("minimum", [40, 60], ids=["with a quorum", "without"])
def test_places_in_the_queue_take_one_question_about_each_group(minimum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(node("a", 1), *(member(f"m{number}", number, minimum) for number in range(50)))
    attempts, asked = world.engine.attempts, list[str]()
    as_it_is = attempts.gang_status

    def counted(pod: Pod) -> object:
        asked.append(pod.name)
        return as_it_is(pod)

    monkeypatch.setattr(attempts, "gang_status", counted)
    assert len(places_in_queue(world)) == 50
    assert len(asked) == 1

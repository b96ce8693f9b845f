"""Other pods wait, too: whoever does what is said about one sees it placed after those that are served before it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.policy.resources import policy_object
from tests.whatif.test_whatif_defrag import owned, world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, _random_objects, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import (
    Remedy,
    RemedyType,
    World,
    explain_bound,
    explain_pod,
    make_dialect,
    make_room,
    remedies,
    simulate,
)

Object = dict[str, Any]

OURS = "vgpu-scheduler"


def waits(name: str, limits: dict[str, Any], second: int, **spec: Any) -> Object:
    """Return a pod that waits since a second."""
    made = pod(name, limits, schedulerName=OURS, **spec)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return made


def drawn(seed: int) -> list[Object]:
    """Return a cluster in which several pods wait, of which one is asked about."""
    rng = np.random.default_rng(seed)
    *objects, asked = _random_objects(seed)
    asked["metadata"]["creationTimestamp"] = "2026-01-01T00:00:30Z"
    asked["spec"] |= {"schedulerName": OURS, "priority": 1}
    for number in range(int(rng.integers(1, 5))):
        limits = {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(2000, 16000))}
        priority, second = int(rng.integers(0, 3)), int(rng.integers(0, 60))
        objects.append(waits(f"w{number}", limits, second, priority=priority))
    if rng.random() < 0.2:
        objects[-1]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    return [*objects, asked]


def asked_of(world: World) -> Pod:
    (found,) = [each for each in world.pending.values() if each.name == "asked"]
    return found


def turn(each: Pod) -> tuple[int, str, bool]:
    return -each.priority, each.creation_timestamp, each.name == "asked"


def everybody(world: World) -> dict[str, str]:
    """Return where all pods go that wait, each in its turn."""
    answers = simulate(world, sorted(world.pending.values(), key=turn), as_they_are=True, explained=False)
    return {answer.pod.name: answer.node for answer in answers if answer.node}


def done(
    objects: list[Object], remedy: Remedy, ended: set[str], make: Callable[..., World] = world_of
) -> dict[str, str]:
    """Return where the pods go that wait when a remedy is carried out once all that fit have their places."""
    world = make(*deepcopy(objects))
    there = everybody(world)
    for each in [each for each in world.bound.values() if each.name in ended]:
        world.remove_pod(each.uid)
    for obj in remedy.objects:
        match obj["kind"]:
            case "Node" if obj["metadata"]["name"] in world.nodes:
                world.replace_node(obj)
            case "ResourceQuota":
                world.replace_quota(obj)
            case _:
                world.add([obj])
    if remedy.pod is not None:
        world.remove_pod(asked_of(world).uid)
        metadata = {**remedy.pod["metadata"], "creationTimestamp": "2026-01-01T00:01:00Z"}
        world.add([{**deepcopy(remedy.pod), "metadata": metadata}])
    waiting = sorted((each for each in world.pending.values() if each.name not in there), key=turn)
    answers = simulate(world, waiting, as_they_are=True, explained=False)
    return there | {answer.pod.name: answer.node for answer in answers if answer.node}


@pytest.mark.parametrize("seed", range(120))
def test_a_remedy_helps_after_those_that_are_served_before(seed: int) -> None:
    objects = drawn(seed)
    world = world_of(*objects)
    found = explain_pod(world, asked_of(world))
    assert found.answer.node == everybody(world_of(*deepcopy(objects))).get("asked", "")
    for remedy in found.remedies:
        ended = {world.bound[uid].name for uid in remedy.ended}
        assert done(objects, remedy, ended).get("asked") == remedy.node, remedy.text


@pytest.mark.parametrize("seed", range(60))
def test_what_helps_beside_the_correction_of_a_policy_leaves_others_that_it_lets_in_their_places(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def limits(most: int) -> dict[str, Any]:
        return {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(1000, most))}

    broken = {"kind": "VGPUPolicy", "metadata": {"name": "keep", "namespace": "default"}}
    broken["spec"] = {"preemption": {"preemptible": False}}
    objects = [node("a", cards=int(rng.integers(1, 4))), broken]
    objects += [
        waits(f"w{n}", limits(16000), int(rng.integers(0, 60)), priority=int(rng.integers(0, 3)))
        for n in range(int(rng.integers(1, 4)))
    ]
    objects.append(waits("asked", limits(30000), 30, priority=1))
    world = world_of(*deepcopy(objects))
    for remedy in (each for each in explain_pod(world, asked_of(world)).remedies if each.node):
        assert done(objects, remedy, set()).get("asked") == remedy.node, remedy.text


@pytest.mark.parametrize("seed", range(80))
def test_a_bound_pod_that_is_created_anew_comes_after_those_that_wait(seed: int) -> None:
    *objects, asked = drawn(seed)
    holds = int(np.random.default_rng(seed).integers(1000, 16000))
    name = next(each["metadata"]["name"] for each in objects if each["kind"] == "Node")
    bound = running("asked", name, f"GPU-{name}-0", holds, priority=asked["spec"]["priority"])
    bound["spec"] = {**deepcopy(asked["spec"]), "nodeName": name}
    bound["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z"
    world = world_of(*objects, bound)
    (pod_now,) = [each for each in world.bound.values() if each.name == "asked"]
    found = explain_bound(world, pod_now)
    for remedy in found.remedies:
        ended = {world.bound[uid].name for uid in remedy.ended}
        written = remedy.pod or bound
        spec = {key: value for key, value in written["spec"].items() if key != "nodeName"}
        kept = ("name", "namespace", "labels")
        metadata = {key: value for key, value in written["metadata"].items() if key in kept}
        anew = replace(remedy, pod={"kind": "Pod", "metadata": metadata, "spec": spec})
        assert done([*objects, asked], anew, ended).get("asked") == remedy.node, remedy.text


def preempting(*objects: Object) -> World:
    """Return a world whose pods may preempt others."""
    made = World(EngineOptions([make_dialect("hami")], preemption=True))
    made.add([*objects, policy_object("up", {"preemption": {"mayPreempt": True, "victims": "Any"}})])
    return made


def of_several_priorities(seed: int) -> list[Object]:
    """Return such a cluster whose pods run with priorities, and are owned by nobody that makes them anew."""
    rng, objects = np.random.default_rng(seed), drawn(seed)
    for each in objects:
        if each["kind"] == "Pod":
            each["spec"]["priority"] = (
                int(rng.integers(0, 4)) if "nodeName" not in each["spec"] else int(rng.integers(0, 3))
            )
    return objects


@pytest.mark.parametrize("seed", range(120))
def test_a_remedy_helps_beside_those_that_preempt_others(seed: int) -> None:
    """Room is kept for them, and of what a change frees they take theirs first."""
    objects = of_several_priorities(seed)
    world = preempting(*objects)
    found = explain_pod(world, asked_of(world))
    settled = everybody(preempting(*deepcopy(objects)))
    assert found.answer.node == settled.get("asked", "")
    for remedy in found.remedies:
        ended = {world.bound[uid].name for uid in remedy.ended}
        placed = done(objects, remedy, ended, preempting)
        assert placed.get("asked") == remedy.node, remedy.text
        assert settled.items() <= placed.items() or remedy.ended, "nobody who has a place loses it"


@pytest.mark.parametrize("seed", range(50))
def test_a_pod_that_preempts_is_told_the_most_that_it_may_ask_without(seed: int) -> None:
    """A younger pod that would fit beside the victim has no place to lose: the room is kept for the first one."""
    held = int(np.random.default_rng(seed).integers(8192, 15000))
    free = 16384 - held
    objects = [
        node("a", cards=1),
        running("victim", "a", "GPU-a-0", held, priority=0),
        waits("asked", {GPU: 1, MEMORY: 16384}, 1, priority=5),
        waits("later", {GPU: 1, MEMORY: free - 1}, 2, priority=1),
    ]
    world = preempting(*objects)
    found = explain_pod(world, asked_of(world))
    (less,) = [remedy.text for remedy in found.remedies if remedy.type is RemedyType.ASK_LESS]
    assert less.startswith(f"ask {free} of {MEMORY} instead of 16384")
    assert not found.first
    (later,) = [each for each in world.pending.values() if each.name == "later"]
    told = explain_pod(world, later)
    assert not told.answer.node
    first = "which is served first and waits until others have left it; it counts as used."
    assert told.text().count(f"Room on a is kept for pod default/asked, {first}") == 1
    (kept,) = told.holds
    assert kept.without_names({"default"}) == kept
    assert kept.without_names({"team"}).text == f"Room on a is kept for another pod, {first}"
    assert make_room(world, later).steps or not make_room(world, later).node


@pytest.mark.parametrize("seed", range(50))
def test_what_one_that_preempts_would_take_is_no_help(seed: int) -> None:
    """Whoever uncordons the card sees the pod of higher priority take it, beside the one that its victim leaves."""
    rng = np.random.default_rng(seed)
    held, ours = int(rng.integers(1000, 16000)), int(rng.integers(16384 // 2, 16385))
    objects = [
        node("a", cards=2),
        running("victim", "a", "GPU-a-0", held, priority=0),
        waits("first", {GPU: 2, MEMORY: 16384}, 1, priority=5),
        waits("asked", {GPU: 1, MEMORY: ours}, 2, priority=1),
    ]
    objects[0]["metadata"]["annotations"]["hami.io/device-cordon"] = "GPU-a-1"
    world = preempting(*objects)
    found = explain_pod(world, asked_of(world))
    kinds = {remedy.type for remedy in found.remedies}
    if not found.answer.node:
        assert kinds
        assert RemedyType.UNCORDON_CARD not in kinds


@pytest.mark.parametrize("seed", range(60))
def test_who_would_not_fit_beside_room_that_is_kept_is_not_said_to_fit(seed: int) -> None:
    objects = of_several_priorities(seed)
    world = preempting(*objects)
    room = make_room(world, asked_of(world))
    settled = everybody(preempting(*deepcopy(objects)))
    assert (bool(room.node) and not room.steps and not room.taken_by) == ("asked" in settled)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_that_nobody_takes_the_room_of_holds_after_those_that_are_served_before(seed: int) -> None:
    objects = drawn(seed)
    for each in objects:
        if each["kind"] == "Pod" and "nodeName" in each["spec"]:
            each["metadata"] |= owned(each)["metadata"]
    world = world_of(*objects)
    room = make_room(world, asked_of(world))
    if not room.steps and room.node:
        assert everybody(world_of(*deepcopy(objects))).get("asked") == (None if room.taken_by else room.node)


def test_pods_are_ended_for_those_that_are_served_before_as_well() -> None:
    objects = [
        node("a", cards=1),
        running("one", "a", "GPU-a-0", 8000),
        running("two", "a", "GPU-a-0", 8000),
        waits("first", {GPU: 1, MEMORY: 8000}, 1),
        waits("asked", {GPU: 1, MEMORY: 8000}, 2),
    ]
    world = world_of(*objects)
    found = explain_pod(world, asked_of(world))
    assert [remedy.text for remedy in found.remedies if remedy.type is RemedyType.END_PODS] == [
        "end 2 pods on node a: default/one, default/two"
    ]
    assert "1 pod that waits, too, is served before it" in found.text()


def test_as_many_nodes_are_added_as_it_takes() -> None:
    full = [running("r", "a", "GPU-a-0", 16000), *(waits(f"w{n}", {GPU: 1, MEMORY: 16000}, n) for n in range(3))]
    world = world_of(node("a", cards=1), *full, waits("asked", {GPU: 1, MEMORY: 16000}, 9))
    found = {remedy.type: remedy for remedy in remedies(world, asked_of(world))}
    assert found[RemedyType.ADD_NODE].text == "add 4 nodes like a"
    assert len([obj for obj in found[RemedyType.ADD_NODE].objects if obj["kind"] == "Node"]) == 4


@pytest.mark.parametrize("seed", range(50))
def test_nodes_for_pods_of_the_same_second_are_told_as_the_range_that_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    earlier, as_old, later = (int(rng.integers(0, 4)) for _ in range(3))
    seconds = [1] * earlier + [9] * as_old + [20] * later
    whole = {GPU: 1, MEMORY: 16000}
    objects = [
        node("a", cards=1),
        running("r", "a", "GPU-a-0", 16000),
        *(waits(f"w{n}", whole, second) for n, second in enumerate(seconds)),
        waits("asked", whole, 9),
    ]
    world = world_of(*objects)
    found = {remedy.type: remedy for remedy in remedies(world, asked_of(world))}[RemedyType.ADD_NODE]
    most, fewest = earlier + as_old + 1, earlier + 1
    added = [obj for obj in found.objects if obj["kind"] == "Node"]
    assert len(added) == most
    assert found.text.startswith("add a node like a" if most == 1 else f"add {most} nodes like a")
    assert (f"or fewer, but at least {fewest}: it is not known" in found.text) is (fewest < most)
    assert "asked" in done(objects, found, set())
    # One fewer than the fewest is not enough, however pods of a second are served.
    for number, is_enough in ((fewest, True), (fewest - 1, False)):
        first = [each for each in objects if each["metadata"]["name"] not in {f"w{n}" for n in range(earlier, 9)}]
        assert ("asked" in done(first, replace(found, objects=tuple(added[:number])), set())) is is_enough


def test_what_fits_but_for_those_before_it_is_said_to_wait() -> None:
    room = [node("a", cards=1), waits("urgent", {GPU: 1, MEMORY: 16000}, 9, priority=5)]
    world = world_of(*room, waits("asked", {GPU: 1, MEMORY: 16000}, 1))
    found = explain_pod(world, asked_of(world))
    assert not found.answer.node
    assert "1 pod that fits now is served before it (higher priority" in found.text()


@pytest.mark.parametrize("seed", range(50))
def test_those_that_are_served_after_it_and_fit_now_are_said_to_keep_their_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, others = int(rng.integers(9000, 16000)), int(rng.integers(0, 3))
    held = running("held", "a", "GPU-a-0", int(rng.integers(8000, 12000)))
    small = [waits(f"w{n}", {GPU: 1, MEMORY: int(rng.integers(100, 1000))}, 5 + n) for n in range(others)]
    world = world_of(node("a", cards=1), held, *small, waits("asked", {GPU: 1, MEMORY: memory}, 1))
    found = explain_pod(world, asked_of(world))
    assert not found.answer.node
    words = {
        0: (),
        1: ("1 pod that fits now is served after it; the changes below leave it its place.",),
        2: ("2 pods that fit now are served after it; the changes below leave them their places.",),
    }
    assert found.first == words[others]
    assert all(each in found.text() for each in words[others])


def test_those_that_fit_now_are_told_where_no_change_was_found_either() -> None:
    wants: Object = {"nodeSelector": {"pool": "none"}}
    world = world_of(
        node("a", cards=1),
        waits("w", {GPU: 1, MEMORY: 1000}, 5),
        waits("asked", {GPU: 1, MEMORY: 99000, "cpu": 99}, 1, **wants),
    )
    found = explain_pod(world, asked_of(world))
    assert not found.remedies
    told = "1 pod that fits now is served after it; the changes that are searched leave it its place."
    assert found.first == (told,)
    assert told in found.as_json()["first"]

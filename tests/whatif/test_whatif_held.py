"""What no move changes is said at once, with figures, and nothing is planned in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_making_room import _random, waiting
from tests.whatif.test_whatif_remedies import GPU, MEMORY, _quota, node, pod

from vgpu_scheduler.whatif import make_room
from vgpu_scheduler.whatif.moves.room_search import RoomSearch

Object = dict[str, Any]

HOW = ("quota", "quota of whole cards", "gate", "refusal")


def held(rng: np.random.Generator, how: str, objects: list[Object]) -> str:
    """Have the pod that waits be held by something; return what has to be said of it."""
    asked = next(each for each in objects if each["metadata"]["name"] == "new")
    limits = asked["spec"]["containers"][0]["resources"]["limits"]
    match how:
        case "quota" | "quota of whole cards":
            pods = [each for each in objects if each["kind"] == "Pod" and each["spec"].get("nodeName")]
            told = [each["spec"]["containers"][0]["resources"]["limits"] for each in pods]
            used = sum(int(each[MEMORY]) * int(each[GPU]) for each in told)
            adds = int(limits[GPU]) * (int(limits[MEMORY]) if how == "quota" else 16384)
            if how != "quota":
                del limits[MEMORY]
            objects.append(_quota(MEMORY, limit := used + int(rng.integers(0, adds))))
            return f"asks for {'at least ' * (how != 'quota')}{adds} MiB, and {used} of {limit} MiB of limits.{MEMORY}"
        case "gate":
            asked["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
            return "waiting for scheduling gates: [example.com/g]"
        case _:
            asked["spec"]["containers"][0]["resources"]["limits"][MEMORY] = "-1"
            return MEMORY


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(25))
def test_what_no_move_changes_is_said_and_nothing_is_planned(
    monkeypatch: pytest.MonkeyPatch, seed: int, how: str
) -> None:
    monkeypatch.setattr(RoomSearch, "plans", None)
    objects = _random(seed)[0]
    told = held(np.random.default_rng(seed), how, objects)
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert told in room.held
    assert (room.node, room.steps) == ("", ())


@pytest.mark.parametrize("seed", range(40))
def test_a_quota_that_leaves_enough_holds_nobody(seed: int) -> None:
    objects = _random(seed)[0]
    world = world_of(*objects, _quota(MEMORY, 10**6))
    again = world_of(*objects)
    assert make_room(world, waiting(world)) == make_room(again, waiting(again))


def test_a_claim_that_is_not_there_is_what_the_pod_waits_for() -> None:
    asked = pod("new", {GPU: 1}, schedulerName="vgpu-scheduler")
    asked["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    world = world_of(node("a", cards=1), asked)
    room = make_room(world, waiting(world))
    assert 'persistentvolumeclaim "data" not found' in room.held + room.hopeless

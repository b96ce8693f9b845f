"""Changes that are taken into a world one by one leave the world that all objects together make."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from tests.cli.listed_clusters import cluster
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import ChangeResult, World, apply_change, explain_bound, explain_pod, make_dialect
from vgpu_scheduler.whatif.world import usage

Object = dict[str, Any]
OURS, HAMI = "vgpu-scheduler", "hami-scheduler"
STEPS = ("bind", "delete", "finish", "label", "new", "touch", "remake", "cordon", "gone", "announce", "take back")


def world_of(objects: list[Object]) -> World:
    made = World(EngineOptions([make_dialect("hami")], coexist_with=[HAMI]))
    made.add(copy.deepcopy(objects))
    return made


def told(world: World, number: int) -> Any:
    """Return what pages show of a world, and what is said of one of its pods."""
    cards = usage.cards(world)
    rows = [cards, usage.nodes(cards), usage.models(world, cards), usage.pods(world), usage.namespaces(world)]
    pods = sorted((*world.pending.values(), *world.bound.values()), key=lambda each: each.key)
    said: Any = None
    if pods:
        asked = pods[number % len(pods)]
        if asked.uid in world.pending:
            said = explain_pod(world, asked).as_json()
        else:
            said = explain_bound(world, asked).as_json()
    return rows, sorted(map(str, world.problems)), [each.key for each in pods], said


class Changing:
    """A cluster that changes as one does behind an API server: each object has a UID and a version."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.version = 0
        self.objects: dict[tuple[str, str, str], Object] = {}
        for obj in cluster(rng):
            self.put(obj)

    def put(self, obj: Object) -> Object:
        self.version += 1
        metadata = {"uid": f"uid-{self.version}", **obj["metadata"], "resourceVersion": str(self.version)}
        kept = {**obj, "metadata": metadata}
        self.objects[obj["kind"], metadata.get("namespace", ""), metadata["name"]] = kept
        return copy.deepcopy(kept)

    def of(self, kind: str) -> list[Object]:
        return [copy.deepcopy(obj) for (found, _, _), obj in sorted(self.objects.items()) if found == kind]

    def any(self, objects: list[Object]) -> Object | None:
        return objects[int(self.rng.integers(len(objects)))] if objects else None

    def step(self) -> tuple[Object, bool] | None:
        """Change something; return the object and whether it is gone, None where there was nothing to change."""
        how = str(self.rng.choice(STEPS))
        nodes = self.of("Node")
        waiting = [each for each in self.of("Pod") if not each["spec"].get("nodeName")]
        if how == "new":
            whose = HAMI if self.version % 2 else OURS
            made = pod(f"new-{self.version}", {GPU: 1, MEMORY: 2000}, schedulerName=whose)
            return self.put(made), False
        chosen = {
            "bind": waiting,
            "announce": waiting,
            "take back": waiting,
            "label": nodes,
            "cordon": nodes,
            "gone": nodes,
        }.get(how, self.of("Pod"))
        obj = self.any(chosen)
        if obj is None:
            return None
        if how in {"delete", "gone"}:
            del self.objects[obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]]
            return obj, True
        if how == "take back":
            obj["metadata"]["annotations"] = {}
        elif how in {"bind", "announce"}:
            where = self.any(nodes)
            if where is None:
                return None
            name = where["metadata"]["name"]
            card = where["metadata"]["annotations"]["hami.io/node-nvidia-register"].split('"id": "')[1].split('"')[0]
            held = running("x", name, card, 1000)
            if how == "bind":
                obj["spec"]["nodeName"] = name
            if how == "announce" or "annotations" not in obj["metadata"]:
                obj["metadata"]["annotations"] = held["metadata"]["annotations"]
        elif how == "finish":
            obj["status"] = {"phase": "Succeeded"}
        elif how == "label":
            obj["metadata"]["labels"] = {"pool": str(self.rng.integers(3))}
        elif how == "cordon":
            obj["spec"] = {"unschedulable": not (obj.get("spec") or {}).get("unschedulable", False)}
        elif how == "remake":
            obj["metadata"].pop("uid")
        return self.put(obj), False


@pytest.mark.parametrize("seed", range(40))
def test_a_world_that_changes_is_the_one_that_its_objects_make(seed: int) -> None:
    rng = np.random.default_rng(seed)
    changing = Changing(rng)
    world = world_of(list(changing.objects.values()))
    outcomes = set()
    for number in range(30):
        step = changing.step()
        if step is None:
            continue
        taken = apply_change(world, step[0], gone=step[1])
        outcomes.add(taken)
        fresh = world_of(list(changing.objects.values()))
        if taken is ChangeResult.NOT:
            world = fresh
            continue
        assert told(world, number) == told(fresh, number), f"{number}: {taken}"
    assert ChangeResult.CHANGED in outcomes


def test_what_changes_nothing_is_not_told() -> None:
    first = running("first", "a", "GPU-a-0", 6000)
    first["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    machine = node("a")
    machine["metadata"] |= {"uid": "n", "resourceVersion": "6"}
    world = world_of([machine, first])
    first["metadata"]["resourceVersion"] = machine["metadata"]["resourceVersion"] = "7"
    assert apply_change(world, first, gone=False) is ChangeResult.SAME
    assert apply_change(world, machine, gone=False) is ChangeResult.SAME
    assert apply_change(world, {"kind": "Pod", "metadata": {"name": "x", "uid": "x"}}, gone=True) is ChangeResult.SAME
    assert apply_change(world, {"kind": "Namespace", "metadata": {"name": "x"}}, gone=False) is ChangeResult.NOT


def test_a_problem_of_another_object_whose_name_begins_alike_keeps_no_change_out() -> None:
    machine, other = node("a"), node("ab")
    machine["metadata"] |= {"uid": "n", "resourceVersion": "6"}
    first, longer = running("p", "a", "GPU-a-0", 6000), running("p-1", "gone", "GPU-gone-0", 6000)
    first["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    world = world_of([machine, other, other, first, longer])
    assert [str(each) for each in world.problems] == [
        "Node ab is there twice",
        "Pod default/p-1: there is no node gone",
    ]
    machine["metadata"]["labels"] = {"x": "y"}
    assert apply_change(world, machine, gone=False) is ChangeResult.CHANGED
    assert apply_change(world, first, gone=True) is ChangeResult.CHANGED


def test_cards_that_change_make_the_world_anew() -> None:
    machine = node("a")
    machine["metadata"] |= {"uid": "n", "resourceVersion": "6"}
    world = world_of([machine])
    other = node("a", cards=3)
    other["metadata"] |= {"uid": "n", "resourceVersion": "7"}
    assert apply_change(world, other, gone=False) is ChangeResult.NOT


def test_a_bound_pod_that_was_asked_about_is_still_followed() -> None:
    first = running("first", "a", "GPU-a-0", 6000)
    first["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    world = world_of([node("a"), first])
    (bound,) = world.bound.values()
    explain_bound(world, bound)
    ended = {**first, "metadata": {**first["metadata"], "resourceVersion": "9"}, "status": {"phase": "Failed"}}
    assert apply_change(world, ended, gone=False) is ChangeResult.CHANGED
    assert usage.pods(world) == []
    assert apply_change(world, ended, gone=True) is ChangeResult.CHANGED
    assert not world.pods


@pytest.mark.parametrize("version", ["5", "0"])
def test_a_question_about_a_bound_pod_leaves_it_where_it_is_even_if_it_breaks_off(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    first = running("first", "a", "GPU-a-0", 6000)
    first["metadata"] |= {"uid": "u", "resourceVersion": version}
    world = world_of([node("a"), first])
    (bound,) = world.bound.values()
    before = usage.pods(world)
    for _ in range(2):
        assert explain_bound(world, bound).answer.node == "a"
        assert world.bound == {"u": bound}
        assert (usage.pods(world), world.engine.state.drift()) == (before, {})
    monkeypatch.setattr("vgpu_scheduler.whatif.explanation.explanation.ask", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        explain_bound(world, bound)
    assert world.bound == {"u": bound}
    assert (usage.pods(world), world.engine.state.drift()) == (before, {})


@pytest.mark.parametrize("changed", [{"deletionTimestamp": "2026-01-02T00:00:00Z"}, {}])
def test_where_pods_are_evicted_what_may_keep_room_makes_the_world_anew(changed: dict[str, str]) -> None:
    first, waits = running("first", "a", "GPU-a-0", 6000), pod("w", {GPU: 1, MEMORY: 99999}, schedulerName=OURS)
    first["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    waits["metadata"] |= {"uid": "w", "resourceVersion": "6"}
    world = World(EngineOptions([make_dialect("hami")], preemption=True))
    world.add([node("a"), first, waits])
    first["metadata"] = {**first["metadata"], "resourceVersion": "7", **changed}
    assert apply_change(world, first, gone=False) is (ChangeResult.NOT if changed else ChangeResult.SAME)
    nominated = {**waits, "status": {"nominatedNodeName": "a"}}
    nominated["metadata"] = {**waits["metadata"], "resourceVersion": "8"}
    assert apply_change(world, nominated, gone=False) is ChangeResult.NOT

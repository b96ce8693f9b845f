"""Cards that only nodes of another dialect have are asked for in its names; whoever does that gets as much of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_condition_remedies import HAMI
from tests.whatif.test_whatif_remedies import pod
from tests.whatif.test_whatif_remedies_dialects import BYTES, CORE, CORES, MEMORY, NUMBER, RATIO, SHARED, SIZE, cluster

from vgpu_scheduler.dialects.volcano.names import NO_USE_UUID, USE_UUID
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, make_dialect, remedies

Object = dict[str, Any]

DIALECTS = ("hami", "volcano", "koordinator")
CASES = 40
CARDS = 3
_MIB = 2**20


def asked_in(dialect: str, rng: np.random.Generator) -> tuple[Object, tuple[int, int, int]]:
    """Return what a container asks, and how many cards that is, MiB and percent of each; whole cards are 0 MiB."""
    count, memory, cores = int(rng.integers(1, CARDS + 1)), int(rng.integers(100, SIZE)), int(rng.integers(1, 101))
    memory = 0 if rng.random() < 0.3 else memory
    cores = 0 if rng.random() < 0.3 and dialect != "koordinator" else cores
    if dialect == "koordinator":
        amount = {BYTES: f"{memory * count}Mi"} if memory else {RATIO: 100 * count}
        return {SHARED: count, CORE: cores * count, **amount}, (count, memory, cores)
    names = HAMI if dialect == "hami" else (NUMBER, MEMORY, CORES)
    chosen = zip(names, (count, memory, cores), strict=True)
    return {name: amount for name, amount in chosen if amount}, (count, memory, cores)


def world_with(served: list[str], *objects: Object) -> tuple[World, Any]:
    made = World(EngineOptions([make_dialect(name) for name in served]))
    made.add(objects)
    (waiting,) = made.pending.values()
    return made, waiting


def otherwise(world: World, waiting: Any) -> list[Remedy]:
    return [each for each in remedies(world, waiting) if each.type is RemedyType.ASK_OTHERWISE]


@pytest.mark.parametrize("there", DIALECTS)
@pytest.mark.parametrize("named", DIALECTS)
@pytest.mark.parametrize("seed", range(CASES))
def test_the_names_are_those_of_the_dialect_that_has_cards(seed: int, named: str, there: str) -> None:
    rng = np.random.default_rng(seed)
    served = [there, *([named] if rng.random() < 0.5 and named != there else [])]
    limits, (count, memory, cores) = asked_in(named, rng)
    nodes = cluster(there, [[] for _ in range(CARDS)])
    world, waiting = world_with(served, *nodes, pod("asked", limits))
    if ask(world, waiting).node:  # Koordinator owns nvidia.com/gpu, too
        assert named == there or set(limits) == {HAMI[0]}
        return
    (remedy,) = otherwise(world, waiting)
    assert remedy.pod is not None
    again, asked = world_with(served, *nodes, dict(remedy.pod))
    answer = ask(again, asked)
    assert answer.node == remedy.node == "n0"
    assert answer.decision.placement is not None
    inventory = again.engine.dialects[there].inventory
    held = [each.amounts for container in answer.decision.placement.containers for each in container]
    mib = [amounts[inventory.memory] * inventory.memory_unit // _MIB for amounts in held]
    assert (len(held), set(mib)) == (count, {memory or SIZE})
    assert {amounts[inventory.cores] for amounts in held} == {cores}


@pytest.mark.parametrize("there", DIALECTS)
@pytest.mark.parametrize("seed", range(24))
def test_a_name_that_several_know_is_that_of_the_dialect_which_reads_it(seed: int, there: str) -> None:
    """HAMi and Koordinator know ``nvidia.com/gpu``: the one that is listed first reads it, whichever has cards."""
    rng = np.random.default_rng(seed)
    served, count = [str(each) for each in rng.permutation(DIALECTS)], int(rng.integers(1, CARDS + 1))
    nodes = cluster(there, [[] for _ in range(CARDS)])
    world, waiting = world_with(served, *nodes, pod("asked", {HAMI[0]: count}))
    reader = min("hami", "koordinator", key=served.index)
    if there == "hami" != reader:  # of which all names begin with that of the card
        assert not otherwise(world, waiting)
        return
    if there == reader:
        assert ask(world, waiting).node
        return
    (remedy,) = otherwise(world, waiting)
    again, asked = world_with(served, *nodes, dict(remedy.pod or {}))
    placement = ask(again, asked).decision.placement
    assert placement is not None
    assert placement.node == remedy.node == "n0"
    assert [len(container) for container in placement.containers] == [count]


def test_nothing_is_said_of_other_names_where_nodes_have_cards_of_these() -> None:
    objects = [*cluster("hami", [[(SIZE, 0)]]), *(dict(each) for each in cluster("volcano", [[], []]))]
    objects[-1]["metadata"]["name"] = "other"
    world, waiting = world_with(["hami", "volcano"], *objects, pod("asked", {HAMI[0]: 1, HAMI[1]: 100}))
    assert not ask(world, waiting).node
    assert not otherwise(world, waiting)


def test_cards_of_another_maker_have_no_other_names() -> None:
    world, waiting = world_with(["hami", "volcano"], *cluster("volcano", [[]]), pod("asked", {"amd.com/gpu": 1}))
    assert not otherwise(world, waiting)


def in_the_way(objects: list[Object], asked: Object, rng: np.random.Generator) -> str:
    """Put something in the way of a pod that would fit if it asked in other names; return what."""
    node, spec = objects[-1], asked["spec"]
    kind = str(rng.choice(["selector", "cordon", "cpu", "taint", "memory", "cards", "port"]))
    match kind:
        case "selector":
            spec["nodeSelector"] = {"pool": "none"}
        case "cordon":
            node["spec"] = {"unschedulable": True}
        case "cpu":
            spec["containers"][0]["resources"]["requests"] = {"cpu": "65"}
        case "taint":
            node["spec"] = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
        case "port":
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            other = pod("other", {}, nodeName="n0")
            other["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            objects.append(other | {"status": {"phase": "Running"}})
    return kind


@pytest.mark.parametrize(("named", "there"), list(permutations(DIALECTS, 2)))
@pytest.mark.parametrize("seed", range(24))
def test_other_names_help_together_with_a_second_change(seed: int, named: str, there: str) -> None:
    """Whoever does both has a pod that fits; the same resource is not asked twice in one sentence."""
    rng = np.random.default_rng(seed)
    limits, _ = asked_in(named, rng)
    taken = int(rng.integers(1, SIZE)) if seed % 2 else 0
    objects = cluster(there, [[(taken, 0)] if taken else [] for _ in range(CARDS)])
    asked = pod("asked", limits)
    kind = in_the_way(objects, asked, rng)
    if kind == "memory" and named != "koordinator":
        asked["spec"]["containers"][0]["resources"]["limits"][HAMI[1] if named == "hami" else MEMORY] = str(2 * SIZE)
    if kind == "cards" and named != "koordinator":
        asked["spec"]["containers"][0]["resources"]["limits"][HAMI[0] if named == "hami" else NUMBER] = str(CARDS + 1)
    world, waiting = world_with([there], *objects, asked)
    if ask(world, waiting).node:
        assert set(limits) == {HAMI[0]}
        return
    found = remedies(world, waiting)
    if set(limits) != {HAMI[0]}:  # which Koordinator owns, too
        assert any(each.node and each.pod is not None for each in found)
    for remedy in found:
        if not remedy.node:
            continue
        ended = {world.bound[uid].key for uid in remedy.ended}
        again, changed = world_with([there], *_with(objects, remedy, ended), dict(remedy.pod or asked))
        assert ask(again, changed).node == remedy.node, remedy.text
        amounts = _names_in(remedy.text)
        assert len(amounts) == len(set(amounts)), remedy.text


def _with(objects: list[Object], remedy: Remedy, ended: set[str]) -> list[Mapping[str, Any]]:
    """Return objects as they are after a remedy."""
    changed = {(each["kind"], each["metadata"]["name"]): each for each in remedy.objects}
    kept = [each for each in objects if each["kind"] != "Pod" or f"default/{each['metadata']['name']}" not in ended]
    listed = [changed.pop((each["kind"], each["metadata"]["name"]), each) for each in kept]
    return [*listed, *changed.values()]


def _names_in(text: str) -> list[str]:
    """Return the resources of which a sentence asks an amount."""
    words = text.replace(",", " ").replace(":", " ").split()
    return [name for before, name in pairwise(words) if before == "of" and "/" in name]


@pytest.mark.parametrize(
    ("named", "there", "given", "kept", "says"),
    [
        ("hami", "volcano", {"nvidia.com/use-gpuuuid": "n0-1"}, {USE_UUID: "n0-1"}, f"with annotation {USE_UUID}"),
        ("hami", "volcano", {"nvidia.com/nouse-gpuuuid": "n0-0"}, {NO_USE_UUID: "n0-0"}, "instead of nvidia.com/nouse"),
        ("hami", "volcano", {"nvidia.com/use-gputype": "A100"}, {"nvidia.com/use-gputype": "A100"}, ""),
        ("volcano", "hami", {USE_UUID: "n0-1"}, {"nvidia.com/use-gpuuuid": "n0-1"}, f"instead of {USE_UUID}"),
        (
            "hami",
            "koordinator",
            {"nvidia.com/use-gputype": "A100"},
            {},
            "without annotation nvidia.com/use-gputype (A100)",
        ),
        ("volcano", "koordinator", {USE_UUID: "n0-1"}, {}, "which has no other name"),
        ("hami", "volcano", {"nvidia.com/numa-bind": "true"}, {}, "without annotation nvidia.com/numa-bind (true)"),
    ],
)
def test_what_chooses_among_cards_is_renamed_or_named_as_lost(
    named: str, there: str, given: dict[str, str], kept: dict[str, str], says: str
) -> None:
    limits = {HAMI[0]: 1, HAMI[1]: 100} if named == "hami" else {NUMBER: 1, MEMORY: 100}
    objects = cluster(there, [[], []])
    asked = pod("asked", limits, metadata={"annotations": given})
    world, waiting = world_with([there], *objects, asked)
    (remedy,) = otherwise(world, waiting)
    assert remedy.pod is not None
    assert remedy.pod["metadata"]["annotations"] == kept
    assert says in remedy.text
    assert ("annotation" in remedy.text) is bool(says)
    again, changed = world_with([there], *objects, dict(remedy.pod))
    placement = ask(again, changed).decision.placement
    assert placement is not None
    if kept and "type" not in next(iter(kept)):
        ((card,),) = [[each.uuid for each in container] for container in placement.containers]
        assert card == "n0-1"


@pytest.mark.parametrize(("named", "there"), list(permutations(("hami", "volcano"))))
@pytest.mark.parametrize("seed", range(30))
def test_each_container_asks_in_the_other_names(seed: int, named: str, there: str) -> None:
    rng = np.random.default_rng(seed)
    (one, (_, memory, cores)), (other, (_, more, _)) = asked_in(named, rng), asked_in(named, rng)
    count = HAMI[0] if named == "hami" else NUMBER
    one[count], other[count] = 1, 1
    objects, asked = cluster(there, [[] for _ in range(CARDS)]), pod("asked", one)
    second = {"name": "second", "resources": {"limits": {name: str(amount) for name, amount in other.items()}}}
    asked["spec"]["containers"].append(second)
    world, waiting = world_with([there], *objects, asked)
    if there == "volcano":  # whose plugin serves one container of a pod: the other one does without
        found = [each for each in remedies(world, waiting) if each.node]
        assert len(found) == 2
        for each in found:
            again, changed = world_with([there], *objects, dict(each.pod or {}))
            placement = ask(again, changed).decision.placement
            assert placement is not None
            assert sum(map(len, placement.containers)) == 1
            assert "leave out" in each.text
        return
    (remedy,) = otherwise(world, waiting)
    assert remedy.pod is not None
    again, changed = world_with([there], *objects, dict(remedy.pod))
    placement = ask(again, changed).decision.placement
    assert placement is not None
    inventory = again.engine.dialects[there].inventory
    got = [[each.amounts[inventory.memory] * inventory.memory_unit // _MIB for each in c] for c in placement.containers]
    assert got == [[memory or SIZE], [more or SIZE]]
    assert placement.containers[0][0].amounts[inventory.cores] == cores
    assert "in container main and" in remedy.text
    assert "in container second" in remedy.text

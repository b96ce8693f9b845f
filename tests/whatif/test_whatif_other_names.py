"""Cards that only nodes of another dialect have are asked for in its names; whoever does that gets as much of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_condition_remedies import HAMI
from tests.whatif.test_whatif_remedies import pod
from tests.whatif.test_whatif_remedies_dialects import BYTES, CORE, CORES, MEMORY, NUMBER, RATIO, SHARED, SIZE, cluster

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import Remedy, RemedyKind, World, ask, make_dialect, remedies

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
    return [each for each in remedies(world, waiting) if each.kind is RemedyKind.ASK_OTHERWISE]


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


def test_nothing_is_said_of_other_names_where_nodes_have_cards_of_these() -> None:
    objects = [*cluster("hami", [[(SIZE, 0)]]), *(dict(each) for each in cluster("volcano", [[], []]))]
    objects[-1]["metadata"]["name"] = "other"
    world, waiting = world_with(["hami", "volcano"], *objects, pod("asked", {HAMI[0]: 1, HAMI[1]: 100}))
    assert not ask(world, waiting).node
    assert not otherwise(world, waiting)


def test_cards_of_another_maker_have_no_other_names() -> None:
    world, waiting = world_with(["hami", "volcano"], *cluster("volcano", [[]]), pod("asked", {"amd.com/gpu": 1}))
    assert not otherwise(world, waiting)

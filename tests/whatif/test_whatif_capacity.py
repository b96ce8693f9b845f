"""How many more of a pod fit, held against counting by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import World, capacity_of, make_dialect, simulate


def _cluster(seed: int) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    """Return nodes and tenants, a pod of one slice, and how many of it they have room for."""
    rng = np.random.default_rng(seed)
    memory, cores, cpu = int(rng.integers(500, 9000)), int(rng.integers(1, 60)), int(rng.integers(1, 4))
    objects: list[dict[str, Any]] = []
    room = 0
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        objects.append(node(name, cards))
        on_cards = 0
        for card in range(cards):
            used_memory, used_cores, tenants = 0, 0, int(rng.integers(0, 3))
            for tenant in range(tenants):
                of_memory, of_cores = int(rng.integers(500, 6000)), int(rng.integers(1, 40))
                used_memory, used_cores = used_memory + of_memory, used_cores + of_cores
                objects.append(running(f"{name}-{card}-{tenant}", name, f"GPU-{name}-{card}", of_memory, of_cores))
            on_cards += max(min((16384 - used_memory) // memory, (100 - used_cores) // cores, 10 - tenants), 0)
        room += min(on_cards, 8 // cpu)
    asked = pod("asked", {GPU: 1, MEMORY: memory, CORES: cores, "cpu": str(cpu)})
    return objects, asked, room


@pytest.mark.parametrize("seed", range(60))
def test_as_many_fit_as_there_is_room_for(seed: int) -> None:
    objects, asked, room = _cluster(seed)
    world = World(EngineOptions([make_dialect("hami")]))
    world.add(objects)
    found = capacity_of(world, world.pod(asked))
    assert found.count == sum(found.nodes.values()) == room
    assert found.next is not None
    assert found.next.decision.message.startswith("0/")
    again = capacity_of(world, world.pod(asked))
    assert (again.count, again.nodes) == (found.count, found.nodes), "a copy was left behind"


@pytest.mark.parametrize("seed", range(30))
def test_as_many_fit_as_can_be_placed_by_hand(seed: int) -> None:
    """Pods of several cards, and a quota, which no formula counts: copies are made and bound until one waits."""
    rng = np.random.default_rng(seed)
    objects, _, _ = _cluster(seed)
    asked = pod("asked", {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(1000, 9000)), "cpu": "1"})
    if rng.random() < 0.5:
        hard = {f"limits.{MEMORY}": str(int(rng.integers(5000, 60000)))}
        objects.append(
            {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
        )
    world = World(EngineOptions([make_dialect("hami")]))
    world.add(objects)
    found = capacity_of(world, world.pod(asked))
    copies = [
        world.pod({**asked, "metadata": {"name": f"copy-{n}", "namespace": "default"}}) for n in range(found.count + 1)
    ]
    placed = [bool(answer.node) for answer in simulate(world, copies)]
    assert placed == [True] * found.count + [False]


def test_no_more_are_tried_than_asked_for() -> None:
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([node("a")])
    found = capacity_of(world, world.pod(pod("p", {GPU: 1, MEMORY: 100})), 3)
    assert (found.count, found.nodes, found.next) == (3, {"a": 3}, None)
    assert found.as_json() == {"pod": "default/p", "count": 3, "nodes": {"a": 3}, "message": ""}

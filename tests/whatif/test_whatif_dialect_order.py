"""Of a name that two dialects know the first one listed is the owner: where it has no cards, the order is told."""

from __future__ import annotations

import itertools
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, PERCENT, node, pod
from tests.whatif.test_whatif_remedies_dialects import cluster

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import RemedyKind, World, ask, explain_pod, make_dialect

Object = dict[str, Any]
ORDERS = list(itertools.permutations(["hami", "koordinator", "volcano"], 2))


def made(order: tuple[str, ...], objects: list[Object]) -> World:
    world = World(EngineOptions([make_dialect(name) for name in order]))
    world.add(deepcopy(objects))
    return world


def asks(rng: np.random.Generator) -> Object:
    found: Object = {GPU: int(rng.integers(1, 3))}
    if rng.random() < 0.5:
        found[str(rng.choice([MEMORY, PERCENT]))] = int(rng.integers(1, 90))
    if rng.random() < 0.3:
        found[CORES] = int(rng.integers(1, 90))
    return found


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("seed", range(12))
def test_whoever_lists_the_dialects_as_told_sees_the_pod_placed(order: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects: list[Object] = [node(f"h{number}", 2) for number in range(int(rng.integers(0, 3)))]
    if "koordinator" in order and rng.random() < 0.4:
        objects += cluster("koordinator", [[], []])
    objects.append(pod("p", asks(rng), schedulerName="vgpu-scheduler"))
    world = made(order, objects)
    (waiting,) = world.pending.values()
    found = explain_pod(world, waiting)
    told = [each for each in found.remedies if each.kind is RemedyKind.CHANGE_SETTING]
    other = made(order[::-1], objects)
    (again,) = other.pending.values()
    if told:
        assert told[0].text.startswith(f"have the setting dialects list {order[1]} before {order[0]}: of those that")
        assert ask(other, again).node
    elif not any(each.node for each in found.remedies) and not found.answer.node:
        assert not ask(other, again).node
    assert bool(told) <= (order == ("koordinator", "hami"))

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
from vgpu_scheduler.whatif import RemedyType, World, ask, explain_pod, make_dialect

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
    told = [each for each in found.remedies if each.type is RemedyType.CHANGE_SETTING]
    other = made(order[::-1], objects)
    (again,) = other.pending.values()
    if told:
        assert told[0].text.startswith(
            f"have the setting dialects list {order[1]} before {order[0]}: the first dialect that"
        )
        assert ask(other, again).node
    elif not any(each.node for each in found.remedies) and not found.answer.node:
        assert not ask(other, again).node
    assert bool(told) <= (order == ("koordinator", "hami"))


def told(order: tuple[str, ...], *objects: Object) -> list[str]:
    """Return what is said of the order of dialects about the last object, a waiting pod."""
    world = made(order, list(objects))
    waiting = next(each for each in world.pending.values() if each.name == objects[-1]["metadata"]["name"])
    return [each.text for each in explain_pod(world, waiting).remedies if each.type is RemedyType.CHANGE_SETTING]


WAITING = pod("p", {GPU: 1}, schedulerName="vgpu-scheduler")


def test_another_order_is_told_where_it_makes_the_pod_fit() -> None:
    assert told(("koordinator", "hami"), node("h0", 2), WAITING)


def test_no_order_is_told_where_the_first_dialect_has_cards_of_the_vendor() -> None:
    everyone = [node("h0", 2), *cluster("koordinator", [[], []])]
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    without_claim = pod("p", {GPU: 1, MEMORY: 2000}, schedulerName="vgpu-scheduler", **claim)
    too_many = pod("p", {GPU: 64}, schedulerName="vgpu-scheduler")
    for order in (("hami", "volcano", "koordinator"), ("koordinator", "hami")):
        for waiting in (without_claim, too_many):
            assert told(order, *everyone, waiting) == []


def test_no_order_is_told_by_which_the_pod_does_not_fit_either() -> None:
    amd = pod("p", {"amd.com/gpu": 1}, schedulerName="vgpu-scheduler")
    assert told(("hami", "koordinator"), *cluster("koordinator", [[], []]), amd) == []
    assert told(("koordinator", "hami"), node("h0", 2), pod("p", {GPU: 3}, schedulerName="vgpu-scheduler")) == []


def test_no_order_is_told_that_refuses_another_pod() -> None:
    other = pod("other", {GPU: 1, "koordinator.sh/gpu-core": 100}, schedulerName="vgpu-scheduler")
    assert told(("koordinator", "hami"), node("h0", 2), other, WAITING) == []

"""Fewer cards with less of each, where a webhook lets in neither alone: if any amounts help, some are told."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_admitted import ASCEND, ILUVATAR, MTHREADS, helps, hooked, node, registered
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import GPU, pod, world_of
from tests.whatif.test_whatif_remedies import node as node_of_nvidia

from vgpu_scheduler.dialects.hami.vendors.mthreads import CORES, MEMORY, SIZES, UNIT
from vgpu_scheduler.whatif import ask, remedies

Object = dict[str, Any]

VGPU, CORE, OF_CARD = f"{MTHREADS}vgpu", f"{MTHREADS}sgpu-core", f"{MTHREADS}sgpu-memory"
WORLDS = 30


def nodes(rng: np.random.Generator) -> list[Object]:
    """Return nodes of which cards are used in part, or wholly."""
    objects: list[Object] = []
    for number in range(int(rng.integers(1, 3))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        made = node({}, {VGPU: 100, CORE: CORES * cards, OF_CARD: MEMORY * cards})
        objects.append({**made, "metadata": {**made["metadata"], "name": name}})
        for card in range(cards):
            if rng.random() < 0.8:
                units, cores = int(rng.choice(SIZES)), int(rng.integers(1, CORES + 1))
                allocated = f"{name}-mthreads-{card},Mthreads,{units * UNIT},{cores}:;"
                notes = {"hami.io/vgpu-node": name, "hami.io/mthreads-vgpu-devices-allocated": allocated}
                asks = {VGPU: 1, CORE: cores, OF_CARD: units}
                objects.append(pod(f"h{number}-{card}", asks, nodeName=name, metadata={"annotations": notes}))
    return objects


def asked_by(rng: np.random.Generator) -> Object:
    """Return a pod that asks for cards, and says of some amounts how much of them."""
    count = int(rng.integers(1, 5))
    asks = {VGPU: count}
    if rng.random() < 0.4:
        asks[CORE] = count * int(rng.integers(1, CORES + 1))
    if rng.random() < 0.4:
        asks[OF_CARD] = count * int(rng.choice(SIZES))
    return pod("asked", {name: asks[name] for name in rng.permutation(list(asks))})


def stored(written: Object) -> Object | None:
    found = hooked(written).pod
    return None if found is None else dict(found)


def is_any_enough(objects: list[Object], most: int) -> bool:
    """Tell whether the pod would fit with any amounts, as it is written and as it is stored."""
    for count, cores, units in product(range(1, most + 1), (1, CORES // 2, CORES), SIZES):
        written = pod("asked", {VGPU: count, CORE: count * cores, OF_CARD: count * units})
        kept = stored(written)
        if kept is not None and helps(objects, written) and helps(objects, kept):
            return True
    return False


@pytest.mark.parametrize("seen", ["as it is written", "as a webhook has completed it"])
@pytest.mark.parametrize("seed", range(WORLDS))
def test_amounts_that_help_together_are_told(seen: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects, asked = nodes(rng), asked_by(rng)
    completed = stored(asked) if seen.startswith("as a webhook") else asked
    if completed is None:
        return
    world, waiting = world_of(*objects, completed)
    if ask(world, waiting).node:
        return
    told = [
        dict(each.pod)
        for each in remedies(world, waiting)
        if each.pod and each.node and not (each.ended or each.objects)
    ]
    for written in told:
        kept = stored(written)
        assert kept is not None
        assert helps(objects, written)
        assert helps(objects, kept)
    limits = completed["spec"]["containers"][0]["resources"]["limits"]
    assert told or not is_any_enough(objects, int(limits[VGPU]))


CARDS = {
    GPU: node_of_nvidia("n", 4),
    ASCEND: node(registered("hami.io/node-register-Ascend910B3", [65536] * 4, 20, "Ascend910B3"), {ASCEND: 8}),
    f"{ILUVATAR}-vgpu": node(
        registered("hami.io/node-MR-V100-register", [32768] * 4, 100, "MR-V100"), {f"{ILUVATAR}-vgpu": 8}
    ),
    VGPU: node({}, {VGPU: 100, CORE: 4 * CORES, OF_CARD: 4 * MEMORY}),
}


@pytest.mark.parametrize("resource", CARDS)
@pytest.mark.parametrize(("count", "most"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_a_pod_of_too_many_cards_for_itself_is_told_how_it_has_as_many_as_it_may(
    resource: str, count: int, most: int
) -> None:
    """Of as many cards as a policy allows it has all, however much it asks of them together."""
    metadata = {"name": "own", "namespace": "default", "uid": "own"}
    policy = {"kind": "VGPUPolicy", "metadata": metadata, "spec": {"limits": {"exclusiveCardsPerPod": most}}}
    completed = stored(pod("asked", {resource: count}))
    assert completed is not None
    world, waiting = world_of(CARDS[resource], policy, completed)
    assert "exclusiveCardsPerPod" in ask(world, waiting).decision.message
    told = [each for each in remedies(world, waiting) if each.pod]
    assert [int(_limits(dict(each.pod or {}))[resource]) for each in told] == [most]
    assert all(helps([CARDS[resource], policy], dict(each.pod or {})) for each in told)
    assert told[0].text in answer(world)[1].remedies


def _limits(written: Object) -> Object:
    limits: Object = written["spec"]["containers"][0]["resources"]["limits"]
    return limits

"""What ``top`` and the web page count is what the operator's metrics count."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from tests.cli.listed_clusters import cluster
from tests.whatif.test_whatif_remedies import running

from vgpu_scheduler.engine import EngineOptions, held_by_namespace, pools
from vgpu_scheduler.engine.pools import CORES, MEMORY, SHARES
from vgpu_scheduler.model import MIB
from vgpu_scheduler.whatif import World, make_dialect
from vgpu_scheduler.whatif.world.usage import cards, models, namespaces, nodes


@pytest.mark.parametrize("seed", range(40))
def test_sums_by_model_and_by_namespace_agree(seed: int) -> None:
    world = World(EngineOptions([make_dialect("hami")]))
    objects = cluster(np.random.default_rng(seed))
    held = [each for each in objects if each["kind"] == "Pod" and "nodeName" in each["spec"]]
    objects += [_with_too_much(each) for each in held[:1] if seed % 2]
    world.add(objects)
    listed = cards(world)
    assert [(each.node, each.memory.free) for each in nodes(listed)] == [
        (name, sum(card.memory.free for card in theirs)) for name, theirs in groupby(listed, key=attrgetter("node"))
    ]
    shown = {(model.dialect, model.model): model for model in models(world, listed)}
    metered = {(pool.dialect, pool.model): pool for pool in pools(world.engine.state, world.engine.dialects)}
    assert shown.keys() == metered.keys()
    for key, model in shown.items():
        pool = metered[key]
        ready = model.cards - model.unhealthy - model.cordoned
        assert pool.cards == {"ready": ready, "unhealthy": model.unhealthy, "cordoned": model.cordoned}
        memory, cores, slots = (pool.amounts[name] for name in (MEMORY, CORES, SHARES))
        assert (memory.capacity, memory.allocated, memory.free) == (
            model.memory.total * MIB,
            model.memory.used * MIB,
            model.free_memory * MIB,
        )
        assert (cores.capacity, cores.allocated, cores.free) == (
            model.cores.total,
            model.cores.used,
            model.free_cores,
        )
        assert (model.memory.free, model.cores.free) == (model.free_memory, model.free_cores)
        assert (slots.capacity, slots.allocated) == (model.slots.total, model.slots.used)
    held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (namespace, _), amounts in held_by_namespace(world.engine.state, world.engine.dialects).items():
        held[namespace][0] += amounts[MEMORY] / MIB
        held[namespace][1] += amounts[CORES]
    told = {each.namespace: [float(each.memory), float(each.cores)] for each in namespaces(world) if each.pods}
    assert told == held


def _with_too_much(held: dict[str, Any]) -> dict[str, Any]:
    """Return another pod on the card of one, with more memory than a card has."""
    (uuid,) = (entry.split(",")[0] for entry in [held["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]])
    return running("over", held["spec"]["nodeName"], uuid, 99999)

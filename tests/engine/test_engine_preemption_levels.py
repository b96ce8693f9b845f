"""Up to which priority all pods of a node have to end so that a pod fits there: as asking node by node says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import asks, pod
from tests.engine.test_engine_preemption import random_world

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption import Preemptor
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.levels import PriorityLevels
from vgpu_scheduler.kernels import NO_PRIORITY
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import Phase


def least(engine: Engine, asked: Pod, node: str) -> int | None:
    """Return the lowest priority up to which the end of all pods of a node is enough; None if none is.

    Those that end already are waited for, and those that only wait to be bound give their places back, before anybody
    is evicted.
    """
    state = engine.state
    there = [each for held in state.reservations(node) if (each := state.pod(held.uid)) is not None]
    free = {each.uid for each in there if each.deleting or state.reservation(each.uid).phase is Phase.ASSUMED}
    lower = {each.priority for each in state.pods() if each.priority < asked.priority}
    for priority in (NO_PRIORITY, *sorted(lower)):
        gone = [
            each.uid
            for each in there
            if each.priority <= priority or (each.uid in free and each.priority < asked.priority)
        ]
        if engine.algorithm.node_fit.fits_without(asked, node, gone) is not None:
            return priority
    return None


@pytest.mark.parametrize("seed", range(8))
def test_the_lowest_priority_that_is_enough_is_found_after_any_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = random_world(rng)
    levels, found_later = PriorityLevels(engine.state, GroupDisruption(engine.state)), 0
    for number in range(15):
        resources = asks(int(rng.integers(1, 3)), int(rng.choice([2000, 4000, 7900])), int(rng.choice([0, 60, 100])))
        asked = pod(f"asked{number}", resources, priority=int(rng.integers(1, 7)))
        engine.state.observe_pod(asked, {})
        pod_class = engine.algorithm.classes.of(asked)
        assert isinstance(pod_class, SchedulableClass)
        full = [name for name in ("a", "b", "m") if engine.algorithm.node_fit.fits_without(asked, name, ()) is None]
        rows = np.array([engine.state.nodes.row(name) for name in full], dtype=np.int64)
        batches = list(levels.lowest(Preemptor(asked, pod_class), rows))
        found = {
            engine.state.nodes.name(row): priority
            for batch in batches
            for row, priority in zip(batch.rows.tolist(), batch.priority.tolist(), strict=True)
        }
        naive = {name: priority for name in full if (priority := least(engine, asked, name)) is not None}
        assert found == naive
        found_later += sum(batch.rows.size for batch in batches[1:])
        held = sorted(each.uid for each in engine.state.reservations())
        for uid in held[: int(rng.integers(0, 3))]:
            engine.remove_pod(uid, 0.0)
        engine.observe_pod(pod(f"new{number}", asks(1, 1000), priority=int(rng.integers(-2, 6))), 0.0)
        engine.attempt(0.0)
    assert found_later

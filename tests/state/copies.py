"""Copies of states, to compare questions about what would be with what is once it is so."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.state import State


def copied(state: State, without: Iterable[str] = ()) -> State:
    """Return a copy of a state, without what some pods hold there; objects, which never change, are shared."""
    objects = [*state.all_nodes(), *state._pods, *(known.pod for known in state._pods), *state.reservations()]
    twin = deepcopy(state, {id(each): each for each in objects})
    stores: list[Any] = [twin._pods, twin._node_objects, *twin.volumes.objects.stores()]
    for store in stores:
        store.get = store._values.get  # a method of a built-in type is not copied
    for uid in without:
        twin._release(uid)
    return twin


def algorithm_on(engine: Engine, state: State) -> SchedulingAlgorithm:
    """Return the algorithm of an engine on another state, which remembers nothing and for which no node is closed."""
    classes = engine.algorithm.classes
    return SchedulingAlgorithm(
        EquivalenceClasses(state, classes.dialects, classes.policies, classes._quotas),
        ClosedNodes(engine.closed_nodes.judge, state, KubeletRejections(0.0)),
        StorageAccess(state.pending_events),
        engine.algorithm.priority,
    )

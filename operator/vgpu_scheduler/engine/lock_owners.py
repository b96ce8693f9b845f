"""Which pod has a node lock, where the lock names it and where it does not."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.locks import FoundLock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import Phase

__all__ = ["owner_of", "taker_of"]


def owner_of(engine: Engine, pods: Mapping[str, Pod], lock: FoundLock) -> Pod | None:
    """Return the pod that a lock names, or, of one that names none, the pod of ours that took it; None if it is gone.

    Parameters
    ----------
    engine
        Knows the pods that count.
    pods
        All pods, by ``namespace/name``.
    lock
        The lock as found.
    """
    if lock.parsed is not None and lock.parsed.owner:
        return pods.get(lock.parsed.owner)
    return taker_of(engine, lock)


def taker_of(engine: Engine, lock: FoundLock) -> Pod | None:
    """Return the pod of ours that took a lock which names nobody; None if the lock names somebody, or none did.

    The node's token is written with the lock. Once the pod is bound that says nothing any more: its plugin may have
    released the lock, and another scheduler, which writes no token, may have taken the next one. Neither does it while
    another pod of the node waits for its plugin: that pod may be the one for which the next lock was taken.
    """
    state = engine.state
    pod = None if lock.parsed is None or lock.parsed.owner else state.pod(lock.allocated)
    if pod is None or pod.node_name or pod.scheduler_name not in engine.scheduler_names:
        return None
    there = (state.pod(held.uid) for held in state.reservations(lock.node) if held.phase is not Phase.ASSUMED)
    return None if any(other and _waits_for_plugin(engine, other) for other in there) else pod


def _waits_for_plugin(engine: Engine, pod: Pod) -> bool:
    """Tell whether the node side serves a pod in turn, and has not done with it what it does at its start."""
    side = engine.dialects.node_side
    is_served = pod.started or side.has_answered(pod.annotations)
    return not is_served and side.serializes(engine.algorithm.classes.claims(pod))

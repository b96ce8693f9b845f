"""Which pod has a node lock, and which nodes are closed or opened for that, found out for all of them at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from vgpu_scheduler.engine.closures import ClosedByLock, ClosureCause
from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.locks import FoundLock, LockStatus, find_lock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import Phase


def owner_of(engine: Engine, pods: Mapping[str, Pod], lock: FoundLock) -> Pod | None:
    """Return the pod that a lock names, or else the pod of ours that took it; None if it is gone or uncertain.

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
    """Return the pod of ours that took a lock which names no pod; None if it names one, or if that is uncertain.

    The node's token is written with the lock. Once the token's pod is bound, the token proves nothing: its plugin may
    have released the lock, and another scheduler, which writes no token, may have taken the next one. The same holds
    while another pod of the node waits for its plugin: the next lock may have been taken for that pod.
    """
    state = engine.state
    pod = None if lock.parsed is None or lock.parsed.owner else state.pod(lock.allocated)
    if pod is None or pod.node_name or pod.scheduler_name not in engine.scheduler_names:
        return None
    there = (
        state.pod(reservation.uid)
        for reservation in state.reservations(lock.node)
        if reservation.phase is not Phase.ASSUMED
    )
    return None if any(other and _waits_for_plugin(engine, other) for other in there) else pod


def review_locks(engine: Engine, pods: Mapping[str, Pod], now: datetime) -> Mapping[str, Mapping[str, str]]:
    """Open nodes with orphaned locks, and close nodes whose device plugins have not answered for long.

    Parameters
    ----------
    engine
        Knows all nodes, and the pods that count.
    pods
        All pods, by ``namespace/name``.
    now
        The time of day when these were read.

    Returns
    -------
    Mapping
        By node and annotation, the pods of ours (``namespace/name``) that are being served; other pods wait for them.
    """
    state, closed, judge = engine.state, engine.closed_nodes, engine.closed_nodes.judge
    served: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in state.nodes.rows().tolist():
        node = state.node(state.nodes.name(row))
        assert node is not None
        for kind in judge.node_side.locks:
            lock = find_lock(node, kind, judge.node_side)
            if lock is None or lock.parsed is None:
                continue
            owner, ours = owner_of(engine, pods, lock), closed.is_ours(node, lock.parsed)
            orphaned = judge.status(lock, owner, now) is LockStatus.ORPHANED
            if ours or orphaned:  # that of a pod of ours may have closed the node before the pod was known
                engine.open_node(node.name, ClosedByLock(ClosureCause.LOCK_HELD, lock.taken), 0.0)
            if not ours or orphaned:
                continue
            if judge.is_silent(lock, owner, now):
                closed.close(node.name, ClosedByLock(ClosureCause.PLUGIN_SILENT, lock.taken))
            else:
                served[node.name][kind.annotation] = owner.key if owner is not None else ""
    return served


def _waits_for_plugin(engine: Engine, pod: Pod) -> bool:
    """Tell whether a pod is served in turn, and its node side has not yet done what it does at the pod's start."""
    side = engine.dialects.node_side
    was_served = pod.started or side.has_answered(pod.annotations)
    return not was_served and side.serializes(engine.algorithm.classes.claims(pod))

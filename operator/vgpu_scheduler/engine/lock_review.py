"""What the scheduler finds out about node locks one by one, found out for all of them at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from vgpu_scheduler.engine.closed_nodes import ClosureCause, NodeClosure
from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.lock_owners import owner_of
from vgpu_scheduler.engine.locks import LockStatus, find_lock
from vgpu_scheduler.kube import Pod

__all__ = ["review_locks"]


def review_locks(engine: Engine, pods: Mapping[str, Pod], now: datetime) -> Mapping[str, Mapping[str, str]]:
    """Open nodes whose locks nobody uses any more, and close those whose device plugins have not answered for long.

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
        By node and annotation, the pods of ours (``namespace/name``) that are being served: others come after them.
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
                engine.open_node(node.name, NodeClosure(ClosureCause.LOCK_HELD, kind.annotation, lock.value), 0.0)
            if not ours or orphaned:
                continue
            is_old = (now - lock.parsed.taken_at).total_seconds() > engine.options.node_side_timeout
            if is_old and owner is not None and judge.is_being_served(lock, owner):
                closed.close(node.name, NodeClosure(ClosureCause.PLUGIN_SILENT, kind.annotation, lock.value))
            else:
                served[node.name][kind.annotation] = owner.key if owner is not None else ""
    return served

"""The node lock as found on a node: who has it, and whether that pod has a use for it still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from vgpu_scheduler.dialects import LockValue, NodeLock, NodeSide
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod


class LockStatus(Enum):
    """What a lock is to a pod that needs it."""

    FREE = "free"
    OWN = "own"
    """It names the very pod that is to be bound: an earlier leader took it, or we did and the answer was lost."""
    HELD = "held"
    """Its owner may still be allocating, however old it is."""
    ORPHANED = "orphaned"
    """Its owner has no use for it any more; it may be replaced."""
    MALFORMED = "malformed"
    """Nobody's to take: an administrator has to look at it."""


@dataclass(frozen=True, slots=True)
class FoundLock:
    """A lock as found on a node.

    Attributes
    ----------
    value
        The annotation's value.
    parsed
        What it says; None if it is malformed.
    allocated
        The UID of the pod that was last allocated on the node, as the node says; empty if it does not.
    """

    node: str
    kind: NodeLock
    value: str
    parsed: LockValue | None
    allocated: str


def find_lock(node: Node, kind: NodeLock, node_side: NodeSide) -> FoundLock | None:
    """Return a lock as it is on a node, or None if it is free."""
    value = node.annotations.get(kind.annotation)
    if value is None:
        return None
    try:
        parsed = node_side.parse_lock(value)
    except ValueError:
        parsed = None
    return FoundLock(node.name, kind, value, parsed, last_allocated(node))


def last_allocated(node: Node) -> str:
    """Return the UID of the pod that was last allocated on a node, as the node says; empty if it does not."""
    return allocated_pod(node.annotations.get(LAST_ALLOCATED, ""))


@dataclass(frozen=True, slots=True)
class LockJudge:
    """Tells what a lock is to a pod.

    Parameters
    ----------
    node_side
        Knows what its owner's annotations say.
    scheduler_names
        The scheduler names whose pods nobody else binds.
    bind_timeout
        Seconds that the API server may take for a Binding. A lock is left over whose owner is a pod of ours that was
        not bound in twice that time.
    """

    node_side: NodeSide
    scheduler_names: frozenset[str]
    bind_timeout: float

    @property
    def _unbound_expiry(self) -> timedelta:
        return timedelta(seconds=2 * self.bind_timeout)

    def status(
        self,
        lock: FoundLock | None,
        owner: Pod | None,
        now: datetime,
        pod: Pod | None = None,
        stood: timedelta = timedelta(0),
    ) -> LockStatus:
        """Return what a lock is.

        Parameters
        ----------
        lock
            The lock as found.
        owner
            The pod that it names, or None if that is gone. Of a lock that names none, the pod of ours that took it, or
            None if that is not certain.
        now
            The time of day.
        pod
            The pod that wants it, where one does.
        stood
            For how long it has been seen here: it is as old at least, whatever the clocks say.
        """
        if lock is None:
            return LockStatus.FREE
        if lock.parsed is None:
            return LockStatus.MALFORMED
        expiry = timedelta(seconds=lock.kind.expiry)
        age = max(now - lock.parsed.taken_at, stood)
        if not lock.parsed.owner:
            if pod is not None and lock.allocated == pod.uid:
                return LockStatus.OWN
            if owner is not None and not owner.node_name:
                expiry = min(expiry, self._unbound_expiry)
            return LockStatus.ORPHANED if age > expiry else LockStatus.HELD
        if pod is not None and lock.parsed.owner == pod.key:
            return LockStatus.OWN
        return LockStatus.ORPHANED if self._is_orphaned(lock.node, owner, age, expiry) else LockStatus.HELD

    def is_being_served(self, lock: FoundLock, owner: Pod) -> bool:
        """Tell whether the device plugin has still to answer the owner of a lock: it is bound there, and has not ended.

        Where that lasts for longer than others wait for it, the plugin is silent.
        """
        return owner.node_name == lock.node and not owner.terminal and not self.node_side.is_through(owner.annotations)

    def _is_orphaned(self, node: str, owner: Pod | None, age: timedelta, expiry: timedelta) -> bool:
        """Tell whether a lock's owner has no use for it any more.

        It is so when the owner

        - is gone or terminal,
        - is bound to another node,
        - is bound here, its allocation succeeded, failed, or has nothing left to hand out, and it has started,
        - was never bound, for longer than a Binding can take (a pod of another scheduler: than its lock lives).

        A bound pod that is still allocating keeps its lock, however old. One that has not started keeps it for some
        time, whatever is written on it: its plugin is about to release the lock, and some release any lock.
        """
        if owner is None or owner.terminal:
            return True
        if owner.node_name and owner.node_name != node:
            return True
        if owner.node_name:
            return self.node_side.is_through(owner.annotations) and (owner.started or age > expiry)
        return age > (self._unbound_expiry if owner.scheduler_name in self.scheduler_names else expiry)

"""The node lock as found on a node: which pod holds it, and whether that pod still needs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from vgpu_scheduler.dialects import LockValue, NodeLock, NodeSide
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod


class LockStatus(Enum):
    """The status of a lock for a pod that needs it."""

    FREE = "free"
    OWN = "own"
    """The lock names the pod that is to be bound: an earlier leader took it, or our own write's answer was lost."""
    HELD = "held"
    """Its owner may still be allocating, however old it is."""
    ORPHANED = "orphaned"
    """Its owner does not need it any more; it may be replaced."""
    MALFORMED = "malformed"
    """No pod may take it: an administrator has to look at it."""


@dataclass(frozen=True, slots=True)
class TakenLock:
    """A lock with the value that it was taken with.

    Attributes
    ----------
    value
        The annotation's value.
    """

    kind: NodeLock
    value: str

    def is_on(self, node: Node) -> bool:
        """Tell whether the lock is still on a node with the same value."""
        return node.annotations.get(self.kind.annotation) == self.value


@dataclass(frozen=True, slots=True)
class FoundLock:
    """A lock as found on a node.

    Attributes
    ----------
    value
        The annotation's value.
    parsed
        The decoded value; None if it is malformed.
    allocated
        The UID of the pod that was last allocated on the node, by the node's token; empty without one.
    """

    node: str
    kind: NodeLock
    value: str
    parsed: LockValue | None
    allocated: str

    @property
    def taken(self) -> TakenLock:
        """The lock without its context."""
        return TakenLock(self.kind, self.value)


def find_lock(node: Node, kind: NodeLock, node_side: NodeSide) -> FoundLock | None:
    """Return a lock as found on a node; None if it is free."""
    value = node.annotations.get(kind.annotation)
    if value is None:
        return None
    try:
        parsed = node_side.parse_lock(value)
    except ValueError:
        parsed = None
    return FoundLock(node.name, kind, value, parsed, last_allocated(node))


def last_allocated(node: Node) -> str:
    """Return the UID of the pod that was last allocated on a node, by the node's token; empty without one."""
    return allocated_pod(node.annotations.get(LAST_ALLOCATED, ""))


@dataclass(frozen=True, slots=True)
class LockJudge:
    """Judges the status of locks.

    Parameters
    ----------
    node_side
        Reads the annotations of lock owners.
    scheduler_names
        The scheduler names whose pods only this scheduler binds.
    bind_timeout
        Seconds that the API server may take for a Binding. A lock is orphaned if its owner is a pod of ours that was
        not bound within twice that time.
    node_side_timeout
        Seconds that a device plugin may take to answer a pod before it counts as silent.
    """

    node_side: NodeSide
    scheduler_names: frozenset[str]
    bind_timeout: float
    node_side_timeout: float

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
        """Return the status of a lock.

        Parameters
        ----------
        lock
            The lock as found.
        owner
            The pod that the lock names; None if it is gone. For a lock that names no pod, the pod of ours that took it;
            None if that is uncertain.
        now
            The time of day.
        pod
            The pod that needs the lock, if there is one.
        stood
            For how long the lock has been seen here: a lower bound of its age, whatever the clocks say.
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
        """Tell whether the device plugin still has to answer a lock's owner, which is bound there and has not ended."""
        return owner.node_name == lock.node and not owner.terminal and not self.node_side.is_through(owner.annotations)

    def is_silent(self, lock: FoundLock, owner: Pod | None, now: datetime) -> bool:
        """Tell whether the device plugin has still not answered a lock's owner when other pods stop waiting for it."""
        if lock.parsed is None or owner is None or not self.is_being_served(lock, owner):
            return False
        return (now - lock.parsed.taken_at).total_seconds() > self.node_side_timeout

    def _is_orphaned(self, node: str, owner: Pod | None, age: timedelta, expiry: timedelta) -> bool:
        """Tell whether a lock's owner does not need it any more.

        That is so when the owner

        - is gone or terminal,
        - is bound to another node,
        - is bound here, its allocation succeeded, failed, or has nothing left to hand out, and it has started,
        - was not bound within the time that a Binding can take (a pod of another scheduler: within the lock's expiry).

        A bound pod that is still allocating keeps its lock, however old. A pod that has not started keeps it until the
        lock's expiry, whatever its annotations say: its plugin is about to release the lock, and some plugins release
        any lock.
        """
        if owner is None or owner.terminal:
            return True
        if owner.node_name and owner.node_name != node:
            return True
        if owner.node_name:
            return self.node_side.is_through(owner.annotations) and (owner.started or age > expiry)
        return age > (self._unbound_expiry if owner.scheduler_name in self.scheduler_names else expiry)

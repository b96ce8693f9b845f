"""The node lock: taken last before the Binding, told apart from foreign and orphaned ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from vgpu_scheduler.binding.writes import TOKEN_ANNOTATION
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import LockValue, parse_lock
from vgpu_scheduler.dialects.hami.dialect import PHASE_FAILED, PHASE_SUCCESS
from vgpu_scheduler.kube import Node, Pod


@dataclass(frozen=True, slots=True)
class Limits:
    """How old locks may get whose owner says nothing.

    Attributes
    ----------
    unbound
        After this a lock of ours whose owner was never bound is left over: a Binding cannot take that long.
    nameless
        After this a lock that names no owner, or one of another scheduler, is nobody's.
    """

    unbound: timedelta
    nameless: timedelta


class Holder(Enum):
    """Who has the lock."""

    NOBODY = "nobody"
    OURS = "ours"
    """It names the very pod that is to be bound: a write of ours whose answer was lost."""
    OTHER = "other"
    """A pod that may still be allocating, however old."""
    ORPHAN = "orphan"
    """A pod that has no use for it any more; it may be replaced."""
    MALFORMED = "malformed"
    """Nobody's to take: an administrator has to look at it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lock as found: its raw value and what it says."""

    value: str
    parsed: LockValue | None


def held_lock(node: Node, key: str) -> Held | None:
    """Return the lock on a node, or None if it is free."""
    value = node.annotations.get(key)
    if value is None:
        return None
    try:
        return Held(value, parse_lock(value))
    except ValueError:
        return Held(value, None)


def judge_holder(
    held: Held | None,
    node: Node,
    pod: Pod,
    owner: Pod | None,
    dialect: Dialect,
    now: datetime,
    ours: frozenset[str],
    limits: Limits,
) -> Holder:
    """Tell who has a lock.

    Parameters
    ----------
    held
        The lock as found.
    node
        The node.
    pod
        The pod that wants it.
    owner
        The pod that the lock names, or None if that is gone.
    now
        The time of day.
    ours
        The scheduler names whose pods nobody else binds.
    limits
        How old a lock may get.
    """
    if held is None:
        return Holder.NOBODY
    if held.parsed is None:
        return Holder.MALFORMED
    age = now - held.parsed.taken_at
    if not held.parsed.owner:
        if node.annotations.get(TOKEN_ANNOTATION) == pod.uid:
            return Holder.OURS
        return Holder.ORPHAN if age > limits.nameless else Holder.OTHER
    if held.parsed.owner == pod.key:
        return Holder.OURS
    expiry = limits.unbound if owner and owner.scheduler_name in ours else limits.nameless
    return Holder.ORPHAN if _is_orphaned(owner, node.name, age, dialect, expiry, limits.nameless) else Holder.OTHER


def _is_orphaned(
    owner: Pod | None, node: str, age: timedelta, dialect: Dialect, expiry: timedelta, release: timedelta
) -> bool:
    """Tell whether a lock's owner has no use for it any more.

    It is so when the owner

    - is gone or terminal,
    - is bound to another node,
    - is bound here, its allocation succeeded, failed, or has nothing left to hand out, and it has started,
    - was never bound, for longer than a Binding can take (a pod of another scheduler: than HAMi's lock lives).

    A bound pod that is still allocating keeps its lock, however old. One that has not started keeps it for some time,
    whatever is written on it: its plugin is about to release the lock, and some release it whoever has it then.
    """
    if owner is None or owner.terminal:
        return True
    if owner.node_name and owner.node_name != node:
        return True
    if owner.node_name:
        answered = dialect.allocation_phase(owner.annotations) in {PHASE_SUCCESS, PHASE_FAILED}
        through = answered or dialect.nothing_left(owner.annotations)
        return through and (owner.started or age > release)
    return age > expiry

"""Binds and their states; binds at one node are carried out one after the other.

The device plugin finds "its" pod through the node lock, or takes the oldest, so a node allocates to one pod at a time.
A bind waits in the lane of its node, ordered by priority and then age, and occupies the lane until the node side has
answered. Pods that were decided together (a group) are bound together. A group keeps its place in each of its lanes,
without locking any node, until it is first in all of them; then it commits, and its pods on one node are bound one
after the other. Lower ranks pass a group that holds them up for long, so they do not wait for other nodes.

The allowed transitions between states are in :data:`TRANSITIONS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from vgpu_scheduler.engine import TakenLock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement


class BindState(Enum):
    """The state of the bind of one pod."""

    DECIDED = "decided"
    """The pod has a placement, but is in no lane yet: its volumes are bound first."""
    QUEUED = "queued"
    """The pod waits in the lane of its node, if it needs one, and has locked nothing."""
    COMMITTED = "committed"
    """The pod's turn has come, or comes right after pods of its group: no other pod goes between them."""
    CHECKED = "checked"
    """The placement was rechecked at the head of the lane; the bind waits for the node lock, if it needs one."""
    LOCKED = "locked"
    """The cards of the node are claimed for the pod, by a token and by its lock if it needs one."""
    SENT = "sent"
    """The Binding is in flight, maybe again after the API server was busy."""
    IN_DOUBT = "in doubt"
    """Whether the Binding was carried out is unknown; the turn is over, the reservation stays."""
    FAILED = "failed"
    """The Binding was not carried out; lock and reservation are being released."""
    BOUND = "bound"
    """The pod is bound as decided."""
    UNRESERVED = "unreserved"
    """The pod is decided anew: the task that binds it stops."""
    MOVED = "moved"
    """The pod was decided for another node because this one was slow: the task that binds it here stops."""


TRANSITIONS: Final[Mapping[tuple[BindState, BindState], str]] = {
    (BindState.DECIDED, BindState.QUEUED): "it has no volumes to be bound, or they are",
    (BindState.DECIDED, BindState.UNRESERVED): "its volumes cannot be bound as decided, or a preemptor takes its room",
    (BindState.QUEUED, BindState.COMMITTED): "all decided with it are first in their lanes, and hold",
    (BindState.QUEUED, BindState.UNRESERVED): "it has waited too long, or does not hold any more",
    (BindState.QUEUED, BindState.MOVED): "its node is slow, and it fits elsewhere",
    (BindState.COMMITTED, BindState.CHECKED): "its placement holds, maybe with other cards",
    (BindState.COMMITTED, BindState.UNRESERVED): "it does not hold, its node was closed, or one of its group cannot be"
    " bound",
    (BindState.COMMITTED, BindState.MOVED): "its node is slow before it could be checked, and it fits elsewhere",
    (BindState.CHECKED, BindState.LOCKED): "the lock was taken, or the token where there is none",
    (BindState.CHECKED, BindState.SENT): "it needs no lock and no token",
    (BindState.CHECKED, BindState.UNRESERVED): "the lock cannot be taken",
    (BindState.CHECKED, BindState.MOVED): "the lock has been held for long, and it fits elsewhere",
    (BindState.LOCKED, BindState.SENT): "its placement still holds",
    (BindState.LOCKED, BindState.UNRESERVED): "it does not hold any more, or one decided with it does not",
    (BindState.SENT, BindState.BOUND): "the API server says so",
    (BindState.SENT, BindState.FAILED): "the API server says so",
    (BindState.SENT, BindState.IN_DOUBT): "the API server does not say",
    (BindState.IN_DOUBT, BindState.BOUND): "it was seen on its node",
    (BindState.IN_DOUBT, BindState.FAILED): "it was seen unbound, elsewhere, or gone",
    (BindState.FAILED, BindState.UNRESERVED): "what it took is given back",
}
"""All allowed transitions, each with its meaning."""


class BindStateError(RuntimeError):
    """A bind was about to make a transition that is not in the table."""


def checked(now: BindState, then: BindState) -> BindState:
    """Return the next state.

    Raises
    ------
    BindStateError
        If the transition is not allowed.
    """
    if (now, then) not in TRANSITIONS:
        raise BindStateError(f"a bind that is {now.value} cannot become {then.value}")
    return then


Rank = tuple[int, float, int, int]
"""Negative priority, time of joining, serial number, place in the group: the smallest goes first, in every lane."""


_TOLD: Final = frozenset({BindState.SENT, BindState.IN_DOUBT, BindState.BOUND})
"""A Binding is in flight, was carried out, or may have been."""
_OVER: Final = frozenset({BindState.UNRESERVED, BindState.MOVED})
"""The task that binds the pod stops."""


class SentBinding(NamedTuple):
    """A Binding in flight, whose outcome must be found out.

    Attributes
    ----------
    lock
        The node's lock that was taken for it, if it needs one.
    """

    pod: Pod
    placement: Placement
    lock: TakenLock | None


@dataclass(eq=False, slots=True)
class BindGroup:
    """Decided pods that are bound together: all or none, until the first Binding is sent.

    Attributes
    ----------
    items
        The pods.
    held_up
        Since when the group has been first in a lane without being able to commit; None if it never was.
    dry_run_lock
        Held while the Bindings of the group are sent as dry runs.
    are_dry_runs_sent
        Whether the dry runs are done.
    """

    items: list[BindTask] = field(default_factory=list)
    held_up: float | None = None
    dry_run_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    are_dry_runs_sent: bool = False

    @property
    def has_sent_bindings(self) -> bool:
        """Whether Bindings of its pods are in flight or were carried out.

        If so, each pod is followed up alone, and the group is not unreserved as a whole.
        """
        return any(item.is_sent for item in self.items)

    @property
    def is_failing(self) -> bool:
        """Whether a Binding was not carried out, and what its pod took is being given back."""
        return any(item.state is BindState.FAILED for item in self.items)

    @property
    def is_over(self) -> bool:
        """Whether its pods are decided anew, so that the tasks that bind them end."""
        return any(item.is_over for item in self.items)


@dataclass(eq=False, slots=True, weakref_slot=True)
class BindTask:
    """A decided pod that waits to be bound.

    Attributes
    ----------
    node
        The node in whose lane the pod waits; empty if it needs no lane.
    state
        The state; :meth:`enter` changes it.
    decided_at
        When the pod was decided, and its volumes were bound.
    queued_at
        When the pod was first seen waiting.
    attempts
        The number of scheduling attempts, including this one.
    lane_head_at, sent_at
        When the pod's turn came, and when its Binding was last sent; the lock was taken between the two.
    ended_at
        When the outcome of the Binding was known.
    sent
        The Binding, while it is in flight.
    asked
        When the pod was last tried on other nodes.
    nodes_left
        The slow nodes that the pod has left.
    """

    rank: Rank
    uid: str
    decision: Decision
    group: BindGroup
    node: str
    decided_at: float
    queued_at: float = 0.0
    attempts: int = 0
    lane_head_at: float = 0.0
    sent_at: float = 0.0
    ended_at: float = 0.0
    sent: SentBinding | None = None
    asked: float = 0.0
    nodes_left: frozenset[str] = frozenset()
    state: BindState = BindState.DECIDED

    def enter(self, state: BindState) -> None:
        """Change to a state, unless the bind is in it already; raise if the transition is not allowed."""
        if state is not self.state:
            self.state = checked(self.state, state)

    @property
    def chosen_node(self) -> str:
        """The node of the placement, whether the pod waits in a lane or not."""
        return self.decision.node

    @property
    def is_sent(self) -> bool:
        """Whether its Binding is in flight, was carried out, or may have been."""
        return self.state in _TOLD

    @property
    def is_over(self) -> bool:
        """Whether the pod is decided anew, so that this bind ends."""
        return self.state in _OVER

"""Queues at the nodes: binds that share a node's turns go one after the other.

The device plugin finds "its" pod through the node lock, or takes the oldest, so a node allocates to one pod at a time.
A bind waits in the lane of its node, ordered by priority and then age, and holds the lane until the node side has
answered. Pods that were decided together (a group) are bound together: until its turn has come in all its lanes a group
keeps its place in each of them and takes nothing; then it commits, and its pods on one node follow each other. Lower
ranks pass a group that holds them up for long: they do not wait for other nodes.

What a bind goes through is a table that every step of it follows (:data:`TRANSITIONS`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement

__all__ = [
    "TRANSITIONS",
    "BindGroup",
    "BindState",
    "BindStateError",
    "BindTask",
    "Lane",
    "SentBinding",
    "checked",
]


class BindState(Enum):
    """How far the bind of one pod has come."""

    DECIDED = "decided"
    """It has a placement, and no place in a lane yet: its volumes are bound first."""
    QUEUED = "queued"
    """It keeps its place in the lane of its node, if it needs one, and takes nothing."""
    COMMITTED = "committed"
    """Its turn has come, or comes after those decided with it: nobody else goes between them any more."""
    CHECKED = "checked"
    """Its placement holds at the head of the lane; it waits for the lock of its node, if it needs one."""
    LOCKED = "locked"
    """The cards of the node are claimed for it, by a token and its lock."""
    SENT = "sent"
    """Its Binding is on its way, maybe again after the API server was busy."""
    IN_DOUBT = "in doubt"
    """Nobody can tell whether its Binding was carried out; its turn is over, its reservation is not."""
    FAILED = "failed"
    """Its Binding was not carried out, and what it took is being given back."""
    BOUND = "bound"
    """It is bound as decided."""
    UNRESERVED = "given back"
    """It is decided anew: the task that works on it stops."""
    MOVED = "moved"
    """It was decided for another node while this one was slow: the task that works on it here stops."""


TRANSITIONS: Final[Mapping[tuple[BindState, BindState], str]] = {
    (BindState.DECIDED, BindState.QUEUED): "it has no volumes to be bound, or they are",
    (BindState.DECIDED, BindState.UNRESERVED): "its volumes cannot be bound as decided",
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
    (BindState.CHECKED, BindState.MOVED): "somebody holds the lock for long, and it fits elsewhere",
    (BindState.LOCKED, BindState.SENT): "its placement still holds",
    (BindState.LOCKED, BindState.UNRESERVED): "it does not hold any more, or one decided with it does not",
    (BindState.SENT, BindState.BOUND): "the API server says so",
    (BindState.SENT, BindState.FAILED): "the API server says so",
    (BindState.SENT, BindState.IN_DOUBT): "the API server does not say",
    (BindState.IN_DOUBT, BindState.BOUND): "it was seen on its node",
    (BindState.IN_DOUBT, BindState.FAILED): "it was seen unbound, elsewhere, or gone",
    (BindState.FAILED, BindState.UNRESERVED): "what it took is given back",
}
"""All that may follow each other, each with what it means."""


class BindStateError(RuntimeError):
    """A bind was about to take a step that is not in the table."""


def checked(now: BindState, then: BindState) -> BindState:
    """Return what follows.

    Raises
    ------
    BindStateError
        If it must not.
    """
    if (now, then) not in TRANSITIONS:
        raise BindStateError(f"a bind that is {now.value} cannot become {then.value}")
    return then


Rank = tuple[int, float, int, int]
"""Negative priority, time of joining, serial number, place in the group: the smallest goes first, in every lane."""


_TOLD: Final = frozenset({BindState.SENT, BindState.IN_DOUBT, BindState.BOUND})
"""A Binding is under way, or was carried out, as far as anybody can tell."""
_OVER: Final = frozenset({BindState.UNRESERVED, BindState.MOVED})
"""The task that works on the bind stops."""


class SentBinding(NamedTuple):
    """A Binding on its way; what became of it must be found out.

    Attributes
    ----------
    lock
        The value of the node's lock that was taken for it; empty if there is none.
    """

    pod: Pod
    placement: Placement
    lock: str


@dataclass(eq=False, slots=True)
class BindGroup:
    """Decided pods that are bound together: all of them, or none as long as no Binding is under way or was carried out.

    Attributes
    ----------
    items
        The pods.
    held_up
        Since when it has been first in a lane where it cannot go yet; None if it never was.
    dry_run_lock
        Is held while its Bindings are tried without carrying any out.
    are_dry_runs_sent
        Whether that was done.
    """

    items: list[BindTask] = field(default_factory=list)
    held_up: float | None = None
    dry_run_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    are_dry_runs_sent: bool = False

    @property
    def has_sent_bindings(self) -> bool:
        """Whether Bindings of its pods are under way or were carried out.

        As long as there are any, each pod is followed up by itself, and the group is not given back.
        """
        return any(item.state in _TOLD for item in self.items)


@dataclass(eq=False, slots=True)
class BindTask:
    """A decided pod that waits to be bound.

    Attributes
    ----------
    node
        The node whose lane it waits in; empty if the node side serves it at any time.
    state
        How far it has come; :meth:`enter` changes it.
    joined
        When it was decided.
    came
        When the pod was first seen waiting.
    turn_at, sent_at
        When its turn came, and when its Binding was sent.
    sent
        Its Binding, as long as that is on its way.
    asked
        When it was last asked whether it fits elsewhere.
    nodes_left
        The slow nodes that it has left.
    """

    rank: Rank
    uid: str
    decision: Decision
    group: BindGroup
    node: str
    joined: float
    came: float = 0.0
    attempts: int = 0
    turn_at: float = 0.0
    sent_at: float = 0.0
    sent: SentBinding | None = None
    asked: float = 0.0
    nodes_left: frozenset[str] = frozenset()
    state: BindState = BindState.DECIDED

    def enter(self, state: BindState) -> None:
        """Take the next step, unless it was taken already; one that is not in the table raises."""
        if state is not self.state:
            self.state = checked(self.state, state)

    @property
    def is_over(self) -> bool:
        """Whether the pod is decided anew, so that nothing more is done for this bind."""
        return self.state in _OVER


class Lane:
    """The pods that wait at one node.

    Attributes
    ----------
    current
        The pod whose turn it is; None while nobody is being bound there.
    since
        Since when nothing has moved: that turn began then, or one before it whose pod went elsewhere.
    looked_at
        When those that wait were last asked whether they fit elsewhere.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, BindTask]] = []
        self._committed: deque[BindTask] = deque()
        self.current: BindTask | None = None
        self.since = self.looked_at = 0.0
        self._went_elsewhere = False

    def __len__(self) -> int:
        return len(self._heap) + len(self._committed)

    def push(self, item: BindTask) -> None:
        """Add a pod."""
        heapq.heappush(self._heap, (item.rank, item))

    @property
    def head(self) -> BindTask:
        """The pod whose turn is next."""
        return self._committed[0] if self._committed else self._heap[0][1]

    def in_order(self) -> list[BindTask]:
        """Return all pods that wait, in the order of their turns."""
        return [*self._committed, *(item for _, item in sorted(self._heap, key=lambda entry: entry[0]))]

    def pop(self) -> BindTask:
        """Take the next pod."""
        return self._committed.popleft() if self._committed else heapq.heappop(self._heap)[1]

    def begin(self, now: float) -> BindTask:
        """Take the next pod, whose turn it is now."""
        if not self._went_elsewhere:
            self.since = now
        self.current, self._went_elsewhere = self.pop(), False
        return self.current

    def leave(self, item: BindTask) -> None:
        """Take out a pod that goes elsewhere; where it is its turn, the next one waits for the same."""
        self._went_elsewhere |= item is self.current
        self.remove([item])

    def commit(self, group: BindGroup) -> None:
        """Let the pods of a group go before all others, one right after the other."""
        mine = sorted((item for _, item in self._heap if item.group is group), key=lambda item: item.rank)
        self.remove(mine)
        self._committed.extend(mine)

    def remove(self, items: Iterable[BindTask]) -> None:
        """Take pods out, wherever they wait."""
        gone = set(map(id, items))
        self._heap = [entry for entry in self._heap if id(entry[1]) not in gone]
        heapq.heapify(self._heap)
        self._committed = deque(item for item in self._committed if id(item) not in gone)

    def expired(self, before: float) -> list[BindTask]:
        """Return the pods that joined before a time and whose turn has not come."""
        return [item for _, item in self._heap if item.joined < before]

    def all(self) -> list[BindTask]:
        """Return all pods that wait."""
        return [*self._committed, *(item for _, item in self._heap)]

"""A pod in the scheduling queue: where it waits, what came of its attempts, and until when it backs off."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.engine.parked import ParkedClass, Rank
from vgpu_scheduler.model import Hint

__all__ = ["INITIAL_BACKOFF", "MAX_BACKOFF", "Diagnosis", "Place", "QueuedPod"]

INITIAL_BACKOFF = 1.0
"""Seconds."""
MAX_BACKOFF = 10.0
"""Seconds."""


class Place(Enum):
    """Where a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    TRYING = "trying"
    """Popped: being decided or bound."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod was put among the unschedulable ones, where each node rejects it for what it is by itself.

    Attributes
    ----------
    equivalence, waits_for, rejected_by
        See :meth:`SchedulingQueue.park`.
    clock
        As of which version of the nodes.
    attempted_at
        When all nodes were asked for it.
    """

    equivalence: Hashable
    waits_for: Hint
    rejected_by: tuple[str, ...]
    clock: int
    attempted_at: float


@dataclass(slots=True)
class QueuedPod:
    """A pod that waits, is being decided, or is being bound.

    Attributes
    ----------
    came
        When it was first seen waiting.
    attempts, attempted_at
        How often it was tried, and when for the last time.
    """

    uid: str
    priority: int
    place: Place
    came: float
    attempts: int = 0
    attempted_at: float = 0.0
    parked_class: ParkedClass | None = None
    """Where it is parked."""
    tried_for: Hashable = None
    """Those that would get the same answer, and wait for what becomes of this pod."""
    rejected_by: tuple[str, ...] = ()
    """What rejected it at the last attempt."""
    diagnosis: Diagnosis | None = None
    """What came of the last attempt, where only changes of nodes since then need to be looked at."""
    moves: int = 0
    """How often it was decided anew because its node was slow."""
    fruitless_looks: int = 0
    """How often in a row nodes that had changed did not help."""
    ticket: int = 0
    """Heap items with another ticket are leftovers of an earlier place."""

    @property
    def rank(self) -> Rank:
        """When its turn comes among those that wait for the same."""
        return Rank(-self.priority, self.came, self.uid)

    @property
    def ready_at(self) -> float:
        """When its back-off ends."""
        # Capped before the power: a pod that waits for months must not overflow a float.
        doublings = min(max(self.attempts - 1, 0), 10)
        return self.attempted_at + min(INITIAL_BACKOFF * float(1 << doublings), MAX_BACKOFF)

    def uncount_attempt(self, now: float) -> None:
        """Have it be as if it had not been tried: neither counted nor in back-off."""
        self.attempts, self.attempted_at = self.attempts - 1, now - MAX_BACKOFF

"""What is found for a pod that may get the room of others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.engine.preemption.candidates import Candidates
from vgpu_scheduler.model import ClusterEvent, Preemption

__all__ = ["PreemptionResult", "earliest"]


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """What was found for a pod: how it gets room, or why it does not now, and when that may be otherwise.

    Attributes
    ----------
    preemption
        How it gets room; None if it does not.
    reason
        Why not; empty where no policy lets the pod preempt others.
    helped_by
        The kinds of change that may make the answer another.
    again_at
        From when on the answer may be another, whatever else happens.
    is_eligible
        Whether the pod may have others end for it now: what is said of one that may not says nothing of its equals.
    candidates
        What was found on the nodes that were compared: on no other one do victims cost less; None where none were.
    """

    preemption: Preemption | None = None
    reason: str = ""
    helped_by: ClusterEvent = ClusterEvent.BUDGET
    again_at: float | None = None
    is_eligible: bool = True
    candidates: Candidates | None = None

    def equivalence(self, of_decision: Hashable) -> Hashable:
        """Return what those have in common that get the answer: others of their class may be eligible already."""
        return of_decision if self.is_eligible or of_decision is None else (self.reason, of_decision)

    def among(self, others: Sequence[PreemptionResult]) -> PreemptionResult:
        """Return the same for pods that need the answers of others, too: what changes any of these may change it."""
        helped_by = self.helped_by
        for each in others:
            helped_by |= each.helped_by
        again_at = earliest(self.again_at, *(each.again_at for each in others))
        return replace(self, helped_by=helped_by, again_at=again_at)


def earliest(*moments: float | None) -> float | None:
    """Return the first of some moments; None if there is none."""
    return min((each for each in moments if each is not None), default=None)

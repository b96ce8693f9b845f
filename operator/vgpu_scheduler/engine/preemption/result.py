"""The result of evaluating preemption for a pod."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.engine.preemption.candidates import Candidates
from vgpu_scheduler.model import ClusterEvent, Decision, Preemption
from vgpu_scheduler.predicates import with_preemption


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """How a pod gets room by preemption, or why it does not now, and when that may change.

    Attributes
    ----------
    preemption
        The victims and the placement; None if there is none.
    reason
        Why there is none; empty where no policy lets the pod preempt others.
    helped_by
        The kinds of events that may change the result.
    retry_at
        When the result may change without any event.
    is_eligible
        Whether the pod may preempt others now. If not, the reason is specific to the pod, not to its class.
    candidates
        The compared nodes: no other node has cheaper victims; None where no nodes were compared.
    """

    preemption: Preemption | None = None
    reason: str = ""
    helped_by: ClusterEvent = ClusterEvent.BUDGET
    retry_at: float | None = None
    is_eligible: bool = True
    candidates: Candidates | None = None

    def equivalence(self, of_decision: Hashable) -> Hashable:
        """Return the equivalence of pods with this result: if not eligible, only pods with the same reason share it."""
        return of_decision if self.is_eligible or of_decision is None else (self.reason, of_decision)

    def among(self, others: Sequence[PreemptionResult]) -> PreemptionResult:
        """Return this result for pods that also depend on others' results: what changes those may change this one."""
        helped_by = self.helped_by
        for each in others:
            helped_by |= each.helped_by
        retry_at = earliest(self.retry_at, *(each.retry_at for each in others))
        return replace(self, helped_by=helped_by, retry_at=retry_at)


def when_refused(decision: Decision, result: PreemptionResult) -> Decision:
    """Return a decision of a pod that cannot preempt others, with the reason and with what may change that."""
    return replace(
        decision,
        message=_with_reason(decision, result.reason),
        helped_by=decision.helped_by | result.helped_by,
        equivalence=result.equivalence(decision.equivalence),
        node_local=False,  # which pods run on a node, and for how long, is not part of its version
        retry_at=earliest(decision.retry_at, result.retry_at),
    )


def when_preempting(decision: Decision, preemption: Preemption | None = None, reason: str = "") -> Decision:
    """Return a decision of a pod that preempts others, alone or with its group; it says nothing about other pods.

    Parameters
    ----------
    preemption
        What begins; None if nothing begins for this pod.
    reason
        What is waited for.
    """
    message = _with_reason(decision, reason)
    return replace(decision, message=message, preemption=preemption, equivalence=None, node_local=False)


def _with_reason(decision: Decision, reason: str) -> str:
    return with_preemption(decision.message, reason) if reason else decision.message


def earliest(*moments: float | None) -> float | None:
    """Return the earliest of the moments; None if there is none."""
    return min((each for each in moments if each is not None), default=None)

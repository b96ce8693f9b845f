"""Preemption: which pods of lower priority would have to be evicted so that a pod gets their room."""

from vgpu_scheduler.engine.preemption.candidates import NOT_HELPFUL, Candidates
from vgpu_scheduler.engine.preemption.result import PreemptionResult
from vgpu_scheduler.engine.preemption.search import BY_PREEMPTION, VictimSearch, ineligible
from vgpu_scheduler.engine.preemption.victims import GIVEN_UP_AFTER, OVERDUE_AFTER, Preemptor, Victims

__all__ = [
    "BY_PREEMPTION",
    "GIVEN_UP_AFTER",
    "NOT_HELPFUL",
    "OVERDUE_AFTER",
    "Candidates",
    "PreemptionResult",
    "Preemptor",
    "VictimSearch",
    "Victims",
    "ineligible",
]

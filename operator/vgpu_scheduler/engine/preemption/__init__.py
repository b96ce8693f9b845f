"""Preemption: which pods of lower priority would have to be evicted so that a pod gets their room."""

from vgpu_scheduler.engine.preemption.candidates import NOT_HELPFUL, Candidates
from vgpu_scheduler.engine.preemption.result import PreemptionResult
from vgpu_scheduler.engine.preemption.search import VictimSearch, ineligible
from vgpu_scheduler.engine.preemption.victims import (
    GIVEN_UP_AFTER,
    OVERDUE_AFTER,
    Preemptor,
    Victims,
    ends_by_preemption,
)

__all__ = [
    "GIVEN_UP_AFTER",
    "NOT_HELPFUL",
    "OVERDUE_AFTER",
    "Candidates",
    "PreemptionResult",
    "Preemptor",
    "VictimSearch",
    "Victims",
    "ends_by_preemption",
    "ineligible",
]

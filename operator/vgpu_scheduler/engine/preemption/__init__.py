"""Preemption: which pods of lower priority would have to end so that a pod gets its room."""

from vgpu_scheduler.engine.preemption.search import (
    BY_PREEMPTION,
    NO_VICTIMS,
    NOT_HELPFUL,
    Candidates,
    VictimSearch,
    ineligible,
)
from vgpu_scheduler.engine.preemption.victims import Asked, Victims

__all__ = ["BY_PREEMPTION", "NOT_HELPFUL", "NO_VICTIMS", "Asked", "Candidates", "VictimSearch", "Victims", "ineligible"]

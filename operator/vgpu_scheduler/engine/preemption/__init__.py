"""Preemption: which pods of lower priority would have to end so that a pod gets its room."""

from vgpu_scheduler.engine.preemption.search import (
    NO_VICTIMS,
    NOT_HELPFUL,
    Candidates,
    VictimSearch,
    ineligible,
)
from vgpu_scheduler.engine.preemption.victims import Asked, Victims

__all__ = ["NOT_HELPFUL", "NO_VICTIMS", "Asked", "Candidates", "VictimSearch", "Victims", "ineligible"]

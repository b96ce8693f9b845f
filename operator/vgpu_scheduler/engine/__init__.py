"""State in, decisions out: the queue, the cycle and what ties them together."""

from vgpu_scheduler.engine.cycle import Cycle, Unit
from vgpu_scheduler.engine.engine import Engine, Problem
from vgpu_scheduler.engine.policy_report import ConditionReport, PolicyReport
from vgpu_scheduler.engine.queue import Place, SchedulingQueue

__all__ = [
    "ConditionReport",
    "Cycle",
    "Engine",
    "Place",
    "PolicyReport",
    "Problem",
    "SchedulingQueue",
    "Unit",
]

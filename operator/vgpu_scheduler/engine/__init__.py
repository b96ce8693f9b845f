"""State in, decisions out: the queue, the cycle and what ties them together."""

from vgpu_scheduler.engine.cycle import Cycle, Unit
from vgpu_scheduler.engine.engine import Engine, Problem
from vgpu_scheduler.engine.queue import Place, SchedulingQueue

__all__ = ["Cycle", "Engine", "Place", "Problem", "SchedulingQueue", "Unit"]

"""The running operator: the loop, leader election, start-up, sweeps and shutdown."""

from vgpu_scheduler.runtime.elector import Elector, LeaseOptions
from vgpu_scheduler.runtime.operator import Operator

__all__ = ["Elector", "LeaseOptions", "Operator"]

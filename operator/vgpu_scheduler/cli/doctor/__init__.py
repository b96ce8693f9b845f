"""``vgpu-scheduler doctor``: asks a cluster for what the checks of :mod:`vgpu_scheduler.doctor` look at."""

from vgpu_scheduler.cli.doctor.command import doctor_command

__all__ = ["doctor_command"]

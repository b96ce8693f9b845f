"""``vgpu-scheduler doctor``: prints what the checks of :mod:`vgpu_scheduler.doctor` find."""

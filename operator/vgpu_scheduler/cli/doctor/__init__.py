"""``vgpu-scheduler doctor``: reads from a cluster what the checks of :mod:`vgpu_scheduler.doctor` need."""

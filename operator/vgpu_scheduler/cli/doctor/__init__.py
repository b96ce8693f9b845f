"""``vgpu-scheduler doctor``: asks a cluster for what the checks of :mod:`vgpu_scheduler.doctor` look at."""

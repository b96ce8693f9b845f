"""``python -m vgpu_scheduler``."""

from vgpu_scheduler.cli import main

main()

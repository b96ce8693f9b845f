"""``python -m vgpu_scheduler.cli``."""

from vgpu_scheduler.cli.main import main

main()

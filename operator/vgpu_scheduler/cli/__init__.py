"""The command line."""

from vgpu_scheduler.cli.main import main

__all__ = ["main"]

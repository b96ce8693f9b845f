"""The command line."""

from vgpu_scheduler.cli.main import kubectl_plugin, main

__all__ = ["kubectl_plugin", "main"]

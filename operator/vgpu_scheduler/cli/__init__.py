"""The command line."""

try:
    from vgpu_scheduler.cli.main import kubectl_plugin, main
except KeyboardInterrupt:  # Ctrl-C while Python starts
    raise SystemExit(130) from None

__all__ = ["kubectl_plugin", "main"]

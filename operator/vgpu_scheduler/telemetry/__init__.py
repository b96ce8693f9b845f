"""Metrics and health: what can be seen of the operator from outside."""

from vgpu_scheduler.telemetry.metrics import Attempts, Metrics
from vgpu_scheduler.telemetry.server import Health, Page, serve

__all__ = ["Attempts", "Health", "Metrics", "Page", "serve"]

"""Metrics, health and logs: what can be seen of the operator from outside."""

from vgpu_scheduler.telemetry.guarding import guarded, guarded_async
from vgpu_scheduler.telemetry.logs import Keyed
from vgpu_scheduler.telemetry.metrics import Attempts, Metrics
from vgpu_scheduler.telemetry.server import Health, Page, serve

__all__ = ["Attempts", "Health", "Keyed", "Metrics", "Page", "guarded", "guarded_async", "serve"]

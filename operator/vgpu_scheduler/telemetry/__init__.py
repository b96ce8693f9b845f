"""Metrics and health: what can be seen of the operator from outside."""

from vgpu_scheduler.telemetry.hami import HAMI_ZONE, hami_metrics
from vgpu_scheduler.telemetry.metrics import Attempts, Gauge, Metrics
from vgpu_scheduler.telemetry.server import Health, Page, serve

__all__ = ["HAMI_ZONE", "Attempts", "Gauge", "Health", "Metrics", "Page", "hami_metrics", "serve"]

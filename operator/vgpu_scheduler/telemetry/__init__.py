"""Metrics, health and logs: what can be seen of the operator from outside."""

from vgpu_scheduler.telemetry.logs import KeyedMessage, guarded, guarded_async
from vgpu_scheduler.telemetry.metrics import OTHER, AttemptMetrics, Metrics, Value, bounded
from vgpu_scheduler.telemetry.server import Health, Page, is_local, serve

__all__ = [
    "OTHER",
    "AttemptMetrics",
    "Health",
    "KeyedMessage",
    "Metrics",
    "Page",
    "Value",
    "bounded",
    "guarded",
    "guarded_async",
    "is_local",
    "serve",
]

"""Metrics, health and logs of the operator."""

from vgpu_scheduler.telemetry.logs import KeyedMessage
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
    "is_local",
    "serve",
]

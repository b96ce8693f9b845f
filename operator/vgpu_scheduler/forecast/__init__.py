"""How long a pod will wait: from how long pods have run, by replays of what may come."""

from vgpu_scheduler.forecast.answers import Forecast, Unknown
from vgpu_scheduler.forecast.durations import DurationClass, Durations
from vgpu_scheduler.forecast.lifetimes import Lifetime, lifetimes_of
from vgpu_scheduler.forecast.past import Past
from vgpu_scheduler.forecast.present import Present, RunningPod, present_of
from vgpu_scheduler.forecast.waiting import forecast

__all__ = [
    "DurationClass",
    "Durations",
    "Forecast",
    "Lifetime",
    "Past",
    "Present",
    "RunningPod",
    "Unknown",
    "forecast",
    "lifetimes_of",
    "present_of",
]

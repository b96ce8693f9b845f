"""Forecasts of how long a pod will wait, by replays of possible futures."""

from vgpu_scheduler.forecast.answers import Forecast, NoForecast, forecast_of_json
from vgpu_scheduler.forecast.current_cluster import CurrentCluster, RunningPod, present_of
from vgpu_scheduler.forecast.durations import DurationClass, Durations
from vgpu_scheduler.forecast.lifetimes import ObservedLifetime, lifetimes_of
from vgpu_scheduler.forecast.waiting import forecast
from vgpu_scheduler.forecast.workload_history import WorkloadHistory

__all__ = [
    "CurrentCluster",
    "DurationClass",
    "Durations",
    "Forecast",
    "NoForecast",
    "ObservedLifetime",
    "RunningPod",
    "WorkloadHistory",
    "forecast",
    "forecast_of_json",
    "lifetimes_of",
    "present_of",
]

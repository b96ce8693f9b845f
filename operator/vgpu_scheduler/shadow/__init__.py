"""Shadow mode: what this scheduler would have done beside another one, recorded and summarised.

A :class:`Shadow` receives changes with their times, and keeps its observations in a :class:`Record`, which can be
stored in a file. This package neither talks to a cluster nor reads a clock.
"""

from vgpu_scheduler.history.comparing import LEVEL
from vgpu_scheduler.shadow.change_log import ChangeLog, LogEntry, histories, objects_at
from vgpu_scheduler.shadow.clock import IncreasingClock
from vgpu_scheduler.shadow.horizons import Horizon, Interval, one_hour, whole_time
from vgpu_scheduler.shadow.observer import Shadow, ShadowOptions
from vgpu_scheduler.shadow.records import (
    Choice,
    ClusterSample,
    Fault,
    MissedPlacement,
    ObservedPeriod,
    Place,
    PodRecord,
    Record,
)
from vgpu_scheduler.shadow.summary import SHORTEST_WATCH, Summary, summed_up

__all__ = [
    "LEVEL",
    "SHORTEST_WATCH",
    "ChangeLog",
    "Choice",
    "ClusterSample",
    "Fault",
    "Horizon",
    "IncreasingClock",
    "Interval",
    "LogEntry",
    "MissedPlacement",
    "ObservedPeriod",
    "Place",
    "PodRecord",
    "Record",
    "Shadow",
    "ShadowOptions",
    "Summary",
    "histories",
    "objects_at",
    "one_hour",
    "summed_up",
    "whole_time",
]

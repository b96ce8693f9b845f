"""Beside another scheduler: what this one would have done on the same cluster, noted and summed up.

A :class:`Shadow` is told of changes with their times, and notes what it sees in a :class:`Record`, which a file can
hold. Nothing here talks to a cluster or looks at a clock.
"""

from vgpu_scheduler.history.comparing import LEVEL
from vgpu_scheduler.shadow.change_log import ChangeLog, LogEntry, histories, objects_at
from vgpu_scheduler.shadow.clock import Clock
from vgpu_scheduler.shadow.horizons import Horizon, Interval, one_hour, whole_time
from vgpu_scheduler.shadow.observer import Shadow, ShadowOptions
from vgpu_scheduler.shadow.records import Choice, Fault, MissedPlacement, Place, PodRecord, Record, Sample, Watch
from vgpu_scheduler.shadow.summary import SHORTEST_WATCH, Summary, summed_up

__all__ = [
    "LEVEL",
    "SHORTEST_WATCH",
    "ChangeLog",
    "Choice",
    "Clock",
    "Fault",
    "Horizon",
    "Interval",
    "LogEntry",
    "MissedPlacement",
    "Place",
    "PodRecord",
    "Record",
    "Sample",
    "Shadow",
    "ShadowOptions",
    "Summary",
    "Watch",
    "histories",
    "objects_at",
    "one_hour",
    "summed_up",
    "whole_time",
]

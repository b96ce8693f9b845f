"""What happened to a cluster: kept, replayed under other policies, and compared."""

from vgpu_scheduler.history.course import Course, Eviction, PodCourse, Series
from vgpu_scheduler.history.events import (
    Arrived,
    Changed,
    Decided,
    Departed,
    Event,
    History,
    Missed,
    Removed,
    Stay,
)
from vgpu_scheduler.history.replaying import replay, with_policies
from vgpu_scheduler.history.virtual import VirtualCluster, as_created

__all__ = [
    "Arrived",
    "Changed",
    "Course",
    "Decided",
    "Departed",
    "Event",
    "Eviction",
    "History",
    "Missed",
    "PodCourse",
    "Removed",
    "Series",
    "Stay",
    "VirtualCluster",
    "as_created",
    "replay",
    "with_policies",
]

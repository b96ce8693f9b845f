"""What happened to a cluster: kept, replayed under other policies, and compared."""

from vgpu_scheduler.history.course import Course, Eviction, PodCourse, Series
from vgpu_scheduler.history.encoding import LogError, Row, rows_of
from vgpu_scheduler.history.events import (
    Arrived,
    Changed,
    Decided,
    Departed,
    Event,
    History,
    MissedEvents,
    PodLifetime,
    Removed,
    Withdrawn,
)
from vgpu_scheduler.history.joining import joined
from vgpu_scheduler.history.log import (
    CLOSED,
    OPEN,
    Header,
    LogFile,
    Part,
    PyarrowMissingError,
    check_arrow,
    close_left_open,
    read_part,
)
from vgpu_scheduler.history.recording import Recording
from vgpu_scheduler.history.replaying import replay, with_policies
from vgpu_scheduler.history.retention import Retention, prune
from vgpu_scheduler.history.standing import StandingObjects
from vgpu_scheduler.history.virtual import VirtualCluster, as_bound, known_objects

__all__ = [
    "CLOSED",
    "OPEN",
    "Arrived",
    "Changed",
    "Course",
    "Decided",
    "Departed",
    "Event",
    "Eviction",
    "Header",
    "History",
    "LogError",
    "LogFile",
    "MissedEvents",
    "Part",
    "PodCourse",
    "PodLifetime",
    "PyarrowMissingError",
    "Recording",
    "Removed",
    "Retention",
    "Row",
    "Series",
    "StandingObjects",
    "VirtualCluster",
    "Withdrawn",
    "as_bound",
    "check_arrow",
    "close_left_open",
    "joined",
    "known_objects",
    "prune",
    "read_part",
    "replay",
    "rows_of",
    "with_policies",
]

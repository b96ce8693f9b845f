"""What happened to a cluster: kept, replayed under other policies, and compared."""

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
    LogSegment,
    PyarrowMissingError,
    check_arrow,
    close_left_open,
    read_part,
)
from vgpu_scheduler.history.objects_at_time import ObjectsAtTime
from vgpu_scheduler.history.recording import Recording
from vgpu_scheduler.history.replay_result import PodCourse, ReplayedEviction, ReplayResult, Series
from vgpu_scheduler.history.replaying import replay
from vgpu_scheduler.history.retention import Retention, prune
from vgpu_scheduler.history.virtual import as_bound, known_objects

__all__ = [
    "CLOSED",
    "OPEN",
    "Arrived",
    "Changed",
    "Decided",
    "Departed",
    "Event",
    "Header",
    "History",
    "LogError",
    "LogFile",
    "LogSegment",
    "MissedEvents",
    "ObjectsAtTime",
    "PodCourse",
    "PodLifetime",
    "PyarrowMissingError",
    "Recording",
    "Removed",
    "ReplayResult",
    "ReplayedEviction",
    "Retention",
    "Row",
    "Series",
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
]

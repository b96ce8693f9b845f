"""The history log of a cluster: recorded, replayed under other policies, and compared."""

from vgpu_scheduler.history.change_tracker import ChangeTracker
from vgpu_scheduler.history.encoding import LogError, Row, rows_of
from vgpu_scheduler.history.events import (
    Arrived,
    Changed,
    Decided,
    Departed,
    History,
    HistoryEvent,
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
    read_segment,
)
from vgpu_scheduler.history.objects_at_time import ObjectsAtTime
from vgpu_scheduler.history.replay_result import ReplayedEviction, ReplayedPod, ReplayResult, Series
from vgpu_scheduler.history.replaying import replay
from vgpu_scheduler.history.retention import Retention, prune
from vgpu_scheduler.history.virtual import as_bound, known_objects

__all__ = [
    "CLOSED",
    "OPEN",
    "Arrived",
    "ChangeTracker",
    "Changed",
    "Decided",
    "Departed",
    "Header",
    "History",
    "HistoryEvent",
    "LogError",
    "LogFile",
    "LogSegment",
    "MissedEvents",
    "ObjectsAtTime",
    "PodLifetime",
    "PyarrowMissingError",
    "Removed",
    "ReplayResult",
    "ReplayedEviction",
    "ReplayedPod",
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
    "read_segment",
    "replay",
    "rows_of",
]

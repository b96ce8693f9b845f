"""When objects were read, as far as they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from vgpu_scheduler.policy import GROUP

Object = Mapping[str, Any]

_READ_AT: Final = f"{GROUP}/read-at"
"""The annotation of a snapshot that says when its objects were read."""
_OF_METADATA = ("creationTimestamp",)
_OF_STATUS = ("startTime",)
_OF_CONDITIONS = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime")


def newest_time(objects: Iterable[Object]) -> datetime | None:
    """Return the newest time that objects tell of; they were not read before. None if they tell of none.

    Nodes are heard of every few minutes, so that of a cluster with some it is nearly the time when it was read.
    """
    return max((time for obj in objects for time in _times(obj)), default=None)


def read_at(snapshot: object) -> datetime | None:
    """Return when the objects of a snapshot were read; None for anything else."""
    metadata = snapshot.get("metadata") if isinstance(snapshot, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return parse_time(annotations.get(_READ_AT)) if isinstance(annotations, Mapping) else None


def when_read(time: datetime | None) -> dict[str, Any]:
    """Return the metadata of a snapshot, which say when its objects were read."""
    return {} if time is None else {"annotations": {_READ_AT: time.isoformat()}}


def parse_time(text: object) -> datetime | None:
    """Read a time as the API server writes it; None if it is none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None


def _times(obj: Object) -> Iterator[datetime]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    parts: list[tuple[object, tuple[str, ...]]] = [(obj.get("metadata"), _OF_METADATA), (status, _OF_STATUS)]
    parts += [(condition, _OF_CONDITIONS) for condition in conditions] if isinstance(conditions, list) else []
    for part, fields in parts:
        if isinstance(part, Mapping):
            yield from (time for field in fields if (time := parse_time(part.get(field))) is not None)

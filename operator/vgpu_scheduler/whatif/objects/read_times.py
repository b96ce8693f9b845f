"""When the objects of a snapshot were read, and which kinds are complete, if the snapshot says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.kube import Object, parse_time
from vgpu_scheduler.policy import GROUP

_READ_AT: Final = f"{GROUP}/read-at"
"""The annotation of a snapshot with the time when its objects were read."""
_KINDS: Final = f"{GROUP}/kinds-read"
"""The annotation of a snapshot with the kinds of which all objects were read, separated by commas."""
_PODS_SINCE: Final = f"{GROUP}/pods-since"
"""The annotation of a snapshot with the time since which it has all pods, including deleted ones."""
KNOWN_FROM: Final = f"{GROUP}/known-from"
"""The annotation of a deleted pod in a snapshot: the source that still knew the pod."""
_LIST: Final = "List"
_OF_METADATA = ("creationTimestamp",)
_OF_STATUS = ("startTime",)
_OF_CONDITIONS = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime")


def newest_time(objects: Iterable[Object]) -> datetime | None:
    """Return the newest timestamp in objects, a lower bound of when they were read; None without timestamps.

    Node heartbeats arrive every few minutes, so for a cluster with nodes the bound is close.
    """
    return max((time for obj in objects for time in _times(obj)), default=None)


def read_at(snapshot: object) -> datetime | None:
    """Return when the objects of a snapshot were read; None for any other object."""
    return parse_time(_annotations(snapshot).get(_READ_AT))


def pods_since(snapshot: object) -> datetime | None:
    """Return the time since which a snapshot also has deleted pods; None if it has none."""
    return parse_time(_annotations(snapshot).get(_PODS_SINCE))


def kinds_read(document: object) -> frozenset[str]:
    """Return the kinds of which a snapshot, or a list of one kind, has all objects, even if there are none."""
    listed = _annotations(document).get(_KINDS)
    kinds = set(listed.split(",")) if isinstance(listed, str) else set()
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if isinstance(kind, str) and kind.endswith(_LIST):
        kinds.add(kind.removesuffix(_LIST))
    return frozenset(kinds - {""})


def when_read(time: datetime | None, kinds: Iterable[str] = (), pods_since: datetime | None = None) -> dict[str, Any]:
    """Return the metadata of a snapshot: when it was read, its complete kinds, and since when it has deleted pods."""
    annotations = {} if time is None else {_READ_AT: time.isoformat()}
    if pods_since is not None:
        annotations[_PODS_SINCE] = pods_since.isoformat()
    if listed := ",".join(sorted(kinds)):
        annotations[_KINDS] = listed
    return {"annotations": annotations} if annotations else {}


def _annotations(document: object) -> Object:
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}


def _times(obj: Object) -> Iterator[datetime]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    parts: list[tuple[object, tuple[str, ...]]] = [(obj.get("metadata"), _OF_METADATA), (status, _OF_STATUS)]
    parts += [(condition, _OF_CONDITIONS) for condition in conditions] if isinstance(conditions, list) else []
    for part, fields in parts:
        if isinstance(part, Mapping):
            yield from (time for field in fields if (time := parse_time(part.get(field))) is not None)

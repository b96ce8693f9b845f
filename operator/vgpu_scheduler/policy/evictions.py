"""The evictions of the last hour, which count towards a policy's ``preemption.perHour`` and are kept in its status.

They are recorded before a pod is evicted, so that the limit also holds for the next leader. Entries that cannot be
decoded are reported and skipped; nothing here fails on what others wrote into the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field

from vgpu_scheduler.kube import parse_time, rfc3339
from vgpu_scheduler.policy.rules import Keyword, Section

MOST_EVICTIONS: Final = 1000
"""The most evictions that a policy may allow in an hour, and that its status keeps."""
HOUR: Final = timedelta(hours=1)


class EvictionEntry(Section):
    """One eviction."""

    time: Annotated[str, Keyword({"format": "date-time"})]
    """When the eviction was decided."""
    pod: Annotated[str, Field(max_length=317)]
    """The evicted pod as namespace/name; its UID if the policy is of another namespace."""
    uid: Annotated[str, Field(max_length=64)]
    """The UID of that pod."""
    node: Annotated[str, Field(max_length=253)]
    """The node that it ran on."""


@dataclass(frozen=True, slots=True)
class RecordedEviction:
    """A recorded eviction.

    Attributes
    ----------
    time
        When it was decided, with a time zone.
    pod
        The pod that was evicted: ``namespace/name``, or its UID in a policy of another namespace.
    uid
        The pod's UID; a repeated record of the same UID counts once.
    node
        The node that the pod ran on.
    """

    time: datetime
    pod: str
    uid: str
    node: str


def read_evictions(status: object) -> tuple[tuple[RecordedEviction, ...], tuple[str, ...]]:
    """Return the evictions recorded in a policy's status, and problems with entries that cannot be decoded."""
    written = status.get("evictions") if isinstance(status, Mapping) else None
    if written is None:
        return (), ()
    if not isinstance(written, list):
        return (), ("status.evictions: must be a list",)
    found, problems = [], []
    for number, entry in enumerate(written):
        eviction = _read(entry)
        if isinstance(eviction, str):
            problems.append(f"status.evictions[{number}]{eviction}")
        else:
            found.append(eviction)
    return tuple(found), tuple(problems)


def recent_evictions(status: object, now: datetime) -> list[RecordedEviction]:
    """Return the evictions of the last hour in a policy's status, the oldest first.

    Clocks of replicas differ, so times up to an hour in the future count, too.
    """
    found, _ = read_evictions(status)
    return sorted((one for one in found if abs(now - one.time) < HOUR), key=lambda one: (one.time, one.pod, one.uid))


def with_eviction(status: object, eviction: RecordedEviction, now: datetime) -> dict[str, Any]:
    """Return a policy's status with one more eviction, without those that no longer count.

    An earlier record of the same UID is replaced. If there are too many records, the oldest are dropped.
    """
    others = [one for one in recent_evictions(status, now) if one.uid != eviction.uid]
    kept = [*others, eviction][-MOST_EVICTIONS:]
    return {**(status if isinstance(status, Mapping) else {}), "evictions": [_written(one) for one in kept]}


def without_eviction(status: object, uid: str, now: datetime) -> dict[str, Any]:
    """Return a policy's status without the eviction of a pod, and without those that no longer count."""
    kept = [one for one in recent_evictions(status, now) if one.uid != uid]
    return {**(status if isinstance(status, Mapping) else {}), "evictions": [_written(one) for one in kept]}


def _read(entry: object) -> RecordedEviction | str:
    """Decode an eviction, or return what is wrong with it."""
    if not isinstance(entry, Mapping):
        return ": must be a mapping"
    texts = {name: entry.get(name) for name in ("time", "pod", "uid", "node")}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f".{name}: must be a string"
    time = parse_time(texts["time"])
    if time is None:
        return ".time: is not a time" if parse_time(texts["time"], assumed=UTC) is None else ".time: has no time zone"
    return RecordedEviction(time, str(texts["pod"]), str(texts["uid"]), str(texts["node"]))


def _written(eviction: RecordedEviction) -> dict[str, str]:
    return {"time": rfc3339(eviction.time), "pod": eviction.pod, "uid": eviction.uid, "node": eviction.node}

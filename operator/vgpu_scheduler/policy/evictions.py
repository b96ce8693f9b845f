"""The evictions of the last hour, which count towards ``preemption.perHour`` of a policy and are kept in its status.

They are written before a pod is evicted, so that the limit holds for the next leader, too. What cannot be read is named
and left out; nothing here fails on what somebody else wrote.
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
"""How many evictions a policy may allow in an hour, and how many its status keeps."""
HOUR: Final = timedelta(hours=1)


class EvictionEntry(Section):
    """One eviction."""

    time: Annotated[str, Keyword({"format": "date-time"})]
    """When it was decided."""
    pod: Annotated[str, Field(max_length=317)]
    """The pod that was evicted, as namespace/name; in a policy of another namespace its UID."""
    uid: Annotated[str, Field(max_length=64)]
    """The UID of that pod."""
    node: Annotated[str, Field(max_length=253)]
    """The node that it ran on."""


@dataclass(frozen=True, slots=True)
class RecordedEviction:
    """One eviction.

    Attributes
    ----------
    time
        When it was decided, with a time zone.
    pod
        The pod that was evicted: ``namespace/name``, or its UID in a policy of another namespace.
    uid
        Its UID; an eviction that is recorded again counts once.
    node
        The node that it ran on.
    """

    time: datetime
    pod: str
    uid: str
    node: str


def read_evictions(status: object) -> tuple[tuple[RecordedEviction, ...], tuple[str, ...]]:
    """Return the evictions that the status of a policy records, and what of it cannot be read."""
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
    """Return the evictions of the last hour that the status of a policy records, the oldest first.

    Clocks of replicas differ: what lies ahead counts, too, but for no more than an hour.
    """
    found, _ = read_evictions(status)
    return sorted((one for one in found if abs(now - one.time) < HOUR), key=lambda one: (one.time, one.pod, one.uid))


def with_eviction(status: object, eviction: RecordedEviction, now: datetime) -> dict[str, Any]:
    """Return the status of a policy with one eviction more, without those that no longer count.

    The one that a pod of the same UID has already is replaced. Where there are more than the status keeps, the oldest
    are dropped.
    """
    others = [one for one in recent_evictions(status, now) if one.uid != eviction.uid]
    kept = [*others, eviction][-MOST_EVICTIONS:]
    return {**(status if isinstance(status, Mapping) else {}), "evictions": [_written(one) for one in kept]}


def without_eviction(status: object, uid: str, now: datetime) -> dict[str, Any]:
    """Return the status of a policy without the eviction of a pod, and without those that no longer count."""
    kept = [one for one in recent_evictions(status, now) if one.uid != uid]
    return {**(status if isinstance(status, Mapping) else {}), "evictions": [_written(one) for one in kept]}


def _read(entry: object) -> RecordedEviction | str:
    """Return an eviction, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return ": must be a mapping"
    texts = {name: entry.get(name) for name in ("time", "pod", "uid", "node")}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f".{name}: must be a text"
    time = parse_time(texts["time"])
    if time is None:
        return ".time: is no time" if parse_time(texts["time"], assumed=UTC) is None else ".time: has no time zone"
    return RecordedEviction(time, str(texts["pod"]), str(texts["uid"]), str(texts["node"]))


def _written(eviction: RecordedEviction) -> dict[str, str]:
    return {"time": rfc3339(eviction.time), "pod": eviction.pod, "uid": eviction.uid, "node": eviction.node}

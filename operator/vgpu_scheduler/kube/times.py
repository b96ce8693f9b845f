"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from vgpu_scheduler.model.untyped import mapping_of, mappings_in


def rfc3339(time: datetime, *, micro: bool = False) -> str:
    """Format a time in UTC, in seconds or microseconds; it must have a time zone."""
    return f"{time.astimezone(UTC):{'%Y-%m-%dT%H:%M:%S.%fZ' if micro else '%Y-%m-%dT%H:%M:%SZ'}}"


def parse_time(text: object, *, assumed: tzinfo | None = None) -> datetime | None:
    """Parse a time, and convert it to UTC; None if it is invalid.

    Parameters
    ----------
    assumed
        The time zone for texts without one; without it, such texts are invalid.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        if found is not None and found.tzinfo is None:
            found = None if assumed is None else found.replace(tzinfo=assumed)
        return None if found is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def bound_at(status: object) -> datetime | None:
    """Return when a pod was bound by its status, else its ``startTime``; None if it has neither."""
    for condition in mappings_in(mapping_of(status).get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            time = parse_time(condition.get("lastTransitionTime"))
            if time is not None:
                return time
    return parse_time(mapping_of(status).get("startTime"))


def ended_at(status: object) -> datetime | None:
    """Return when the last container of a pod ended, by its status; None if none has."""
    ends = (
        parse_time(mapping_of(mapping_of(each.get("state")).get("terminated")).get("finishedAt"))
        for field in ("containerStatuses", "initContainerStatuses")
        for each in mappings_in(mapping_of(status).get(field))
    )
    return max((end for end in ends if end is not None), default=None)

"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vgpu_scheduler.kube import parse_time, rfc3339

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)


def test_a_time_is_written_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    assert rfc3339(there) == "2026-03-01T12:00:00Z"
    assert rfc3339(there, micro=True) == "2026-03-01T12:00:00.250000Z"


def test_a_time_is_read_as_one_in_utc() -> None:
    assert parse_time(rfc3339(NOON, micro=True)) == NOON
    read = parse_time("2026-03-01T14:00:00+02:00")
    assert read is not None
    assert read.isoformat() == "2026-03-01T12:00:00+00:00"


def test_a_time_without_a_zone_is_none_unless_one_is_assumed() -> None:
    assert parse_time("2026-03-01T12:00:00") is None
    assert parse_time("2026-03-01T12:00:00", assumed=UTC) == NOON.replace(microsecond=0)


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+01:00", None, 5, {}])
def test_what_is_no_time_is_none(text: object) -> None:
    assert parse_time(text, assumed=UTC) is None

"""Times as the API writes them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.engine.builders import pod_object

from vgpu_scheduler.kube import bound_at, decode_pod, ended_at, parse_time, rfc3339

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


@pytest.mark.parametrize(
    ("text", "created"),
    [
        ("2026-03-01T12:00:00Z", 1772366400.0),
        ("2026-03-01T12:00:00", 1772366400.0),
        ("2026-03-01T12:00:00+02:00", 1772359200.0),
        ("noon", None),
        ("", None),
    ],
)
def test_times_of_a_pod_are_in_utc_wherever_this_runs(
    monkeypatch: pytest.MonkeyPatch, text: str, created: float | None
) -> None:
    body = pod_object("p")
    body["metadata"] |= {"creationTimestamp": text, "deletionTimestamp": text}
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = decode_pod(body)
        assert (found.created_at, found.ends_by) == (created, created)
    finally:
        monkeypatch.undo()
        time.tzset()


SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00.25Z"}


@pytest.mark.parametrize(
    ("status", "bound"),
    [
        ({"conditions": [{}, SCHEDULED], "startTime": "2026-03-01T13:00:00Z"}, NOON),
        ({"conditions": [SCHEDULED | {"status": "False"}], "startTime": "2026-03-01T12:00:00.25Z"}, NOON),
        ({"conditions": [SCHEDULED | {"lastTransitionTime": 5}], "startTime": "2026-03-01T12:00:00.25Z"}, NOON),
        ({"conditions": [SCHEDULED | {"status": "False"}]}, None),
        ({"conditions": ["odd"], "startTime": {}}, None),
        ({"conditions": 7}, None),
        (None, None),
    ],
)
def test_when_a_pod_was_bound(status: Any, bound: datetime | None) -> None:
    assert bound_at(status) == bound


def test_a_pod_ended_with_its_last_container() -> None:
    def ended(*texts: object) -> list[Any]:
        return [{"state": {"terminated": {"finishedAt": text}}} for text in texts]

    assert ended_at({"containerStatuses": ended("2026-03-01T13:00:00+02:00", "2026-03-01T12:00:00.25Z")}) == NOON
    assert ended_at({"initContainerStatuses": ended("2026-03-01T12:00:00.25Z")}) == NOON, "it failed before the others"
    assert ended_at({"containerStatuses": [5, {}, {"state": 5}, *ended(5)], "initContainerStatuses": {}}) is None
    assert ended_at("odd") is None

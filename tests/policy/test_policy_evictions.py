"""The evictions of the last hour in the status of a policy: kept, counted once, bounded, and read whatever is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.policy.resources import policy_object

from vgpu_scheduler.model import PendingEvents
from vgpu_scheduler.policy import (
    Catalogue,
    RecordedEviction,
    decode_policy,
    read_evictions,
    recent_evictions,
    with_eviction,
)
from vgpu_scheduler.policy.evictions import MOST_EVICTIONS
from vgpu_scheduler.policy.models import PolicyStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENTRY = {"time": "2026-01-01T11:30:00Z", "pod": "a/b", "uid": "u", "node": "n"}


def eviction(number: int, minutes: float = 0) -> RecordedEviction:
    return RecordedEviction(NOW + timedelta(minutes=minutes), f"team/p{number}", f"uid-{number}", "node")


def test_what_is_written_is_read_and_everything_else_stays() -> None:
    status = with_eviction({"pods": 3, "conditions": []}, eviction(1, -30), NOW)
    status = with_eviction(status, eviction(2), NOW)
    assert (status["pods"], status["conditions"]) == (3, [])
    assert recent_evictions(status, NOW) == [eviction(1, -30), eviction(2)]
    PolicyStatus.model_validate(status, by_alias=True, by_name=False)
    assert with_eviction(None, eviction(1), NOW)["evictions"] == with_eviction({}, eviction(1), NOW)["evictions"]


def test_one_that_is_recorded_again_counts_once() -> None:
    status = with_eviction(with_eviction({}, eviction(1, -1), NOW), eviction(1), NOW)
    assert recent_evictions(status, NOW) == [eviction(1)]


def test_what_is_older_than_an_hour_neither_counts_nor_stays() -> None:
    status = with_eviction({}, eviction(1), NOW)
    assert recent_evictions(status, NOW + timedelta(minutes=59)) == [eviction(1)]
    later = NOW + timedelta(hours=1)
    assert recent_evictions(status, later) == []
    assert len(with_eviction(status, eviction(2, 60), later)["evictions"]) == 1


def test_a_clock_that_runs_ahead_counts_for_an_hour_and_no_more() -> None:
    assert recent_evictions(with_eviction({}, eviction(1, 10), NOW), NOW) == [eviction(1, 10)]
    assert recent_evictions(with_eviction({}, eviction(1, 61), NOW), NOW) == []


def test_no_more_than_fit_are_kept_the_newest_of_them() -> None:
    entry = [{**ENTRY, "uid": str(number), "pod": f"a/{number:04}"} for number in range(MOST_EVICTIONS + 5)]
    kept = with_eviction({"evictions": entry}, eviction(1), NOW)["evictions"]
    assert len(kept) == MOST_EVICTIONS
    assert kept[-1]["uid"] == "uid-1"
    assert kept[0]["pod"] == "a/0006"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({}, "status.evictions: must be a list"),
        ("x", "status.evictions: must be a list"),
        ([7], "status.evictions[0]: must be a mapping"),
        ([None], "status.evictions[0]: must be a mapping"),
        ([{}], "status.evictions[0].time: must be a string"),
        ([{**ENTRY, "time": 5}], "status.evictions[0].time: must be a string"),
        ([{**ENTRY, "time": "yesterday"}], "status.evictions[0].time: is not a time"),
        ([{**ENTRY, "time": "2026-01-01T11:30:00"}], "status.evictions[0].time: has no time zone"),
        ([{**ENTRY, "time": "0001-01-01T00:00:00+10:00"}], "status.evictions[0].time: is not a time"),
        ([{**ENTRY, "pod": None}], "status.evictions[0].pod: must be a string"),
        ([{**ENTRY, "uid": []}], "status.evictions[0].uid: must be a string"),
        ([{**ENTRY, "node": {}}], "status.evictions[0].node: must be a string"),
    ],
)
def test_what_cannot_be_read_is_named_and_left_out(written: Any, problem: str) -> None:
    status = {"evictions": [*written, ENTRY] if isinstance(written, list) else written}
    found, problems = read_evictions(status)
    assert problems == (problem,)
    assert len(found) == len(recent_evictions(status, NOW)) == isinstance(written, list)
    assert recent_evictions(with_eviction(status, eviction(1), NOW), NOW)[-1] == eviction(1)


@pytest.mark.parametrize("status", [None, [], "x", 5, {}, {"evictions": None}])
def test_a_status_without_evictions_has_none(status: Any) -> None:
    assert read_evictions(status) == ((), ())


def test_a_policy_carries_those_of_its_status_and_its_newest_are_known() -> None:
    catalogue = Catalogue(PendingEvents())
    made = policy_object("p", {"preemption": {"perHour": 1}})
    catalogue.put(decode_policy(made))
    generation = catalogue.generation
    later = {**made, "metadata": {**made["metadata"], "resourceVersion": "1000000"}}
    catalogue.put(decode_policy({**later, "status": with_eviction({}, eviction(1), NOW)}))
    known = catalogue.get(("ClusterVGPUPolicy", "", "p"))
    assert known is not None
    assert known.evictions == (eviction(1),)
    assert catalogue.generation == generation  # nobody's policy is another one for it

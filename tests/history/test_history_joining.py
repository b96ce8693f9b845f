"""Files of a log that are read as one history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.engine.builders import allocation
from tests.history.recorded import BEGAN, fleet, waiting
from tests.history.test_history_recording import bound

from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Departed,
    HistoryEvent,
    MissedEvents,
    Removed,
    Withdrawn,
)
from vgpu_scheduler.history.joining import joined
from vgpu_scheduler.history.log import Header, LogSegment
from vgpu_scheduler.kube import decode_quota


def segment(
    number: int, began: float, first: Iterable[HistoryEvent], events: Iterable[HistoryEvent], run: str = "run"
) -> LogSegment:
    events = tuple(events)
    ended = max((each.at for each in events), default=began)
    return LogSegment(Path(f"{number}"), Header(began, run, number), ended, tuple(first), events)


def test_files_of_one_run_go_on() -> None:
    machine = fleet(1)[0]
    first = [Changed(BEGAN, "Node", machine)]
    one = segment(1, BEGAN, first, [Arrived(BEGAN + 1, waiting("p")), Decided(BEGAN + 2, "uid-p", "node-0")])
    snapshot = [Changed(BEGAN + 9, "Node", machine), Arrived(BEGAN + 9, waiting("p"))]
    other = segment(2, BEGAN + 9, snapshot, [Decided(BEGAN + 9, "uid-p", "node-0"), Departed(BEGAN + 10, "uid-p")])

    found, problems = joined([other, one])

    assert problems == []
    assert (found.began, found.ended) == (BEGAN, BEGAN + 10)
    assert [type(each) for each in found.events] == [Arrived, Decided, Departed]


def test_a_second_decision_for_the_same_node_counts_in_each_file() -> None:
    first = [Changed(BEGAN, "Node", fleet(1)[0])]
    one = segment(1, BEGAN, first, [Arrived(BEGAN + 1, waiting("p")), Decided(BEGAN + 2, "uid-p", "node-0")])
    snapshot = [replace(first[0], at=BEGAN + 9), Arrived(BEGAN + 9, waiting("p"))]
    other = segment(2, BEGAN + 9, snapshot, [Decided(BEGAN + at, "uid-p", "node-0") for at in (9, 60)])

    found, _ = joined([one, other])

    assert [each.at - BEGAN for each in found.decided] == [2, 60]
    assert found.pod_lifetimes()["uid-p"].placed == BEGAN + 60


def test_what_differs_after_a_gap_has_happened() -> None:
    one_node, other_node = fleet(2)
    quota = decode_quota({"metadata": {"name": "q", "namespace": "n", "uid": "q", "resourceVersion": "3"}, "spec": {}})
    first = [Changed(BEGAN, "Node", one_node), Changed(BEGAN, "ResourceQuota", quota)]
    one = segment(1, BEGAN, first, [Arrived(BEGAN + each, waiting(f"p{each}")) for each in (1, 2, 3)])
    notes = allocation("node-1", ("node-1-gpu-0", 1000, 0))
    at = BEGAN + 90
    snapshot = [
        Changed(at, "Node", one_node),
        Changed(at, "Node", other_node),
        Changed(at, "Pod", bound(waiting("p1"), "node-1", notes)),
        Arrived(at, waiting("p3")),
        Arrived(at, waiting("p4")),
        Arrived(at, waiting("p5")),
        Arrived(at, waiting("p6")),
    ]
    one = replace(one, events=(*one.events, *(
        event for name in ("p5", "p6")
        for event in (Arrived(BEGAN + 3, waiting(name)), Decided(BEGAN + 3, f"uid-{name}", "node-0"))
    )))  # fmt: skip
    again = [Decided(at, "uid-p6", "node-0")]

    found, problems = joined([one, segment(1, at, snapshot, again, "other")])

    assert len(problems) == 1
    assert "nothing was written for 87 s" in problems[0]
    assert found.events[7:] == (
        MissedEvents(at, 0, "between 1 and 1"),
        Departed(at, "uid-p2"),
        Removed(at, "ResourceQuota", quota),
        Changed(at, "Node", other_node),
        Decided(at, "uid-p1", "node-1", notes),
        snapshot[-3],
        Withdrawn(at, "uid-p5"),
    )

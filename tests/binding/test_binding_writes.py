"""The requests of a bind as values."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.builders import pod

from vgpu_scheduler.binding import EventSource, LockChange, TokenPatch, binding_body, decision_record
from vgpu_scheduler.binding.reports import Event, Occurrences, Regarding
from vgpu_scheduler.binding.writes import (
    event_body,
    event_path,
    not_scheduled_condition,
    pointer,
    release_operations,
    series_patch,
)
from vgpu_scheduler.model import Decision, EventReason, Outcome, Placement, ScorePart

NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone(timedelta(hours=2)))
LATER = NOW + timedelta(minutes=1)
ABOUT = Regarding("Pod", "default", "p", "uid-p")
LOCK, TOKEN = "/metadata/annotations/hami.io~1mutex.lock", "/metadata/annotations/vgpu-scheduler.io~1last-allocated"


def test_annotation_keys_are_escaped() -> None:
    assert pointer("a/b~c") == "/metadata/annotations/a~1b~0c"


def test_the_lock_is_taken_if_it_is_free_and_the_token_is_the_expected_one() -> None:
    assert TokenPatch("before", "uid", LockChange("hami.io/mutex.lock", "value", None)).operations() == [
        {"op": "test", "path": LOCK, "value": None},
        {"op": "test", "path": TOKEN, "value": "before"},
        {"op": "add", "path": LOCK, "value": "value"},
        {"op": "add", "path": TOKEN, "value": "uid"},
    ]


def test_a_lock_is_replaced_only_if_it_is_the_one_that_was_judged() -> None:
    [test, *_] = TokenPatch(None, "uid", LockChange("hami.io/mutex.lock", "value", "orphan")).operations()
    assert test == {"op": "test", "path": LOCK, "value": "orphan"}


def test_where_there_is_no_lock_the_token_is_written_alone() -> None:
    assert TokenPatch("before", "uid", None).operations() == [
        {"op": "test", "path": TOKEN, "value": "before"},
        {"op": "add", "path": TOKEN, "value": "uid"},
    ]


def test_the_map_is_made_if_there_is_none() -> None:
    assert TokenPatch(None, "uid", LockChange("l", "value", None), has_annotations=False).operations() == [
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {"l": "value", "vgpu-scheduler.io/last-allocated": "uid"},
        },
    ]


def test_the_lock_is_released_only_if_it_is_ours() -> None:
    assert release_operations("hami.io/mutex.lock", "value") == [
        {"op": "test", "path": LOCK, "value": "value"},
        {"op": "remove", "path": LOCK},
    ]


def test_the_binding_carries_everything_and_names_the_pod_by_uid_and_version() -> None:
    assert binding_body(pod("p"), "node-1", {"a": "b"}, {"l": "node-1"}) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "uid-p",
            "resourceVersion": "1",
            "annotations": {"a": "b"},
            "labels": {"l": "node-1"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


@pytest.mark.parametrize(
    ("node", "kept"),
    [
        ("a", True),
        ("ip-10-0-0-1.eu-west-1.compute.internal", True),
        ("n" * 63, True),
        ("n" * 64, False),  # a node may be called so, a label value not, and the Binding would poison the pod
        ("node.example.com-", False),
        ("", False),
        ("a\n", False),
    ],
)
def test_a_node_name_that_is_no_label_value_gets_no_label(node: str, *, kept: bool) -> None:
    labels = binding_body(pod("p"), node, {}, {"hami.io/vgpu-node": node})["metadata"]["labels"]
    assert labels == ({"hami.io/vgpu-node": node} if kept else {})


def test_the_record_of_a_decision_is_short() -> None:
    parts = (ScorePart("hami", 1 / 3, 10 / 9, 2, 2 / 3),)
    decision = Decision(
        "uid",
        "default/p",
        Outcome.PLACED,
        placement=Placement("a"),
        score=2 / 3,
        scores={"a": parts, "b": ()},
        nodes=5,
        sources={"nodes": ("pod",)},
    )
    assert json.loads(decision_record(decision)) == {
        "score": 0.6667,
        "scores": {"hami": {"raw": 0.3333, "normalised": 1.1111, "weight": 2}},
        "nodes": 5,
        "policy": {"nodes": "pod"},
    }


AMOUNTS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e4, 1e4)


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.text(max_size=4))
def test_the_record_is_written_as_the_standard_library_does(score: float, raw: float, points: float, of: str) -> None:
    parts = (ScorePart("hami", raw, points, 1, 0.0), ScorePart("binpack", points, raw, 2, 0.0))
    decision = Decision("uid", "default/p", Outcome.PLACED, score=score, scores={"": parts}, sources={"nodes": (of,)})
    scores = {
        part.scorer: {"raw": round(part.raw, 4), "normalised": round(part.normalised, 4), "weight": part.weight}
        for part in parts
    }
    record = {"score": round(score, 4), "scores": scores, "nodes": 0, "policy": {"nodes": of}}
    assert decision_record(decision) == json.dumps(record, separators=(",", ":"), sort_keys=True)


def test_the_condition() -> None:
    condition = not_scheduled_condition("Unschedulable", "why", NOW)
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "why",
        "lastProbeTime": None,
    }
    assert condition == {**said, "lastTransitionTime": "2026-03-04T03:06:07Z"}
    # A condition that was false already keeps its time, and says of which generation it is where that is known.
    assert not_scheduled_condition("Unschedulable", "why", None, 3) == {**said, "observedGeneration": 3}


SOURCE = EventSource("vgpu-scheduler", "host_1")


def told(note: str = "done", about: Regarding = ABOUT, count: int = 1) -> Occurrences:
    return Occurrences(Event(about, "Normal", EventReason.SCHEDULED, "Binding", note), NOW, LATER, count)


def note(text: str) -> str:
    return str(event_body(SOURCE, told(text))["note"])


@pytest.mark.parametrize("text", ["x" * 1025, "é" * 600, "x" + "é" * 600, "日本" * 400, "🙂" * 300])
def test_long_notes_are_cut_at_1024_bytes_between_characters(text: str) -> None:
    cut = note(text)
    assert cut.endswith(" ...")
    assert 1016 <= len(cut.encode()) <= 1024
    assert text.startswith(cut.removesuffix(" ..."))


@pytest.mark.parametrize("text", ["short", "x" * 1024, "é" * 512])
def test_notes_that_fit_stay_as_they_are(text: str) -> None:
    assert note(text) == text


LINK = " (see https://docs.example.com/runbook.html#failedscheduling)"


@pytest.mark.parametrize(
    ("kind", "room", "linked"),
    [("Warning", len(LINK), True), ("Warning", len(LINK) - 1, False), ("Warning", 0, False), ("Normal", 500, False)],
)
def test_a_warning_links_the_runbook_where_there_is_room(kind: str, room: int, *, linked: bool) -> None:
    source = EventSource("vgpu-scheduler", "host_1", "https://docs.example.com/runbook.html")
    text = "é" + "x" * (1022 - room)
    event = Event(ABOUT, kind, EventReason.FAILED_SCHEDULING, "Scheduling", text)
    assert event_body(source, Occurrences(event, NOW, NOW))["note"] == text + (LINK if linked else "")


def test_the_event() -> None:
    body = event_body(SOURCE, told())
    assert body["eventTime"] == "2026-03-04T03:06:07.000089Z"
    assert body["metadata"]["namespace"] == "default"
    assert body["metadata"]["name"].startswith("p.")
    assert body["regarding"]["uid"] == "uid-p"
    assert (body["type"], body["reason"], body["action"]) == ("Normal", "Scheduled", "Binding")
    assert (body["reportingController"], body["reportingInstance"]) == ("vgpu-scheduler", "host_1")
    assert "series" not in body
    node = event_body(SOURCE, told(about=Regarding("Node", "", "n" * 253, "u")))
    assert len(node["metadata"]["name"]) <= 253
    assert (node["metadata"]["namespace"], node["regarding"]["namespace"]) == ("default", "")


def test_a_series_has_the_name_of_its_first_event() -> None:
    again = told(count=3)
    path, name = event_path(again)
    assert (path, name) == ("/apis/events.k8s.io/v1/namespaces/default/events", event_path(told())[1])
    series = {"count": 3, "lastObservedTime": "2026-03-04T03:07:07.000089Z"}
    assert series_patch(again) == {"series": series}
    assert event_body(SOURCE, again) == {**event_body(SOURCE, told()), "series": series}

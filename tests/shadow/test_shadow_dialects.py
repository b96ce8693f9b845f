"""The replays of what was watched know the cards of every dialect, and all other objects on which decisions depend."""

from __future__ import annotations

from typing import Any

import pytest
from tests.history.dialect_clusters import DIALECTS, at, with_arrivals
from tests.history.recorded import BEGAN, HOUR

from vgpu_scheduler.cli.shadow.following import options_serving
from vgpu_scheduler.engine import SCHEDULER_NAME, Engine, EngineOptions
from vgpu_scheduler.history import Changed, History, Removed
from vgpu_scheduler.reading.view import decoders
from vgpu_scheduler.shadow import ChangeLog, LogEntry, histories, objects_at, one_hour, whole_time
from vgpu_scheduler.whatif import make_dialect

THEIRS = "koord-scheduler"
Object = dict[str, Any]


def options_of(*dialects: str, **more: Any) -> EngineOptions:
    options = EngineOptions([make_dialect(name) for name in dialects], scheduler_names=[SCHEDULER_NAME], **more)
    return options_serving(options, THEIRS)


def history(lines: list[LogEntry], options: EngineOptions, ended: float = BEGAN + HOUR) -> History:
    (found,) = histories(lines, ended, decoders(options), THEIRS)
    return found


def group(api_version: str, version: int = 1) -> Object:
    metadata = {"name": "g", "namespace": "default", "uid": api_version, "resourceVersion": str(version)}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}}


def test_all_kinds_that_an_engine_observes_are_read_from_the_log() -> None:
    options = EngineOptions([make_dialect(name) for name in DIALECTS], system_spread=True, preemption=True)
    assert Engine(options).kinds.keys() <= decoders(options).keys()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_horizons_count_the_cards_of_every_dialect(dialect: str) -> None:
    objects = [obj for obj in with_arrivals(dialect, THEIRS) if not obj["metadata"]["name"].startswith("ended-")]
    *nodes, holder, waits = objects
    lines: list[LogEntry] = []
    log = ChangeLog(lines.append)
    holder["spec"]["schedulerName"] = "default-scheduler"
    for obj in nodes:
        obj["metadata"]["uid"] = f"uid-{obj['kind']}"
    log.begin([holder, *nodes], BEGAN)
    waits["metadata"]["creationTimestamp"] = at(60)
    log.note(waits, gone=False, now=BEGAN + 60)
    options = options_of(dialect)
    for horizon in (whole_time([history(lines, options)], options), one_hour([history(lines, options)], options)):
        assert horizon is not None
        assert horizon.allocated == pytest.approx(1.0)
        assert horizon.would_be_allocated == pytest.approx(1.0)
        assert (horizon.pods, horizon.would_be_placed) == (1, 0)


def test_groups_of_equal_names_in_two_api_groups_are_told_apart() -> None:
    volcano, coscheduling = "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"
    lines: list[LogEntry] = []
    log = ChangeLog(lines.append)
    log.begin([group(volcano), group(coscheduling)], BEGAN)
    log.note(group(volcano), gone=True, now=BEGAN + 60)
    log.note(group(coscheduling, 2), gone=False, now=BEGAN + 90)
    log.note_all([], BEGAN + 120)

    found = history(lines, options_of("volcano"))
    told = [(event.kind, event.at - BEGAN) for event in (*found.first, *found.events) if hasattr(event, "kind")]
    assert told == [
        ("PodGroup.scheduling.volcano.sh", 0.0),
        ("PodGroup.scheduling.x-k8s.io", 0.0),
        ("PodGroup.scheduling.volcano.sh", 60.0),
        ("PodGroup.scheduling.x-k8s.io", 120.0),
    ]
    assert [type(event) for event in (*found.first, *found.events)] == [Changed, Changed, Removed, Removed]
    assert [obj["apiVersion"] for obj in objects_at(lines, BEGAN + 60)] == [coscheduling]
    assert objects_at(lines, BEGAN + 120) == []

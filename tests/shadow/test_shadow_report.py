"""The report says what the record has, to people as to scripts, whatever names and messages say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from vgpu_scheduler.cli.shadow import markdown, page
from vgpu_scheduler.cli.shadow.report import ShadowDocument
from vgpu_scheduler.shadow import (
    Choice,
    ClusterSample,
    Fault,
    Horizon,
    Interval,
    MissedPlacement,
    ObservedPeriod,
    Place,
    PodRecord,
    Record,
    summed_up,
)

START = 1_767_225_600.0
HOSTILE = "<script>alert(1)</script> | `x` & \n## Heading"


def entry(name: str, bound: float | None, place: Place | None, choice: Place | None, **more: float) -> PodRecord:
    placed = None if place is None else bound
    chosen = None if place is None else Choice(choice, "" if choice else HOSTILE)
    return PodRecord(name, f"default/{name}", 0, START, None, placed, place, bound, chosen, **more)


def record() -> Record:
    here, there, other = Place("a", ("GPU-0",)), Place("a", ("GPU-1",)), Place("b", ("GPU-2",))
    pods = [
        entry("same", START + 10, here, here),
        entry("cards", START + 20, here, there),
        entry("node", START + 40, here, other, left=START + 90),
        entry("nowhere", START + 90, here, None),
        entry("waits", None, None, None),
        entry("gone", None, None, None, left=START + 30),
    ]
    samples = [ClusterSample(START, 4, 2, 1.0, 1.0, 3), ClusterSample(START + 60, 4, 1, 3.0, 0.5, 1)]
    faults = [
        Fault("card-over-capacity", "Node a", "GPU-0", HOSTILE, START, START + 80, lasts=False),
        Fault("allocation-unbound", "Pod default/x", "", "short", START + 50, START + 80),
        Fault("lock-stale", "Node b", "lock", "stale", START + 80, START + 80),
    ]
    missed = [
        MissedPlacement("1", "default/waits", START + 10, other),
        MissedPlacement("2", "default/same", START, here, START + 9),
    ]
    watches = [ObservedPeriod(START, START + 60), ObservedPeriod(START + 80, START + 100)]
    return Record(
        "hami-scheduler",
        watches=watches,
        pods={each.uid: each for each in pods},
        missed=missed,
        faults=faults,
        samples=samples,
    )


def test_what_a_record_comes_to() -> None:
    found = summed_up(record(), 60.0)
    assert (found.arrived, found.placed, found.waiting, found.gave_up) == (6, 4, 1, 1)
    assert (found.waited.pods, found.waited.median, found.waited.longest) == (4, 20.0, 90.0)
    choices = found.choices
    assert (choices.compared, choices.same, choices.other_cards, choices.other_node) == (4, 1, 1, 1)
    assert [each.pod for each in choices.nowhere] == ["default/nowhere"]
    assert [each.pod for each in found.missed] == ["default/waits"]
    assert [len(each) for each in (found.over, found.leaked, found.stalled)] == [1, 0, 1]
    assert found.watched == 80.0
    assert found.stand is not None
    assert (found.stand.allocated, found.stand.idle) == (pytest.approx(1.0), pytest.approx(2.0))


def test_each_sample_holds_until_the_next_one_of_its_watch() -> None:
    seen = record()
    seen.samples = [ClusterSample(START, 4, 2, 1.0, 1.0, 3), ClusterSample(START + 90, 4, 1, 3.0, 0.5, 1)]
    found = summed_up(seen, 60.0).stand
    assert found is not None
    assert found.allocated == pytest.approx((60 * 1.0 + 10 * 3.0) / 70, abs=0.01)


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 61, 600])
def test_averages_are_told_of_times_of_a_minute_and_more(seconds: int) -> None:
    seen = record()
    seen.watches = [ObservedPeriod(START, START + seconds)]
    replayed = []

    def replay() -> Horizon:
        replayed.append(HORIZON)
        return HORIZON

    found = ShadowDocument.of(seen, 60.0, [replay], ["Some of it is torn."])
    short = seconds < 60
    assert (not replayed) == short
    assert found.as_json()["horizons"] == ([] if short else [HORIZON.as_json()])
    of_short = ["The time is too short for a replay."] if short else []
    assert found.as_json()["untold"] == [*of_short, "Some of it is torn."]
    assert (found.as_json()["summary"]["stand"] is None) == short
    for text in (markdown.written(found.blocks()), page.written(found.blocks())):
        assert ("which is too short for averages" in text) == short
        assert ("on average" in text) != short
        assert ("too few hours for an interval" in text) != short
        assert ("The time is too short for a replay." in text) == short


@pytest.mark.parametrize("seconds", [30, 60])
def test_where_nothing_came_of_a_replay_it_is_said_why(seconds: int) -> None:
    seen = record()
    seen.watches = [ObservedPeriod(START, START + seconds)]
    (told,) = ShadowDocument.of(seen, 60.0, [lambda: None], ()).as_json()["untold"]
    assert ("No pod arrived or waited" in told) == (seconds >= 60)


def report(horizons: tuple[Horizon, ...] = ()) -> ShadowDocument:
    return ShadowDocument(record(), 60.0, horizons, () if horizons else ("Nothing to replay.",))


def test_intervals_say_how_sure_they_are_and_rows_what_nobody_saw() -> None:
    text = page.written(
        report((Horizon("one hour", 5, 9, 30.0, 10.0, Interval(20.0, 15.0, 25.0), 1.0, 2.0, 4, 5),)).blocks()
    )
    assert "on average (with 90 % interval): one hour" in text
    assert "less, with 90 % interval" in text
    assert "95 %" not in text
    assert "What happened between two looks is not known" in text


def test_a_printed_time_names_a_look() -> None:
    seen = record()
    seen.missed = [MissedPlacement("1", "default/waits", START + 10.1234, Place("a", ("GPU-0",)), START + 99)]
    text = markdown.written(ShadowDocument(seen, 60.0, ()).blocks())
    assert "2026-01-01T00:00:10.124Z" in text  # not before it
    assert "2026-01-01T00:01:20.000Z" in text


HORIZON = Horizon("one hour", 5, 2, 30.0, 10.0, Interval(20.0), 1.0, 2.0, 4, 5)


def test_a_page_shows_text_as_text() -> None:
    text = page.written(report((HORIZON,)).blocks())
    assert "<script" not in text
    tree = ET.fromstring(re.sub(r"<(meta[^>]*)>", r"<\1/>", text.removeprefix("<!doctype html>\n")))
    assert len(list(tree.iter("svg"))) == 2
    assert "http" not in text  # it needs nothing beside itself
    assert "too few hours for an interval: 2" in text


def test_tables_of_markdown_are_whole_whatever_is_in_them() -> None:
    text = markdown.written(report().blocks())
    assert text.startswith("# Beside hami-scheduler\n")
    assert "\n## Heading" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    heads = [at for at, row in enumerate(rows) if set(row) <= set("|-")]
    for at, end in zip(heads, [*(each - 1 for each in heads[1:]), len(rows)], strict=True):
        assert set(widths[at - 1 : end]) == {widths[at]}
    assert "20 s of which were not watched" in text
    assert "Nothing to replay." in text


@pytest.mark.parametrize("write", [markdown.written, page.written])
def test_there_is_a_report_before_anything_has_happened(write: object) -> None:
    nothing = ShadowDocument(Record("x", watches=[ObservedPeriod(START, START)]), 60.0)
    assert callable(write)
    text = write(nothing.blocks())
    assert "None for 60 s or more." in text
    assert "wait of bound pods" not in text
    assert nothing.as_json()["summary"]["arrived"] == 0

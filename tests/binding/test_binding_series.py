"""Which events are written: repetitions are counted, and nobody gets more than client-go would write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu_scheduler.binding.reports import Event, EventSeries, Occurrences, Regarding

DAWN = datetime(2026, 1, 1, tzinfo=UTC)


def event(note: str = "note", name: str = "p", **more: str) -> Event:
    words = {"type": "Warning", "reason": "Reason", "action": "Action", **more}
    return Event(Regarding("Pod", "default", name, f"uid-{name}"), note=note, **words)


def happened(series: EventSeries, what: Event, now: float) -> Occurrences | None:
    return series.happened(what, now, DAWN + timedelta(seconds=now))


def counts(series: EventSeries, what: Event, *times: float) -> list[int]:
    """Return what is written at each time: the count, 0 for nothing."""
    written = [happened(series, what, now) for now in times]
    return [told.count if told else 0 for told in written]


def test_the_first_repetition_is_written_and_the_others_are_counted() -> None:
    series = EventSeries()
    assert counts(series, event(), 0.0, 10.0, 20.0, 30.0) == [1, 2, 0, 0]
    assert series.finished(30.0 + 359.0) == []
    [told] = series.finished(30.0 + 360.0)
    assert (told.count, told.first, told.last) == (4, DAWN, DAWN + timedelta(seconds=30))
    assert series.finished(1000.0) == []


def test_what_is_written_already_is_not_written_at_the_end() -> None:
    series = EventSeries()
    counts(series, event(), 0.0, 10.0)
    counts(series, event("once"), 0.0)
    assert series.finished(1000.0) == []


def test_after_six_minutes_it_is_another_event_even_if_nobody_looked() -> None:
    assert counts(EventSeries(), event(), 0.0, 359.0, 718.0, 1078.0) == [1, 2, 0, 1]


def test_a_series_that_goes_on_is_written_every_half_hour() -> None:
    times = [300.0 * number for number in range(14)]
    assert counts(EventSeries(), event(), *times) == [1, 2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 14]


def test_every_word_of_an_event_makes_a_difference() -> None:
    series = EventSeries()
    others = [event("other"), event(name="q"), *(event(**{word: "other"}) for word in ("type", "reason", "action"))]
    assert [counts(series, each, 0.0) for each in (event(), *others)] == [[1]] * 6


def test_repetitions_that_are_only_counted_cost_no_share() -> None:
    series = EventSeries()
    counts(series, event(), *(float(number) for number in range(100)))
    assert series.limited == 0
    assert [counts(series, event(f"{number}"), 100.0) for number in range(24)] == [[1]] * 23 + [[0]]


def test_what_an_object_has_too_many_of_is_new_when_there_is_room_again() -> None:
    series = EventSeries()
    for number in range(25):
        assert counts(series, event(f"{number}"), 0.0) == [1]
    assert counts(series, event("late"), 0.0, 299.0, 301.0) == [0, 0, 1]
    assert counts(series, event("normal", type="Normal"), 0.0) == [1]  # good news have a share of their own


def test_what_is_remembered_is_bounded() -> None:
    series = EventSeries()
    for number in range(6000):
        assert counts(series, event("x" * 1000, name=f"p{number}"), 0.0) == [1]
    assert counts(series, event("x" * 1000, name="p5999"), 1.0) == [2]
    assert counts(series, event("x" * 1000, name="p0"), 1.0) == [1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400)), max_size=60))
def test_no_occurrence_is_lost_unless_the_share_is_used_up(moves: list[tuple[str, int]]) -> None:
    series, now = EventSeries(), 0.0
    told: dict[tuple[str, datetime], int] = {}
    for note, pause in moves:
        now += pause
        written = [*series.finished(now), happened(series, event(note, name=note), now)]
        told |= {(one.event.note, one.first): one.count for one in written if one}
    told |= {(one.event.note, one.first): one.count for one in series.finished(now + 400.0)}
    if not series.limited:
        assert sum(told.values()) == len(moves)

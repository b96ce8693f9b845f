"""Join the files of a log into one history; across a gap, differences between states become events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import TypeGuard

from vgpu_scheduler.history.encoding import title_of
from vgpu_scheduler.history.events import (
    Arrived,
    Changed,
    Decided,
    Departed,
    History,
    HistoryEvent,
    MissedEvents,
    Removed,
    Withdrawn,
)
from vgpu_scheduler.history.log import LogSegment
from vgpu_scheduler.history.objects_at_time import ObjectsAtTime
from vgpu_scheduler.kube import Pod


def _differences(
    there: ObjectsAtTime, first: Sequence[HistoryEvent], decided: Set[str], at: float
) -> Iterator[HistoryEvent]:
    """Yield the events that turn one state into the initial state of a file.

    Parameters
    ----------
    decided
        The UIDs of pods that are about to be bound.
    """
    pods = {_pod(event).uid for event in first if _is_of_pod(event)}
    for uid in [uid for uid in there.pods if uid not in pods]:
        yield Departed(at, uid)
    keys = {(each.kind, title_of(each.value)) for each in first if isinstance(each, Changed)}
    for (kind, title), known in list(there.objects.items()):
        if (kind, title) not in keys:
            yield Removed(at, kind, known.value)
    for event in first:
        if _is_of_pod(event):
            yield from _difference_of_pod(there, event, _pod(event), decided, at)
        elif isinstance(event, Changed):
            before = there.objects.get((event.kind, title_of(event.value)))
            if before is None or (before.value.uid, before.value.resource_version) != (
                event.value.uid,
                event.value.resource_version,
            ):
                yield event


def _difference_of_pod(
    there: ObjectsAtTime, event: HistoryEvent, pod: Pod, decided: Set[str], at: float
) -> Iterator[HistoryEvent]:
    before = there.pods.get(pod.uid)
    if before is None:
        yield event
    elif pod.node_name and before.node_name != pod.node_name:
        yield Decided(at, pod.uid, pod.node_name, pod.annotations)
    elif before.node_name and not pod.node_name and pod.uid not in decided:
        yield Withdrawn(at, pod.uid)


def _is_of_pod(event: HistoryEvent) -> bool:
    return isinstance(event, Arrived) or (isinstance(event, Changed) and isinstance(event.value, Pod))


def _pod(event: HistoryEvent) -> Pod:
    found = event.pod if isinstance(event, Arrived) else getattr(event, "value", None)
    assert isinstance(found, Pod)
    return found


def joined(segments: Sequence[LogSegment]) -> tuple[History, list[str]]:
    """Return the history of all files of a log, and sentences about problems.

    Parameters
    ----------
    segments
        The contents of the files; at least one, in any order.

    Returns
    -------
    history : History
        The history from the beginning of the first file to the end of the last.
    problems : list of str
        Problems of files, and gaps between them, a sentence each.
    """
    segments = sorted(segments, key=lambda segment: (segment.header.began, segment.header.run, segment.header.number))
    problems = [segment.problem for segment in segments if segment.problem]
    there, events = ObjectsAtTime(), list[HistoryEvent]()
    first = segments[0]
    for event in (*first.first, *first.events):
        there.take(event)
    events += first.events
    for before, segment in pairwise(segments):
        news: list[HistoryEvent] = []
        if not _goes_on(before, segment):
            gap = segment.header.began - before.ended
            why = f"between {before.path.name} and {segment.path.name}"
            problems.append(
                f"{why} nothing was written for {gap:.0f} s: what changed meanwhile is assumed to have changed "
                "at the end"
            )
            at = segment.header.began
            decided = {event.uid for event in segment.events if isinstance(event, Decided) and event.at <= at}
            news = [MissedEvents(at, 0, why), *_differences(there, segment.first, decided, at)]
        for event in (*news, *segment.events):
            if _is_repeated(event, segment) and _is_on(there, event):
                continue  # each file repeats, at its beginning, the decisions that are not carried out yet
            there.take(event)
            events.append(event)
    problems += [_missed_events_message(event) for event in events if isinstance(event, MissedEvents) and event.events]
    began, ended = first.header.began, max(segment.ended for segment in segments)
    beginning = tuple(event for event in first.first if isinstance(event, Arrived | Changed))
    return History(began, ended, beginning, tuple(events)), problems


def _is_repeated(event: HistoryEvent, segment: LogSegment) -> TypeGuard[Decided]:
    """Tell whether an event is a decision at the beginning of a file that an earlier file may have, too."""
    return isinstance(event, Decided) and bool(event.node) and event.at <= segment.header.began


def _is_on(there: ObjectsAtTime, decided: Decided) -> bool:
    pod = there.pods.get(decided.uid)
    return pod is not None and pod.node_name == decided.node


def _goes_on(before: LogSegment, segment: LogSegment) -> bool:
    one, other = before.header, segment.header
    return one.run == other.run and one.number + 1 == other.number and not before.problem


def _missed_events_message(missed: MissedEvents) -> str:
    return f"{missed.events} events are missing: {missed.why}"

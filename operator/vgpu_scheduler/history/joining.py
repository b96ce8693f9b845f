"""The files of a log become one history: where one does not go on where the one before ended, what differs happened."""

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
    Event,
    History,
    MissedEvents,
    Removed,
    Withdrawn,
)
from vgpu_scheduler.history.log import LogSegment
from vgpu_scheduler.history.objects_at_time import ObjectsAtTime
from vgpu_scheduler.kube import Pod

__all__ = ["joined"]


def _differences(there: ObjectsAtTime, first: Sequence[Event], decided: Set[str], at: float) -> Iterator[Event]:
    """Yield what must have happened if this is what is there now.

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


def _difference_of_pod(there: ObjectsAtTime, event: Event, pod: Pod, decided: Set[str], at: float) -> Iterator[Event]:
    before = there.pods.get(pod.uid)
    if before is None:
        yield event
    elif pod.node_name and before.node_name != pod.node_name:
        yield Decided(at, pod.uid, pod.node_name, pod.annotations)
    elif before.node_name and not pod.node_name and pod.uid not in decided:
        yield Withdrawn(at, pod.uid)


def _is_of_pod(event: Event) -> bool:
    return isinstance(event, Arrived) or (isinstance(event, Changed) and isinstance(event.value, Pod))


def _pod(event: Event) -> Pod:
    found = event.pod if isinstance(event, Arrived) else getattr(event, "value", None)
    assert isinstance(found, Pod)
    return found


def joined(parts: Sequence[LogSegment]) -> tuple[History, list[str]]:
    """Return what all parts of a log say, and what is to be said of them.

    Parameters
    ----------
    parts
        At least one, in any order.

    Returns
    -------
    history : History
        From the beginning of the first to the end of the last.
    problems : list of str
        What is wrong with files, and what lacks between them, a sentence each.
    """
    parts = sorted(parts, key=lambda part: (part.header.began, part.header.run, part.header.number))
    problems = [part.problem for part in parts if part.problem]
    there, events = ObjectsAtTime(), list[Event]()
    first = parts[0]
    for event in (*first.first, *first.events):
        there.take(event)
    events += first.events
    for before, part in pairwise(parts):
        news: list[Event] = []
        if not _goes_on(before, part):
            gap = part.header.began - before.ended
            why = f"between {before.path.name} and {part.path.name}"
            problems.append(
                f"{why} nothing was written for {gap:.0f} s: what differs then is taken to happen at the end"
            )
            at = part.header.began
            decided = {event.uid for event in part.events if isinstance(event, Decided) and event.at <= at}
            news = [MissedEvents(at, 0, why), *_differences(there, part.first, decided, at)]
        for event in (*news, *part.events):
            if _is_repeated(event, part) and _is_on(there, event):
                continue  # each file begins with the decisions that were not carried out yet
            there.take(event)
            events.append(event)
    problems += [_told(event) for event in events if isinstance(event, MissedEvents) and event.events]
    began, ended = first.header.began, max(part.ended for part in parts)
    beginning = tuple(event for event in first.first if isinstance(event, Arrived | Changed))
    return History(began, ended, beginning, tuple(events)), problems


def _is_repeated(event: Event, part: LogSegment) -> TypeGuard[Decided]:
    """Tell whether a file begins with a decision that an older one may have."""
    return isinstance(event, Decided) and bool(event.node) and event.at <= part.header.began


def _is_on(there: ObjectsAtTime, decided: Decided) -> bool:
    pod = there.pods.get(decided.uid)
    return pod is not None and pod.node_name == decided.node


def _goes_on(before: LogSegment, part: LogSegment) -> bool:
    one, other = before.header, part.header
    return one.run == other.run and one.number + 1 == other.number and not before.problem


def _told(missed: MissedEvents) -> str:
    return f"{missed.events} events are missing: {missed.why}"

"""Recent events: from times in objects, and as observed since the page is served."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from vgpu_scheduler.kube import bound_at, ended_at, parse_time
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import World, card_name

LATELY: Final = timedelta(hours=1)
_MOST_SEEN: Final = 5000
"""The most observed events to remember."""


class RecentEventKind(StrEnum):
    """The kinds of recent events."""

    BOUND = "bound"
    """A pod was bound."""
    ENDED = "ended"
    """A bound pod ended or was deleted."""
    UNHEALTHY = "unhealthy"
    """A card became unhealthy."""
    CAME = "came"
    """A node was added."""
    WENT = "went"
    """A node was removed."""


_OF_PODS: Final = frozenset({RecentEventKind.BOUND, RecentEventKind.ENDED})


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """A recent event.

    Attributes
    ----------
    name
        ``namespace/name`` of a pod, or the name of a node or card.
    node
        The node of the pod or card; empty for nodes.
    """

    at: datetime
    what: RecentEventKind
    name: str
    node: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the event as plain values."""
        at = self.at.isoformat(timespec="seconds")
        return {"at": at, "what": self.what.value, "name": self.name, "node": self.node}


@dataclass(frozen=True, slots=True)
class LastHour:
    """The events of the last hour.

    Attributes
    ----------
    since
        Since when events that leave no trace in objects are observed: pods and nodes deleted, cards turned unhealthy;
        None if they are not observed.
    happened
        The events, newest first.
    """

    since: datetime | None
    happened: tuple[RecentEvent, ...]

    def seen_by(self, visibility: Visibility) -> LastHour:
        """Return the part that a visitor sees: all events of nodes and cards, and those of visible pods."""
        if visibility.is_whole:
            return self
        seen = (each for each in self.happened if each.what not in _OF_PODS or visibility.sees_pod(each.name))
        return replace(self, happened=tuple(seen))

    def count(self, what: str) -> int:
        """Return how many events of a kind there were."""
        return sum(each.what == what for each in self.happened)

    def as_json(self) -> dict[str, Any]:
        """Return the events as plain values."""
        since = None if self.since is None else self.since.isoformat(timespec="seconds")
        return {"since": since, "happened": [each.as_json() for each in self.happened]}


class RecentEvents:
    """Observes and remembers events.

    Parameters
    ----------
    world
        The initial world.
    since
        The time of day at the start; None for a world that does not change.
    """

    def __init__(self, world: World, since: datetime | None) -> None:
        self._since = since
        self._held = {key: held for key in world.pods if (held := _held(world, key)) is not None}
        self._of_pods = {key: told for key in world.pods if (told := _events_of_pod(world, key))}
        self._of_nodes = {name: told for name in world.nodes if (told := _events_of_node(world, name))}
        self._nodes = set(world.nodes)
        self._sick = _unhealthy(world)
        self._seen: deque[RecentEvent] = deque(maxlen=_MOST_SEEN)

    def note(self, world: World, pods: Iterable[str], nodes: Iterable[str], now: datetime) -> None:
        """Note what changed for some pods and nodes."""
        for key in pods:
            _put(self._of_pods, key, _events_of_pod(world, key))
            before, after = self._held.pop(key, None), _held(world, key)
            if after is not None:
                self._held[key] = after
            if before is not None and before != after:
                self._seen.append(RecentEvent(now, RecentEventKind.ENDED, key, before[1]))
            if after is not None and before != after:
                self._seen.append(RecentEvent(now, RecentEventKind.BOUND, key, after[1]))
        for name in nodes:
            _put(self._of_nodes, name, _events_of_node(world, name))
            if (name in self._nodes) != (name in world.nodes):
                self._seen.append(
                    RecentEvent(now, RecentEventKind.CAME if name in world.nodes else RecentEventKind.WENT, name)
                )
                self._nodes ^= {name}

    def note_all(self, world: World, now: datetime) -> None:
        """Note what changed for everything, also if the world is a new one."""
        pods, nodes = {*self._held, *self._of_pods, *world.pods}, {*self._nodes, *self._of_nodes, *world.nodes}
        self.note(world, pods, nodes, now)
        before, self._sick = self._sick, _unhealthy(world)
        new = sorted(self._sick - before)
        self._seen += (RecentEvent(now, RecentEventKind.UNHEALTHY, card, node) for node, card in new)

    def lately(self, now: datetime | None) -> LastHour:
        """Return the events of the last hour."""
        if now is None:
            return LastHour(self._since, ())
        first = now - LATELY
        objects = chain(self._of_pods.values(), self._of_nodes.values())
        told = [each for events in objects for each in events if each.at >= first]
        known = {(each.what, each.name) for each in told}
        seen = [each for each in self._seen if each.at >= first and (each.what, each.name) not in known]
        return LastHour(self._since, tuple(sorted([*told, *seen], key=lambda each: each.at, reverse=True)))


def _held(world: World, key: str) -> tuple[str, str] | None:
    """Return UID and node of a pod that holds card shares, or was placed by this scheduler; None otherwise."""
    pod = world.pods.get(key)
    if pod is None or pod.terminal or not pod.node_name or not world.is_relevant(pod):
        return None
    return pod.uid, pod.node_name


def _unhealthy(world: World) -> set[tuple[str, str]]:
    return {
        (node, card_name(device.vendor, device.uuid))
        for node, _, device in world.listed_devices()
        if not device.healthy and not device.part
    }


def _put(told: dict[str, tuple[RecentEvent, ...]], name: str, events: tuple[RecentEvent, ...]) -> None:
    if events:
        told[name] = events
    else:
        told.pop(name, None)


def _events_of_pod(world: World, key: str) -> tuple[RecentEvent, ...]:
    """Return the events in a pod's status, whatever their age; cached, so that times are parsed only once."""
    pod = world.pods.get(key)
    if pod is None or not pod.node_name or not world.is_relevant(pod):
        return ()
    status = world.written(pod).get("status")
    times = {
        RecentEventKind.BOUND: bound_at(status),
        RecentEventKind.ENDED: ended_at(status) if pod.terminal else None,
    }
    return tuple(RecentEvent(at, what, key, pod.node_name) for what, at in times.items() if at is not None)


def _events_of_node(world: World, name: str) -> tuple[RecentEvent, ...]:
    at = parse_time((world.nodes.get(name, {}).get("metadata") or {}).get("creationTimestamp"))
    return () if at is None else (RecentEvent(at, RecentEventKind.CAME, name),)

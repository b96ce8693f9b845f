"""What happened to a cluster, as values in the order of time: what a log holds, and what can be replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.kube import Pod, Versioned

__all__ = [
    "Arrived",
    "Changed",
    "Decided",
    "Departed",
    "Event",
    "History",
    "MissedEvents",
    "PodLifetime",
    "Removed",
    "Withdrawn",
]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A pod waits from now on to be placed by those whose history this is.

    Attributes
    ----------
    at
        Seconds since the epoch, as in all events.
    pod
        The pod before anybody has placed it.
    """

    at: float
    pod: Pod


@dataclass(frozen=True, slots=True)
class Departed:
    """A pod has run to its end or is gone, whether it was placed or not."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class Changed:
    """An object came or is another one now: a node, a policy, a quota; a waiting pod, or one of another scheduler.

    Attributes
    ----------
    kind
        The kind of the object in Kubernetes; the key of ``Engine.kinds``.
    value
        The object as the engine takes it in.
    """

    at: float
    kind: str
    value: Versioned


@dataclass(frozen=True, slots=True)
class Removed:
    """An object is gone; pods depart instead.

    Attributes
    ----------
    value
        Its last state.
    """

    at: float
    kind: str
    value: Versioned


@dataclass(frozen=True, slots=True)
class Decided:
    """A pod was given a place, or others had to end for it.

    Attributes
    ----------
    node
        Where it was placed; empty where it was not.
    annotations
        What was written on the pod for the node side.
    by
        Who decided: the name of the scheduler.
    evicted
        The UIDs of the pods that had to end for it.
    """

    at: float
    uid: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A pod waits again: what was decided of it was not carried out."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """Here something was not written down.

    Attributes
    ----------
    events
        How many events are missing; 0 where nobody has counted them.
    why
        The cause, a part of a sentence.
    """

    at: float
    events: int
    why: str


Event = Arrived | Departed | Changed | Removed | Decided | Withdrawn | MissedEvents


@dataclass(frozen=True, slots=True)
class History:
    """What happened to a cluster.

    Attributes
    ----------
    began, ended
        From when to when everything is known that happened, in seconds since the epoch.
    first
        What was there in the beginning. Pods that are bound there stay where they are until they depart.
    events
        What happened then, in the order in which it was seen.
    """

    began: float
    ended: float
    first: tuple[Changed | Arrived, ...]
    events: tuple[Event, ...]

    @property
    def arrived(self) -> Iterator[Arrived]:
        """The arrivals, in order."""
        return (event for event in self.events if isinstance(event, Arrived))

    @property
    def decided(self) -> Iterator[Decided]:
        """The decisions, in order."""
        return (event for event in self.events if isinstance(event, Decided))

    @property
    def missed(self) -> Iterator[MissedEvents]:
        """The gaps, in order."""
        return (event for event in self.events if isinstance(event, MissedEvents))

    def stays(self) -> dict[str, PodLifetime]:
        """Return when each pod was placed, and when it departed, by UID."""
        placed: dict[str, float] = {}
        evicted: set[str] = set()
        departed: dict[str, float] = {}
        for event in self.events:
            if isinstance(event, Decided):
                evicted.update(event.evicted)
                if event.node:
                    placed[event.uid] = event.at
            elif isinstance(event, Withdrawn):
                placed.pop(event.uid, None)
            elif isinstance(event, Departed):
                departed.setdefault(event.uid, event.at)
        return {
            uid: PodLifetime(placed.get(uid), departed.get(uid), evicted=uid in evicted)
            for uid in {**placed, **departed}
        }


@dataclass(frozen=True, slots=True)
class PodLifetime:
    """How long a pod was there.

    Attributes
    ----------
    placed, departed
        When it was placed and when it departed; None if that did not happen, or not within the history.
    evicted
        Whether it had to end for another one.
    """

    placed: float | None = None
    departed: float | None = None
    evicted: bool = False

    def ends(self, placed: float) -> float | None:
        """Return when it departs if it is placed at another time; None if it stays to the end of the history.

        One that was placed stays as long as it did; one that was not departs when it did, for it gave up by then.
        """
        if self.departed is None:
            return None
        return self.departed if self.placed is None else self.departed + (placed - self.placed)

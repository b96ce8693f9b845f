"""The events of a cluster's history, in order of time: the content of logs, and the input of replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.kube import Pod, Versioned


@dataclass(frozen=True, slots=True)
class Arrived:
    """A pod of this scheduler starts to wait for placement.

    Attributes
    ----------
    at
        Seconds since the epoch, as in all events.
    pod
        The pod without a placement.
    """

    at: float
    pod: Pod


@dataclass(frozen=True, slots=True)
class Departed:
    """A pod ended or was deleted, whether it was placed or not."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or changed: any object but a pod, a waiting pod, or a pod of another scheduler.

    Attributes
    ----------
    kind
        The Kubernetes kind of the object, which is a key of ``Engine.kinds``.
    value
        The object as the engine observes it.
    """

    at: float
    kind: str
    value: Versioned


@dataclass(frozen=True, slots=True)
class Removed:
    """An object other than a pod was deleted; for pods see :class:`Departed`.

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
    """A pod was placed, or preempts others.

    Attributes
    ----------
    node
        The node of the placement; empty without one.
    annotations
        The annotations written on the pod for the node side.
    by
        The name of the scheduler that decided.
    evicted
        The UIDs of its victims.
    """

    at: float
    uid: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A decision about a pod was not carried out: the pod waits again."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """Some events were not recorded here.

    Attributes
    ----------
    events
        The number of missing events; 0 if unknown.
    why
        The cause, as part of a sentence.
    """

    at: float
    events: int
    why: str


HistoryEvent = Arrived | Departed | Changed | Removed | Decided | Withdrawn | MissedEvents


@dataclass(frozen=True, slots=True)
class History:
    """The history of a cluster.

    Attributes
    ----------
    began, ended
        The period in which all events are known, in seconds since the epoch.
    first
        The initial state. Pods that are bound in it stay where they are until they depart.
    events
        The events of the period, in order of observation.
    """

    began: float
    ended: float
    first: tuple[Changed | Arrived, ...]
    events: tuple[HistoryEvent, ...]

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

    def pod_lifetimes(self) -> dict[str, PodLifetime]:
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
    """When a pod was placed and departed.

    Attributes
    ----------
    placed, departed
        The times of its placement and departure; None if not within the history.
    evicted
        Whether it was preempted.
    """

    placed: float | None = None
    departed: float | None = None
    evicted: bool = False

    def ends(self, placed: float) -> float | None:
        """Return when the pod departs if it is placed at another time; None if it stays to the end of the history.

        A pod that was placed runs as long as it did; any other departs when it did, since it gave up by then.
        """
        if self.departed is None:
            return None
        return self.departed if self.placed is None else self.departed + (placed - self.placed)

"""The observations about another scheduler, and this scheduler's choices, as values that can be stored in a file.

Times are seconds since the epoch.
"""

from __future__ import annotations

import sys
from typing import Final

import msgspec

VERSION: Final = 2
"""The version of the file format; files of another version are not read."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A node and the UUIDs of its cards, sorted.

    Equal strings are interned to save memory, also in records read from a file.
    """

    node: str
    cards: tuple[str, ...]

    def __post_init__(self) -> None:
        """Intern the strings."""
        msgspec.structs.force_setattr(self, "node", sys.intern(self.node))
        msgspec.structs.force_setattr(self, "cards", tuple(map(sys.intern, self.cards)))

    def __str__(self) -> str:
        """Format for people."""
        return f"{self.node} ({', '.join(self.cards)})" if self.cards else self.node


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The choice of this scheduler for one pod, in the cluster as the other scheduler saw it.

    Attributes
    ----------
    place
        The chosen place; None if there is none.
    reason
        Why there is none; empty if there is a place.
    """

    place: Place | None
    reason: str = ""


class PodRecord(msgspec.Struct, gc=False):
    """The observed lifetime of one pod.

    Attributes
    ----------
    uid, pod
        The pod's UID, and its namespace and name.
    arrived
        When it became schedulable: created, and without scheduling gates.
    fitted
        When this scheduler would first have had room for it, after the pods ahead of it; None if never.
    placed, place
        When the other scheduler placed it, and where; None if it has not, or has withdrawn the placement.
    bound
        When it was bound, which may be after its placement; None if never.
    choice
        This scheduler's choice at the moment of its placement; None if that moment was not observed.
    left
        When it ended or was deleted; None while it exists.
    unseen
        Whether it was bound, or deleted, at an unknown time between watches.
    """

    uid: str
    pod: str
    priority: int
    arrived: float
    fitted: float | None = None
    placed: float | None = None
    place: Place | None = None
    bound: float | None = None
    choice: Choice | None = None
    left: float | None = None
    unseen: bool = False

    def waited(self, now: float) -> float:
        """Return for how many seconds it waited, up to now if it still waits."""
        ends = [time for time in (self.bound, self.left) if time is not None]
        return max(min(ends, default=now) - self.arrived, 0.0)

    @property
    def differs(self) -> bool:
        """Whether this scheduler would have placed it elsewhere, or nowhere."""
        return self.choice is not None and self.choice.place != self.place


class MissedPlacement(msgspec.Struct, gc=False):
    """A period in which a pod waited although it would have fitted.

    Attributes
    ----------
    since, until
        The first look at which it would have fitted, and the first at which it would not; None while it lasts.
    place
        Where it would have fitted at first, together with the other fitting pods in queue order.
    """

    uid: str
    pod: str
    since: float
    place: Place
    until: float | None = None

    def lasted(self, now: float) -> float:
        """Return for how many seconds it lasted, up to now if it still lasts."""
        return (now if self.until is None else self.until) - self.since


class Fault(msgspec.Struct, gc=False):
    """A fault in allocations or locks, as the doctor reports it.

    Attributes
    ----------
    id
        The doctor's id of the diagnosis.
    object, about
        The object, and its card or annotation.
    message
        The last message about it.
    since, seen
        When it was first and last observed.
    lasts
        Whether the last audit found it.
    """

    id: str
    object: str
    about: str
    message: str
    since: float
    seen: float
    lasts: bool = True


class ClusterSample(msgspec.Struct, frozen=True, gc=False):
    """The state of a cluster at one time.

    Attributes
    ----------
    cards, idle
        The number of cards in service, and of unused ones among them.
    allocated
        The allocated amount, in cards.
    stranded_free
        The free amount on partly used cards, in cards.
    waiting
        The number of pods that wait for cards.
    """

    at: float
    cards: float
    idle: float
    allocated: float
    stranded_free: float
    waiting: int


class ObservedPeriod(msgspec.Struct, gc=False):
    """A period in which the cluster was watched, from the first look to the last one."""

    since: float
    until: float


class Record(msgspec.Struct, rename={"other_scheduler": "beside"}):
    """All observations.

    Attributes
    ----------
    other_scheduler
        The name of the watched scheduler.
    under
        The source of the settings and policies for this scheduler's choices, for people.
    watches
        The periods of watching, in order.
    pods
        The watched scheduler's pods with card requests that arrived or waited during a watch, by UID.
    """

    other_scheduler: str
    version: int = VERSION
    under: str = ""
    watches: list[ObservedPeriod] = []
    pods: dict[str, PodRecord] = {}
    missed: list[MissedPlacement] = []
    faults: list[Fault] = []
    samples: list[ClusterSample] = []

    @property
    def until(self) -> float:
        """The time of the last look; 0 before the first one."""
        return self.watches[-1].until if self.watches else 0.0

    @property
    def watched(self) -> float:
        """The watched time in seconds."""
        return sum(watch.until - watch.since for watch in self.watches)

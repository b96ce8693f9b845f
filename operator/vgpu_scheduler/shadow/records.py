"""What was seen of a scheduler's work, and what this one would have done, as values that a file can hold.

Times are seconds since the epoch.
"""

from __future__ import annotations

import sys
from typing import Final

import msgspec

VERSION: Final = 1
"""Of the files that hold records; those of another one are not read."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A node, and cards of it by UUID, in the order of their names.

    Each name is held once, however many places have it, also of a record that is read from a file.
    """

    node: str
    cards: tuple[str, ...]

    def __post_init__(self) -> None:
        """Share the names with other places."""
        msgspec.structs.force_setattr(self, "node", sys.intern(self.node))
        msgspec.structs.force_setattr(self, "cards", tuple(map(sys.intern, self.cards)))

    def __str__(self) -> str:
        """Word it."""
        return f"{self.node} ({', '.join(self.cards)})" if self.cards else self.node


class Choice(msgspec.Struct, frozen=True, gc=False):
    """What this scheduler would have done with one pod, on the cluster that the other one saw.

    Attributes
    ----------
    place
        Where it would have put the pod; None if nowhere.
    reason
        Why nowhere; empty where there is a place.
    """

    place: Place | None
    reason: str = ""


class PodRecord(msgspec.Struct, gc=False):
    """What became of a pod.

    Attributes
    ----------
    uid, pod
        Which: its UID, and its namespace and name.
    arrived
        When it could be placed: it was there, and no gate held it back.
    fitted
        When this scheduler would first have had room for it, beside the pods that come before it; None if never.
    placed, place
        When the other scheduler decided it, and where; None while it has not, or has taken that back.
    bound
        When it was bound, which may be later, or never.
    choice
        What this scheduler would have chosen in that moment; None where nobody could look.
    left
        When it ended, or was gone; None while it is there.
    unseen
        Whether it was bound, or went, while nobody watched, and nothing tells when.
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
        """Return for how many seconds it has waited, up to now if it waits still."""
        ends = [time for time in (self.bound, self.left) if time is not None]
        return max(min(ends, default=now) - self.arrived, 0.0)

    @property
    def differs(self) -> bool:
        """Whether this scheduler would have put it elsewhere, or nowhere."""
        return self.choice is not None and self.choice.place != self.place


class MissedPlacement(msgspec.Struct, gc=False):
    """A time in which a pod waited although it would have fitted.

    Attributes
    ----------
    since, until
        From the first look that found it so to the first that did not; ``until`` is None while it lasts.
    place
        Where it would have fitted at first, beside the other pods that would have, each in its turn.
    """

    uid: str
    pod: str
    since: float
    place: Place
    until: float | None = None

    def lasted(self, now: float) -> float:
        """Return for how many seconds it lasted, up to now if it lasts still."""
        return (now if self.until is None else self.until) - self.since


class Fault(msgspec.Struct, gc=False):
    """Something that was wrong in the books or with a lock, as the doctor tells it.

    Attributes
    ----------
    id
        The doctor's name for it.
    object, about
        The object, and the card or annotation of it.
    message
        What was wrong when it was last seen.
    since, seen
        When it was first seen, and last.
    lasts
        Whether the last look saw it.
    """

    id: str
    object: str
    about: str
    message: str
    since: float
    seen: float
    lasts: bool = True


class Sample(msgspec.Struct, frozen=True, gc=False):
    """How a cluster stood at one time.

    Attributes
    ----------
    cards, whole
        How many cards are in service, and how many of them nobody has anything of.
    given
        What is given out, in cards.
    stranded
        What is free of cards that are partly used, in cards.
    waiting
        Pods that wait for cards.
    """

    at: float
    cards: float
    whole: float
    given: float
    stranded: float
    waiting: int


class Watch(msgspec.Struct, gc=False):
    """A time in which somebody watched, from its first look to its last one."""

    since: float
    until: float


class Record(msgspec.Struct):
    """All that was seen.

    Attributes
    ----------
    beside
        The scheduler whose pods are looked at.
    under
        Where the settings and policies are from under which this scheduler chose, for people.
    watches
        When somebody watched, in order.
    pods
        The pods of that scheduler that ask for cards and came or waited while somebody watched, by UID.
    """

    beside: str
    version: int = VERSION
    under: str = ""
    watches: list[Watch] = []
    pods: dict[str, PodRecord] = {}
    missed: list[MissedPlacement] = []
    faults: list[Fault] = []
    samples: list[Sample] = []

    @property
    def until(self) -> float:
        """The time of the last look; 0 before the first one."""
        return self.watches[-1].until if self.watches else 0.0

    @property
    def watched(self) -> float:
        """For how many seconds somebody watched."""
        return sum(watch.until - watch.since for watch in self.watches)

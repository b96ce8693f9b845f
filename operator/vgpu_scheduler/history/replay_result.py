"""What became of the pods of a history, and of the cards, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["PodCourse", "ReplayResult", "ReplayedEviction", "Series"]


@dataclass(frozen=True, slots=True)
class PodCourse:
    """What became of one pod.

    Attributes
    ----------
    uid, pod
        The pod's UID and ``namespace/name``.
    namespace, priority
        Of the pod.
    asked
        How many cards it asks for, or for shares of how many.
    arrived
        When it began to wait.
    started
        When it was placed first; None if it never was.
    node, cards
        Where it was placed last, and the UUIDs of its cards there; empty if it never was.
    waited
        Seconds that it waited in all, up to the end of the history: again after each eviction.
    evictions
        How often it had to end for another pod.
    departed
        When it ended, or gave up; None if it is still there in the end.
    """

    uid: str
    pod: str
    namespace: str
    priority: int
    asked: int
    arrived: float
    started: float | None = None
    node: str = ""
    cards: tuple[str, ...] = ()
    waited: float = 0.0
    evictions: int = 0
    departed: float | None = None


@dataclass(frozen=True, slots=True)
class ReplayedEviction:
    """A pod had to end for another one.

    Attributes
    ----------
    at
        Seconds since the epoch.
    pod, namespace, priority
        Of the pod that had to end.
    preemptor
        For whom, as ``namespace/name``.
    """

    at: float
    pod: str
    namespace: str
    priority: int
    preemptor: str


@dataclass(frozen=True, slots=True)
class Series:
    """How the cards stood, from each time to the next one; arrays of the same length.

    Attributes
    ----------
    times
        Seconds since the epoch, rising.
    cards
        How many cards are in service; what is not counts in none of these.
    given
        What of them is given out, in cards.
    stranded
        What is free of cards that somebody uses, in cards: no pod gets it that asks for a whole card.
    whole
        How many cards nobody uses.
    """

    times: NDArray[np.float64]
    cards: NDArray[np.float64]
    given: NDArray[np.float64]
    stranded: NDArray[np.float64]
    whole: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay came to.

    Attributes
    ----------
    began, ended
        From when to when, in seconds since the epoch.
    pods
        The pods that arrived, in that order; at the end those among them that ran from the beginning and came again.
    series
        How the cards stood.
    evictions
        Who had to end for others, in the order of time.
    lacked
        What the history does not have, or an engine does not take in, as sentences with how often each is true.
    work
        How many moments there were at which something happened, and decisions.
    """

    began: float
    ended: float
    pods: Sequence[PodCourse]
    series: Series
    evictions: Sequence[ReplayedEviction]
    lacked: Mapping[str, int]
    work: int = 0

"""The result of a replay: the pods of a history, and the allocation of cards over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ReplayedPod:
    """The replayed lifetime of one pod.

    Attributes
    ----------
    uid, pod
        The pod's UID and ``namespace/name``.
    namespace, priority
        The pod's namespace and priority.
    asked
        The number of cards, or of shares of cards, that it asks for.
    arrived
        When it started to wait.
    started
        When it was first placed; None if never.
    node, cards
        Its last node, and the UUIDs of its cards there; empty if it was never placed.
    waited
        Its total waiting time in seconds, including waits after evictions, up to the end of the history.
    evictions
        How often it was preempted.
    departed
        When it ended, or gave up; None if it still exists at the end.
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
    """A preemption of one pod.

    Attributes
    ----------
    at
        Seconds since the epoch.
    pod, namespace, priority
        The victim, its namespace and its priority.
    preemptor
        The preemptor, as ``namespace/name``.
    """

    at: float
    pod: str
    namespace: str
    priority: int
    preemptor: str


@dataclass(frozen=True, slots=True)
class Series:
    """The allocation of cards over time, as a step function; arrays of equal length.

    Attributes
    ----------
    times
        The beginning of each step, in seconds since the epoch, ascending.
    cards
        The number of cards in service; cards out of service, RDMA and FPGA devices count nowhere.
    allocated
        The allocated amount, in cards.
    stranded_free
        The free amount on partly used cards, in cards, which pods that ask for whole cards cannot use.
    idle
        The number of unused cards.
    """

    times: NDArray[np.float64]
    cards: NDArray[np.float64]
    allocated: NDArray[np.float64]
    stranded_free: NDArray[np.float64]
    idle: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes
    ----------
    began, ended
        The period, in seconds since the epoch.
    pods
        The pods in order of arrival, then recreated ones of those that ran from the beginning.
    series
        The allocation of cards.
    evictions
        The preempted pods, in order of time.
    lacked
        What the history lacks, or the engine cannot observe, as sentences with the number of times each applies.
    work
        The number of processed moments and decisions.
    """

    began: float
    ended: float
    pods: Sequence[ReplayedPod]
    series: Series
    evictions: Sequence[ReplayedEviction]
    lacked: Mapping[str, int]
    work: int = 0

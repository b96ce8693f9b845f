"""Resample histories: blocks of time get the arrivals of other blocks, drawn at random."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, History, HistoryEvent, Withdrawn
from vgpu_scheduler.kube import Pod

LEAST_BLOCKS: Final = 12
"""The least number of blocks of a history; with fewer there is too little to draw from."""
_LONGEST: Final = 3600.0
"""The longest block in seconds."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A period divided into blocks of equal length, which are drawn as a whole.

    Attributes
    ----------
    began, seconds
        The beginning of the first block, and the length of each.
    count
        The number of blocks.
    """

    began: float
    seconds: float
    count: int

    @classmethod
    def of(cls, began: float, ended: float) -> Blocks:
        """Divide a period into blocks of an hour, or shorter ones if there would be too few."""
        whole = max(ended - began, 1.0)
        count = max(LEAST_BLOCKS, round(whole / _LONGEST))
        return cls(began, whole / count, count)

    def number(self, at: float) -> int:
        """Return the index of the block with a time."""
        return min(max(int((at - self.began) / self.seconds), 0), self.count - 1)

    def drawn(self, seed: int) -> NDArray[np.int64]:
        """Draw a block, with replacement, for each block."""
        return np.random.default_rng(seed).integers(self.count, size=self.count)


def resampled(history: History, seed: int) -> History:
    """Return a history in which each block of time has the arrivals of a block drawn at random.

    A pod that is drawn twice becomes two pods. Each pod keeps its duration and the decisions about it. All other events
    stay.
    """
    blocks = Blocks.of(history.began, history.ended)
    arrivals: defaultdict[int, list[Arrived]] = defaultdict(list)
    for arrival in history.arrived:
        arrivals[blocks.number(arrival.at)].append(arrival)
    arrived = {arrival.pod.uid for each in arrivals.values() for arrival in each}
    theirs: defaultdict[str, list[HistoryEvent]] = defaultdict(list)
    others: list[HistoryEvent] = []
    for event in history.events:
        if not isinstance(event, Arrived):
            uid = _about(event)
            (theirs[uid] if uid in arrived else others).append(event)
    events = list(others)
    for place, block in enumerate(blocks.drawn(seed).tolist()):
        events += _moved(arrivals[block], theirs, (place - block) * blocks.seconds, f"~{place}")
    events.sort(key=lambda event: event.at)
    return replace(history, events=tuple(event for event in events if event.at <= history.ended))


def _about(event: HistoryEvent) -> str:
    """Return the UID of the pod that an event concerns; empty if it concerns none."""
    if isinstance(event, Departed | Decided | Withdrawn):
        return event.uid
    return event.value.uid if isinstance(event, Changed) and isinstance(event.value, Pod) else ""


def _moved(
    arrivals: Sequence[Arrived], theirs: dict[str, list[HistoryEvent]], seconds: float, suffix: str
) -> Iterator[HistoryEvent]:
    """Yield the arrivals of a block, and all events of these pods, moved in time and under new names."""
    for arrival in arrivals:
        pod = _renamed(arrival.pod, suffix)
        yield Arrived(arrival.at + seconds, pod)
        for event in theirs.get(arrival.pod.uid, ()):
            at = event.at + seconds
            if isinstance(event, Departed | Withdrawn):
                yield type(event)(at, pod.uid)
            elif isinstance(event, Decided):
                evicted = tuple(f"{uid}{suffix}" for uid in event.evicted)
                yield replace(event, at=at, uid=pod.uid, evicted=evicted)
            elif isinstance(event, Changed) and isinstance(event.value, Pod):
                yield replace(event, at=at, value=_renamed(event.value, suffix))


def _renamed(pod: Pod, suffix: str) -> Pod:
    return msgspec.structs.replace(pod, uid=f"{pod.uid}{suffix}", name=f"{pod.name}{suffix}")

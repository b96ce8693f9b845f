"""Other histories that might have been: blocks of time whose arrivals are drawn again, from those that there were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.history.events import Arrived, Changed, Decided, Departed, Event, History, Withdrawn
from vgpu_scheduler.kube import Pod

__all__ = ["Blocks", "resampled"]

LEAST_BLOCKS: Final = 12
"""Into so many blocks a history is divided at least: of fewer there is little to draw."""
_LONGEST: Final = 3600.0
"""Seconds of the longest block."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A time divided into blocks of the same length; what is in one stays together.

    Attributes
    ----------
    began, seconds
        When the first begins, and how long each is.
    count
        How many there are.
    """

    began: float
    seconds: float
    count: int

    @classmethod
    def of(cls, began: float, ended: float) -> Blocks:
        """Return the blocks of a time: of an hour, and of less where there would be too few."""
        whole = max(ended - began, 1.0)
        count = max(LEAST_BLOCKS, round(whole / _LONGEST))
        return cls(began, whole / count, count)

    def number(self, at: float) -> int:
        """Return the block that a time is in."""
        return min(max(int((at - self.began) / self.seconds), 0), self.count - 1)

    def drawn(self, seed: int) -> NDArray[np.int64]:
        """Return which block is drawn for each, at random."""
        return np.random.default_rng(seed).integers(self.count, size=self.count)


def resampled(history: History, seed: int) -> History:
    """Return a history in which each block of time has the arrivals of a block that is drawn at random.

    A pod that is drawn twice is two pods. Each stays as long as it did, and has what was decided of it. All else
    happens as it did.
    """
    blocks = Blocks.of(history.began, history.ended)
    arrivals: defaultdict[int, list[Arrived]] = defaultdict(list)
    for arrival in history.arrived:
        arrivals[blocks.number(arrival.at)].append(arrival)
    arrived = {arrival.pod.uid for each in arrivals.values() for arrival in each}
    theirs: defaultdict[str, list[Event]] = defaultdict(list)
    others: list[Event] = []
    for event in history.events:
        if not isinstance(event, Arrived):
            uid = _about(event)
            (theirs[uid] if uid in arrived else others).append(event)
    events = list(others)
    for place, block in enumerate(blocks.drawn(seed).tolist()):
        events += _moved(arrivals[block], theirs, (place - block) * blocks.seconds, f"~{place}")
    events.sort(key=lambda event: event.at)
    return replace(history, events=tuple(event for event in events if event.at <= history.ended))


def _about(event: Event) -> str:
    """Return the UID of the pod that an event is about, empty if it is about none."""
    if isinstance(event, Departed | Decided | Withdrawn):
        return event.uid
    return event.value.uid if isinstance(event, Changed) and isinstance(event.value, Pod) else ""


def _moved(arrivals: Sequence[Arrived], theirs: dict[str, list[Event]], seconds: float, suffix: str) -> Iterator[Event]:
    """Yield the arrivals of a block at another time, as other pods, with all that happened to them."""
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

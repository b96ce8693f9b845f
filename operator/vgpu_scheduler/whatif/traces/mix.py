"""The fragmentation of a fleet: the free part of cards that typical pods cannot use, as Weng et al. measure it.

Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent (USENIX ATC 2023),
section 4: for each typical pod, the free cards of a node that the pod cannot use are counted, weighted by the pod's
frequency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces.fleet import Fleet, Room
from vgpu_scheduler.whatif.traces.format import TracePod

_MOST: Final = 0.95
"""The fraction of pods that counts as typical."""


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A request, without memory, and the fraction of typical pods that make it."""

    pod: TracePod
    weight: float


def typical_pods(workload: Sequence[TracePod]) -> list[TypicalPod]:
    """Return the most frequent requests, which cover 95 percent of a workload; memory is ignored."""
    counts = Counter(replace(pod, memory=0) for pod in workload)
    found: list[tuple[TracePod, int]] = []
    covered = 0
    for pod, times in sorted(counts.items(), key=lambda item: (-item[1], _key(item[0]))):
        if covered >= _MOST * len(workload):
            break
        found.append((pod, times))
        covered += times
    return [TypicalPod(pod, times / covered) for pod, times in found]


def _key(pod: TracePod) -> tuple[int, int, int, tuple[str, ...]]:
    return pod.cpu, pod.cards, pod.share, pod.models


def fragmentation(fleet: Fleet, room: Room, mix: Sequence[TypicalPod]) -> float:
    """Return how much of the free cards cannot be used, as a mean over typical pods, in percent of a card.

    A pod without cards can use none of them; a pod that does not fit on a node can use none there; any other pod can
    use the cards with enough left.
    """
    free = np.where(room.cards > 0, room.cards, 0)
    idle = free.sum(axis=1)
    total = 0.0
    for typical in mix:
        pod, allowed = typical.pod, fleet.allowed(typical.pod)[fleet.card_models]
        usable: NDArray[np.int64] = np.zeros_like(idle)
        if pod.cards:
            fits = room.fits(pod, allowed)
            usable = np.where(fits, np.where(free >= pod.share, free, 0).sum(axis=1), 0)
        total += typical.weight * float((idle - usable).sum())
    return total

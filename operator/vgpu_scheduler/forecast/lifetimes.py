"""How long the pods of a history ran, those that still do included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_scheduler.history import Arrived, Changed, History, PodLifetime
from vgpu_scheduler.kube import Pod

__all__ = ["ObservedLifetime", "lifetimes_of"]


@dataclass(frozen=True, slots=True)
class ObservedLifetime:
    """How long a pod ran.

    Attributes
    ----------
    pod
        As it was seen.
    seconds
        From when it was placed to when it ended, or to when it was seen last.
    ended
        Whether it ended by itself then; one that was evicted would have gone on.
    entered
        Its age when it began to be watched: had it ended before, nobody would know of it.
    """

    pod: Pod
    seconds: float
    ended: bool
    entered: float = 0.0


def lifetimes_of(history: History) -> dict[str, ObservedLifetime]:
    """Return how long the pods of a history ran that ran at all, by UID."""
    stays = history.stays()
    found: dict[str, ObservedLifetime] = {}
    for pod, seen in _pods(history):
        stay = stays.get(pod.uid, PodLifetime())
        placed = stay.placed
        if placed is None and pod.node_name:
            placed = seen if pod.start_time is None else min(float(pod.start_time), seen)
        if placed is None:
            continue
        until = history.ended if stay.departed is None else stay.departed
        seconds = max(until - placed, 0.0)
        entered = max(seen - placed, 0.0)
        ended = stay.departed is not None and not stay.evicted
        found[pod.uid] = ObservedLifetime(pod, seconds, ended, min(entered, seconds))
    return found


def _pods(history: History) -> Iterator[tuple[Pod, float]]:
    """Yield each pod as it was seen last, with when it was seen first."""
    seen: dict[str, float] = {}
    pods: dict[str, Pod] = {}
    for event in (*history.first, *history.events):
        pod = event.pod if isinstance(event, Arrived) else event.value if isinstance(event, Changed) else None
        if isinstance(pod, Pod):
            seen.setdefault(pod.uid, event.at)
            pods[pod.uid] = pod
    return ((pod, seen[uid]) for uid, pod in pods.items())

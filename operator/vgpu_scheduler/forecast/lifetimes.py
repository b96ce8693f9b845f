"""The durations of a history's pods, including those still running."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_scheduler.history import Arrived, Changed, History, PodLifetime
from vgpu_scheduler.kube import Pod


@dataclass(frozen=True, slots=True)
class ObservedLifetime:
    """The observed duration of a pod.

    Attributes
    ----------
    pod
        The pod as last observed.
    seconds
        The time from its placement to its end, or to its last observation.
    ended
        Whether it ended by itself; an evicted pod would have run longer.
    entered
        Its age when observation began; a pod that ended before that age would be unknown (left truncation).
    """

    pod: Pod
    seconds: float
    ended: bool
    entered: float = 0.0


def lifetimes_of(history: History) -> dict[str, ObservedLifetime]:
    """Return the durations of a history's pods that were placed, by UID."""
    lifetimes = history.pod_lifetimes()
    found: dict[str, ObservedLifetime] = {}
    for pod, seen in _pods(history):
        lifetime = lifetimes.get(pod.uid, PodLifetime())
        placed = lifetime.placed
        if placed is None and pod.node_name:
            placed = seen if pod.start_time is None else min(float(pod.start_time), seen)
        if placed is None:
            continue
        until = history.ended if lifetime.departed is None else lifetime.departed
        seconds = max(until - placed, 0.0)
        entered = max(seen - placed, 0.0)
        ended = lifetime.departed is not None and not lifetime.evicted
        found[pod.uid] = ObservedLifetime(pod, seconds, ended, min(entered, seconds))
    return found


def _pods(history: History) -> Iterator[tuple[Pod, float]]:
    """Yield each pod as last observed, with the time of its first observation."""
    seen: dict[str, float] = {}
    pods: dict[str, Pod] = {}
    for event in (*history.first, *history.events):
        pod = event.pod if isinstance(event, Arrived) else event.value if isinstance(event, Changed) else None
        if isinstance(pod, Pod):
            seen.setdefault(pod.uid, event.at)
            pods[pod.uid] = pod
    return ((pod, seen[uid]) for uid, pod in pods.items())

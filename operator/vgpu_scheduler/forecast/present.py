"""A cluster as it is now: what is there, who runs since when, and who waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import Changed
from vgpu_scheduler.history.virtual import POD
from vgpu_scheduler.kube import Pod

__all__ = ["Present", "RunningPod", "present_of"]

_EVER: Final = 2**63
"""A version that no object exceeds."""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that is bound.

    Attributes
    ----------
    placed
        When it was placed, in seconds since the epoch.
    """

    pod: Pod
    placed: float


@dataclass(frozen=True, slots=True)
class Present:
    """A cluster at one time.

    Attributes
    ----------
    at
        Seconds since the epoch.
    objects
        All but pods.
    running
        The pods that are bound and have not ended.
    waiting
        The pods of the schedulers whose queue it is that are to be placed.
    """

    at: float
    objects: Sequence[Changed]
    running: Sequence[RunningPod]
    waiting: Sequence[Pod]


def _placed_by_kubelet(pod: Pod) -> float | None:
    return None if pod.start_time is None else float(pod.start_time)


def present_of(engine: Engine, at: float, placed: Callable[[Pod], float | None] = _placed_by_kubelet) -> Present:
    """Return what an engine knows now.

    Parameters
    ----------
    placed
        Says when a bound pod was placed; None where nobody knows: then it counts as placed now.
    """
    objects = [
        Changed(at, kind, value)
        for kind, observed in engine.kinds.items()
        if kind != POD
        for value in observed.missing(frozenset(), _EVER)
    ]
    running, waiting = [], []
    for pod in engine.kinds[POD].missing(frozenset(), _EVER):
        assert isinstance(pod, Pod)
        if pod.node_name and not pod.terminal:
            since = placed(pod)
            running.append(RunningPod(pod, at if since is None else min(since, at)))
        elif pod.scheduler_name in engine.scheduler_names and engine.waits(pod):
            waiting.append(pod)
    return Present(at, objects, running, waiting)

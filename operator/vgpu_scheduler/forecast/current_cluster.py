"""The present state of a cluster: its objects, its running pods with their start times, and its waiting pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import Changed, known_objects
from vgpu_scheduler.kube import Pod


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A bound pod.

    Attributes
    ----------
    placed
        When it was placed, in seconds since the epoch.
    """

    pod: Pod
    placed: float


@dataclass(frozen=True, slots=True)
class CurrentCluster:
    """The state of a cluster at one time.

    Attributes
    ----------
    at
        Seconds since the epoch.
    objects
        All objects except pods.
    running
        The pods that are bound and have not ended.
    waiting
        The pods in the queue of this scheduler.
    others
        Pods that have ended, have scheduling gates, or belong to other schedulers.
    """

    at: float
    objects: Sequence[Changed]
    running: Sequence[RunningPod]
    waiting: Sequence[Pod]
    others: Sequence[Pod] = ()

    def pods(self) -> Iterator[Pod]:
        """Yield all pods."""
        yield from (each.pod for each in self.running)
        yield from self.waiting
        yield from self.others


def _placed_by_kubelet(pod: Pod) -> float | None:
    return None if pod.start_time is None else float(pod.start_time)


def present_of(engine: Engine, at: float, placed: Callable[[Pod], float | None] = _placed_by_kubelet) -> CurrentCluster:
    """Return the present state from an engine.

    Parameters
    ----------
    placed
        Returns when a bound pod was placed; None if unknown: the pod then counts as placed now.
    """
    objects, running, waiting, others = [], [], [], []
    for kind, each in known_objects(engine):
        if not isinstance(each, Pod):
            objects.append(Changed(at, kind, each))
        elif each.node_name and not each.terminal:
            since = placed(each)
            running.append(RunningPod(each, at if since is None else min(since, at)))
        elif engine.is_to_place(each):
            waiting.append(each)
        else:
            others.append(each)
    return CurrentCluster(at, objects, running, waiting, others)

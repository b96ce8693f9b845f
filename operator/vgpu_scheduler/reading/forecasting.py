"""How long the pods of a cluster will wait that was read: from its own pods, or from a history of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vgpu_scheduler.forecast import Forecast, NoForecast, WorkloadHistory, forecast, present_of
from vgpu_scheduler.forecast.waiting import BUDGET
from vgpu_scheduler.history import History
from vgpu_scheduler.history.rebuilding import placed_at, rebuilt
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading.view import ClusterView
from vgpu_scheduler.whatif import World

__all__ = ["Forecaster", "waits_for_volumes", "with_forecast"]


class Forecaster:
    """Says how long pods will wait in a cluster as it is when this is made; what a world is asked later changes it.

    Parameters
    ----------
    history
        What is known of how long pods run, and which come; without one, that is what the pods that are there tell.
    """

    def __init__(self, world: World, view: ClusterView, history: History | None = None) -> None:
        self._options = world.engine.options
        self._read = view.read_at
        if view.read_at is None:
            return
        self._past = WorkloadHistory(rebuilt(world, view.read_at)[0] if history is None else history)
        pods = {pod.uid: world.written(pod) for pod in world.pods.values()}
        self._present = present_of(world.engine, view.read_at.timestamp(), lambda pod: placed_at(pods.get(pod.uid, {})))

    def of(
        self, pods: Sequence[Pod], budget: int = BUDGET, on_course: Callable[[int], None] = lambda _: None
    ) -> dict[str, Forecast | NoForecast]:
        """Return how much longer some pods wait, by UID.

        Parameters
        ----------
        budget, on_course
            As for :func:`vgpu_scheduler.forecast.waiting.replay_waits`.
        """
        if self._read is None:
            return {pod.uid: NoForecast("nothing tells when the cluster was as it is here") for pod in pods}
        return forecast(self._present, self._past, self._options, pods, budget=budget, on_course=on_course)


def waits_for_volumes(awaited: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, NoForecast]:
    """Return what is said of pods that have a node and wait for volumes there, by UID.

    Parameters
    ----------
    awaited
        The claims that each pod waits for, with the node that the volumes are made for.
    """
    return {
        uid: NoForecast(
            f"it waits for {'volumes' if len(claims) > 1 else 'the volume'} of claim{'s' * (len(claims) > 1)}"
            f" {', '.join(claim for claim, _ in claims)}, made for node {claims[0][1]}, and nobody knows when"
            f" {'they are' if len(claims) > 1 else 'it is'} there"
        )
        for uid, claims in awaited.items()
        if claims
    }


def with_forecast(plain: dict[str, Any], found: Forecast | NoForecast | None) -> dict[str, Any]:
    """Return plain values with what is forecast among them, if anything is."""
    return plain if found is None else {**plain, "forecast": found.as_json()}

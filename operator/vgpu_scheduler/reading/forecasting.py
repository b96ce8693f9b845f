"""Forecast how long pods of a cluster will wait, from the durations of its pods or from a recorded history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vgpu_scheduler.forecast import Forecast, NoForecast, WorkloadHistory, forecast, present_of
from vgpu_scheduler.forecast.waiting import BUDGET
from vgpu_scheduler.history import History
from vgpu_scheduler.history.rebuilding import placed_at, rebuilt
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading.scenario import SimulatedPods
from vgpu_scheduler.reading.schedulers import is_ours
from vgpu_scheduler.reading.view import ClusterView
from vgpu_scheduler.whatif import PodResult, World, awaited_volumes


class Forecaster:
    """Forecasts waits in a cluster as it is now; later changes of the world have no effect.

    Parameters
    ----------
    history
        The recorded history of durations and arrivals; without one, the pods of the world are used.
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
        self, pods: Sequence[Pod], budget: int = BUDGET, on_draw: Callable[[int], None] = lambda _: None
    ) -> dict[str, Forecast | NoForecast]:
        """Return how much longer pods wait, by UID.

        Parameters
        ----------
        budget, on_draw
            As for :func:`vgpu_scheduler.forecast.waiting.replay_waits`.
        """
        if self._read is None:
            return {pod.uid: NoForecast("the time at which the cluster was in this state is not known") for pod in pods}
        return forecast(self._present, self._past, self._options, pods, budget=budget, on_draw=on_draw)


def waits_for_volumes(awaited: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, NoForecast]:
    """Return the answers for pods that have a node and wait for volumes there, by UID.

    Parameters
    ----------
    awaited
        The claims for which each pod waits, each with the node for which its volume is made.
    """
    return {
        uid: NoForecast(
            f"it waits for {'volumes' if len(claims) > 1 else 'the volume'} of claim{'s' * (len(claims) > 1)}"
            f" {', '.join(claim for claim, _ in claims)}, provisioned for node {claims[0][1]}, and when "
            f"{'they are' if len(claims) > 1 else 'it is'} ready is not known"
        )
        for uid, claims in awaited.items()
        if claims
    }


def waits_of_answers(
    world: World,
    view: ClusterView,
    asked: SimulatedPods,
    forecaster_of: Callable[[], Forecaster],
    forecasts_of: Callable[[Forecaster, Sequence[Pod]], dict[str, Forecast | NoForecast]],
) -> Callable[[Sequence[PodResult]], dict[str, Forecast | NoForecast]]:
    """Return a function that forecasts how long the pending pods among answers that fit nowhere will wait, by UID.

    Parameters
    ----------
    world
        The world before any of the pods is placed.
    forecaster_of, forecasts_of
        Make the forecaster if any pod waits, and its forecasts.
    """
    waiting = [pod for pod in asked.waiting(world) if is_ours(pod.scheduler_name, view.scheduler.settings)]
    awaited = {pod.uid: tuple(awaited_volumes(world, pod)) for pod in waiting if not gated(pod)}
    uids = {pod.uid for pod in waiting}
    forecaster = forecaster_of() if waiting else None

    def of_answers(answers: Sequence[PodResult]) -> dict[str, Forecast | NoForecast]:
        unplaced = [answer.pod for answer in answers if not answer.node and answer.pod.uid in uids]
        found = forecasts_of(forecaster, unplaced) if forecaster is not None and unplaced else {}
        placed = {answer.pod.uid for answer in answers if answer.node}
        return found | waits_for_volumes({uid: claims for uid, claims in awaited.items() if uid in placed})

    return of_answers


def with_forecast(plain: dict[str, Any], found: Forecast | NoForecast | None) -> dict[str, Any]:
    """Return plain values with a forecast added, if there is one."""
    return plain if found is None else {**plain, "forecast": found.as_json()}

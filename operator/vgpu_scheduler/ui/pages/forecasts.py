"""Forecasts of waiting times for pages: fewer draws than for a command, restricted to what the visitor may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading import ClusterView, Forecaster, SimulatedPods, is_ours, waits_for_volumes
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import PodResult, World, awaited_volumes

BUDGET: Final = 10_000
"""The most moments and decisions over all draws of a forecast; fewer than for a command, because others wait, too."""


def as_visible_to(found: Forecast | NoForecast, visibility: Visibility) -> Forecast | NoForecast:
    """Return a forecast as a visitor may see it: without the number of others' pods that it is based on."""
    if isinstance(found, Forecast) and not visibility.is_whole:
        return replace(found, known_from=None)
    return found


def waits_of(
    world: World,
    view: ClusterView,
    asked: SimulatedPods,
    visibility: Visibility,
    check: Callable[[object], None],
) -> Callable[[Sequence[PodResult]], dict[str, Forecast | NoForecast]]:
    """Return a function that forecasts how long the pending pods among answers that fit nowhere will wait, by UID.

    Parameters
    ----------
    world
        The world before any of the pods is placed.
    check
        Called with each draw; raises if the forecast takes too long.
    """
    waiting = [pod for pod in asked.waiting(world) if is_ours(pod.scheduler_name, view.scheduler.settings)]
    awaited = {pod.uid: tuple(awaited_volumes(world, pod)) for pod in waiting if not gated(pod)}
    uids = {pod.uid for pod in waiting}
    forecaster = Forecaster(world, view) if waiting else None

    def forecasts_of(answers: Sequence[PodResult]) -> dict[str, Forecast | NoForecast]:
        unplaced = [answer.pod for answer in answers if not answer.node and answer.pod.uid in uids]
        found = forecaster.of(unplaced, BUDGET, check) if forecaster is not None and unplaced else {}
        placed = {answer.pod.uid for answer in answers if answer.node}
        found |= waits_for_volumes({uid: claims for uid, claims in awaited.items() if uid in placed})
        return {uid: as_visible_to(each, visibility) for uid, each in found.items()}

    return forecasts_of

"""Forecasts of waiting times for pages: fewer draws than for a command, restricted to what the visitor may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView, Forecaster, SimulatedPods, waits_of_answers
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import PodResult, World

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

    def forecasts_of(forecaster: Forecaster, pods: Sequence[Pod]) -> dict[str, Forecast | NoForecast]:
        return {uid: as_visible_to(each, visibility) for uid, each in forecaster.of(pods, BUDGET, check).items()}

    return waits_of_answers(world, view, asked, lambda: Forecaster(world, view), forecasts_of)

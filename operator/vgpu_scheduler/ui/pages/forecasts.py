"""How long pods will wait, as a page says it: with fewer courses than a command, and to whom it may be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading import ClusterView, Forecaster, SimulatedPods, is_ours, waits_for_volumes
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import PodResult, World, awaited_volumes

__all__ = ["BUDGET", "told_to", "waits_of"]

BUDGET: Final = 10_000
"""Moments and decisions of all courses of a forecast: fewer than a command has, which nobody else waits for."""


def told_to(found: Forecast | NoForecast, visibility: Visibility) -> Forecast | NoForecast:
    """Return a forecast as somebody may know it: how many pods of others have run is not theirs to know."""
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
    """Return what says of the answers about pods that wait how long those wait that fit nowhere, by UID.

    Parameters
    ----------
    world
        As it is before any of them is placed.
    check
        Is called with each course; raises where all of it takes too long.
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
        return {uid: told_to(each, visibility) for uid, each in found.items()}

    return forecasts_of

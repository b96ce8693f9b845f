"""What commands need that forecast how long pods will wait: the log, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vgpu_scheduler.cli.backtest.sources import Source, find
from vgpu_scheduler.cli.cluster.messages import progress, warn
from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.history import History
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView, Forecaster
from vgpu_scheduler.whatif import World

__all__ = ["UNSEEN", "forecaster_of", "forecasts_of"]

UNSEEN: Final = NoForecast("that takes the nodes and the pods of all namespaces, which may not be listed")
"""What those are told who have rights in their namespace alone."""


def forecaster_of(world: World, view: ClusterView, logs: Sequence[Path]) -> Forecaster:
    """Return what says how long the pods of a cluster will wait.

    Parameters
    ----------
    logs
        Files of the leader's log, and folders of them; without any, durations are those of the pods that are there.

    Raises
    ------
    FileError, LogError, PyarrowMissingError, SettingsError
        If a log cannot be read; the message names the file.
    """
    return Forecaster(world, view, _history(logs) if logs and view.read_at is not None else None)


def _history(logs: Sequence[Path]) -> History:
    progress("the log is read")
    found = find(Source(logs=tuple(logs)))
    progress("")
    for problem in found.problems:
        warn(problem)
    return found.history


def forecasts_of(forecaster: Forecaster, pods: Sequence[Pod]) -> dict[str, Forecast | NoForecast]:
    """Return how much longer some pods wait, by UID."""
    progress("courses that may come are replayed")
    found = forecaster.of(pods)
    progress("")
    return found

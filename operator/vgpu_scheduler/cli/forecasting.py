"""Forecasts of waiting times in commands: reads the log, and shows progress."""

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

UNSEEN: Final = NoForecast("a forecast needs the nodes and the pods of all namespaces, which you may not list")
"""The answer for users with rights in their namespace only."""


def forecaster_of(world: World, view: ClusterView, logs: Sequence[Path]) -> Forecaster:
    """Return the forecaster of a cluster.

    Parameters
    ----------
    logs
        Log files of the leader, and folders of them; without any, durations come from the existing pods.

    Raises
    ------
    FileError, LogError, PyarrowMissingError, SettingsError
        If a log cannot be read; the message names the file.
    """
    return Forecaster(world, view, _history(logs) if logs and view.read_at is not None else None)


def _history(logs: Sequence[Path]) -> History:
    progress("reading the log")
    found = find(Source(logs=tuple(logs)))
    progress("")
    for problem in found.problems:
        warn(problem)
    return found.history


def forecasts_of(forecaster: Forecaster, pods: Sequence[Pod]) -> dict[str, Forecast | NoForecast]:
    """Return how much longer pods will wait, by UID."""
    progress("possible futures simulated")
    found = forecaster.of(pods)
    progress("")
    return found

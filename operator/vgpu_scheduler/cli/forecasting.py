"""How long the pods of a cluster will wait that was read: from its own pods, or from the leader's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vgpu_scheduler.cli.backtest.sources import Source, find
from vgpu_scheduler.cli.cluster.messages import fail, progress, warn
from vgpu_scheduler.forecast import Forecast, Past, Unknown, forecast, present_of
from vgpu_scheduler.history import LogError, PyarrowMissingError
from vgpu_scheduler.history.rebuilding import placed_at, rebuilt
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.whatif import World

__all__ = ["Forecaster", "exit_without_log"]


@contextmanager
def exit_without_log() -> Iterator[None]:
    """End the command with a message where a log cannot be read."""
    try:
        yield
    except (LogError, PyarrowMissingError) as error:
        fail(str(error))


class Forecaster:
    """Says how long pods will wait in a cluster as it is when this is made; what a world is asked later changes it.

    Parameters
    ----------
    logs
        Files of the leader's log, and folders of them; without any, durations are those of the pods that are there.

    Raises
    ------
    FileError, LogError, PyarrowMissingError, SettingsError
        If a log cannot be read; the message names the file.
    """

    def __init__(self, world: World, view: ClusterView, logs: Sequence[Path]) -> None:
        self._options = world.engine.options
        self._read = view.read_at
        if view.read_at is None:
            return
        if logs:
            progress("the log is read")
            found = find(Source(logs=tuple(logs)))
            progress("")
            for problem in found.problems:
                warn(problem)
            self._past = Past(found.history)
        else:
            self._past = Past(rebuilt(world, view.read_at)[0])
        pods = {pod.uid: world.written(pod) for pod in world.pods.values()}
        self._present = present_of(world.engine, view.read_at.timestamp(), lambda pod: placed_at(pods.get(pod.uid, {})))

    def of(self, pods: Sequence[Pod]) -> dict[str, Forecast | Unknown]:
        """Return how much longer some pods wait, by UID."""
        if self._read is None:
            return {pod.uid: Unknown("nothing tells when the cluster was as it is here") for pod in pods}
        progress("courses that may come are replayed")
        found = forecast(self._present, self._past, self._options, pods)
        progress("")
        return found


def with_forecast(plain: dict[str, Any], found: Forecast | Unknown | None) -> dict[str, Any]:
    """Return plain values with what is forecast among them, if anything is."""
    return plain if found is None else {**plain, "forecast": found.as_json()}

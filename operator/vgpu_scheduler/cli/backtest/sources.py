"""Loads a history from log files or a snapshot, with the settings under which it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.history import CLOSED, OPEN, History, LogError, LogSegment, joined, read_segment
from vgpu_scheduler.history.rebuilding import rebuilt, with_namespaces
from vgpu_scheduler.reading import ClusterOptions, FileError, make_world, read_cluster
from vgpu_scheduler.reading.settings import settings_from_file
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import SettingsError, read


@dataclass(frozen=True, slots=True)
class Source:
    """The history that the user named: small enough to pass to other processes, which read it themselves.

    Attributes
    ----------
    logs
        Log files, and folders of them.
    snapshot
        A snapshot to use instead of logs; None for logs.
    config
        A settings file to use instead of the recorded settings.
    """

    logs: tuple[Path, ...] = ()
    snapshot: Path | None = None
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    """A history, with notes about it.

    Attributes
    ----------
    options
        The engine options of the scheduler that made it.
    files
        The number of files that it was read from.
    decided
        Whether it contains that scheduler's decisions.
    problems
        What is missing, or wrong with files, one sentence each.
    """

    history: History
    options: EngineOptions
    files: int
    decided: bool
    problems: Sequence[str] = field(default_factory=list)


def find(source: Source) -> LoadedHistory:
    """Load the history.

    Raises
    ------
    FileError, LogError, PyarrowMissingError, SettingsError
        If the history cannot be read; the message names the file.
    """
    return _of_logs(source) if source.snapshot is None else _of_snapshot(source, source.snapshot)


def _of_logs(source: Source) -> LoadedHistory:
    paths = list(dict.fromkeys(each for path in source.logs for each in _files(path)))
    problems: list[str] = []
    segments: list[LogSegment] = []
    for path in paths:
        try:
            segments.append(read_segment(path))
        except LogError as error:
            if len(paths) == 1:
                raise
            problems.append(f"{error}: it is ignored")
    if not segments:
        raise FileError(f"none of {len(paths)} files can be read; the first: {problems[0]}")
    whole, more = joined(segments)
    history, lacks = with_namespaces(whole)
    settings, told = _settings_of(segments)
    options = _options(source, settings, segments[-1].path)
    return LoadedHistory(history, options, len(segments), decided=True, problems=[*problems, *more, *lacks, *told])


def _files(path: Path) -> list[Path]:
    """Return the log files of a folder, or the given file."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.suffix in {CLOSED, OPEN})
    if not found:
        raise FileError(f"{path}: it contains no file of a history log (*{CLOSED}, *{OPEN})")
    return found


def _settings_of(segments: Sequence[LogSegment]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the settings in a log, the last ones if they changed, and a note about that."""
    last = max(segments, key=lambda segment: segment.header.began).header.settings
    if all(segment.header.settings == last for segment in segments):
        return last, []
    return last, ["the settings of the scheduler changed meanwhile: the last ones are used for the whole time"]


def _options(source: Source, settings: Mapping[str, Any], path: Path) -> EngineOptions:
    if source.config is not None:
        return settings_from_file(source.config).options
    try:
        return engine_options(read(settings, {}))
    except SettingsError as error:
        raise SettingsError(f"{path}: the settings in it: {error}") from None


def _of_snapshot(source: Source, path: Path) -> LoadedHistory:
    view = read_cluster(ClusterOptions(None, None, "vgpu-system", source.config, (path,)), lambda _: None)
    if view.read_at is None:
        raise FileError(f"{path}: it does not say when it was made: make one with `vgpu-scheduler snapshot`")
    world = make_world(view)
    history, lacks = rebuilt(world, view.read_at, view.pods_since)
    if not any(history.arrived):
        names = ", ".join(sorted(view.scheduler.options.scheduler_names))
        raise FileError(f"{path}: it contains no pod whose schedulerName is {names}")
    return LoadedHistory(history, view.scheduler.options, 1, decided=False, problems=lacks)

"""Where a history comes from: the files of a log, or a snapshot; and under which settings it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.history import CLOSED, OPEN, History, LogError, LogSegment, joined, read_part
from vgpu_scheduler.history.rebuilding import rebuilt, with_namespaces
from vgpu_scheduler.reading import ClusterOptions, FileError, make_world, read_cluster
from vgpu_scheduler.reading.settings import settings_from_file
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import SettingsError, read

__all__ = ["LoadedHistory", "Source", "find"]


@dataclass(frozen=True, slots=True)
class Source:
    """What a user has named: small enough to be handed to other processes, which read it themselves.

    Attributes
    ----------
    logs
        Files of logs, and folders of them.
    snapshot
        A snapshot instead; None for a log.
    config
        A settings file that stands for the settings that were written down.
    """

    logs: tuple[Path, ...] = ()
    snapshot: Path | None = None
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    """A history, and what is to be said of it.

    Attributes
    ----------
    options
        What an engine of the scheduler that made it is made from.
    files
        Of how many it was read.
    decided
        Whether it has the decisions of that scheduler.
    problems
        What it lacks, or what is wrong with files, a sentence each.
    """

    history: History
    options: EngineOptions
    files: int
    decided: bool
    problems: Sequence[str] = field(default_factory=list)


def find(source: Source) -> LoadedHistory:
    """Return the history that is named.

    Raises
    ------
    FileError, LogError, PyarrowMissingError, SettingsError
        If it cannot be read; the message names the file.
    """
    return _of_logs(source) if source.snapshot is None else _of_snapshot(source, source.snapshot)


def _of_logs(source: Source) -> LoadedHistory:
    paths = list(dict.fromkeys(each for path in source.logs for each in _files(path)))
    problems: list[str] = []
    parts: list[LogSegment] = []
    for path in paths:
        try:
            parts.append(read_part(path))
        except LogError as error:
            if len(paths) == 1:
                raise
            problems.append(f"{error}: it is left out")
    if not parts:
        raise FileError(f"none of {len(paths)} files can be read; the first: {problems[0]}")
    whole, more = joined(parts)
    history, lacks = with_namespaces(whole)
    settings, told = _settings_of(parts)
    options = _options(source, settings, parts[-1].path)
    return LoadedHistory(history, options, len(parts), decided=True, problems=[*problems, *more, *lacks, *told])


def _files(path: Path) -> list[Path]:
    """Return the files of a folder, or the file that is named."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.suffix in {CLOSED, OPEN})
    if not found:
        raise FileError(f"{path}: there is no file of a log in it (*{CLOSED}, *{OPEN})")
    return found


def _settings_of(parts: Sequence[LogSegment]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the settings under which a log was made, those of its end where they changed."""
    last = max(parts, key=lambda part: part.header.began).header.settings
    if all(part.header.settings == last for part in parts):
        return last, []
    return last, ["the settings of the scheduler changed in between: those of the end are in force throughout"]


def _options(source: Source, settings: Mapping[str, Any], path: Path) -> EngineOptions:
    if source.config is not None:
        return settings_from_file(source.config).options
    try:
        return engine_options(read(settings, {}))
    except SettingsError as error:
        raise SettingsError(f"{path}: the settings that are in it: {error}") from None


def _of_snapshot(source: Source, path: Path) -> LoadedHistory:
    view = read_cluster(ClusterOptions(None, None, "vgpu-system", source.config, (path,)), lambda _: None)
    if view.read_at is None:
        raise FileError(f"{path}: nothing in it tells when it was made: make one with `vgpu-scheduler snapshot`")
    world = make_world(view)
    history, lacks = rebuilt(world, view.read_at)
    if not any(history.arrived):
        names = ", ".join(sorted(view.scheduler.options.scheduler_names))
        raise FileError(f"{path}: there is no pod in it whose schedulerName is {names}")
    return LoadedHistory(history, view.scheduler.options, 1, decided=False, problems=lacks)

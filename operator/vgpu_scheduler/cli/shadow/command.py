"""Carries out ``vgpu-scheduler shadow``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec
import uvloop

from vgpu_scheduler.cli.cluster.messages import fail, progress, warn
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.world import announce_compiling, exit_on_error
from vgpu_scheduler.cli.shadow import markdown, page
from vgpu_scheduler.cli.shadow.folder import ShadowFolder, StateError
from vgpu_scheduler.cli.shadow.following import follow, options_serving
from vgpu_scheduler.cli.shadow.report import ShadowDocument
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import counted
from vgpu_scheduler.reading import ClusterOptions, SettingsObjects, connect_to
from vgpu_scheduler.reading.settings import settings_from_file, settings_from_objects
from vgpu_scheduler.reading.view import decoders
from vgpu_scheduler.shadow import Record, ShadowOptions, histories, one_hour, whole_time
from vgpu_scheduler.whatif import World

_MOST_NAMES: Final = 5
"""The most scheduler names to print if no pod names the watched scheduler."""
_WRITERS: Final = {"markdown": markdown.written, "html": page.written}


def run(
    *,
    beside: str | None,
    state: Path | None,
    cluster: ClusterOptions,
    seconds: int | None,
    min_duration: int,
    output: str,
) -> None:
    """Watch, if a scheduler is named, and print the report."""
    with _kept_in(state) as folder, ExitStack() as writing, exit_on_error():
        if beside is None:
            record = _loaded(folder, beside)
        else:
            record = writing.enter_context(_held(folder, beside))
            announce_compiling()
            uvloop.run(_watch(cluster, record, folder, _closely(float(min_duration)), seconds))
        options = _options(folder, cluster, record)
        progress("replaying the record")
        report = _reported(record, float(min_duration), folder, options)
        progress("")
    if output in _WRITERS:
        click.echo(_WRITERS[output](report.blocks()), nl=False)
    else:
        dump(report.as_json(), output)


def _closely(min_duration: float) -> ShadowOptions:
    """Return how often to look, so that everything that lasts twice the minimum duration is noticed."""
    usual = ShadowOptions(min_duration=min_duration)
    return msgspec.structs.replace(usual, audit_every=min(usual.audit_every, min_duration / 2))


@contextmanager
def _kept_in(state: Path | None) -> Iterator[ShadowFolder]:
    if state is not None:
        yield ShadowFolder(state)
        return
    with TemporaryDirectory(prefix="vgpu-scheduler-shadow-") as folder:
        yield ShadowFolder(Path(folder))


@contextmanager
def _held(folder: ShadowFolder, beside: str) -> Iterator[Record]:
    """Lock a folder, and return the record to continue."""
    with ExitStack() as stack:
        try:
            is_locked = stack.enter_context(folder.held())
        except StateError as error:
            fail(f"--state: {error}")
        if not is_locked:
            warn("--state: its file system has no locks: make sure that no other process writes into the folder")
        yield _loaded(folder, beside)


def _loaded(folder: ShadowFolder, beside: str | None) -> Record:
    """Return the record to continue or report."""
    try:
        found = folder.load()
    except StateError as error:
        fail(str(error))
    if found is None:
        if beside is None:
            fail(f"--state: {folder.why_empty}")
        return Record(beside)
    if beside is not None and found.other_scheduler != beside:
        fail(f"--state: it has the record of {found.other_scheduler}: use another folder for {beside}")
    return found


async def _watch(
    cluster: ClusterOptions, record: Record, folder: ShadowFolder, options: ShadowOptions, seconds: int | None
) -> None:
    async with await connect_to(cluster) as api:
        progress("reading the cluster")

        def report_start(world: World) -> None:
            progress("")
            click.echo(f"watching {record.other_scheduler}; Ctrl-C ends it, and prints the report", err=True)
            if others := _named_instead(world, record.other_scheduler):
                click.echo(f"no pod with cards names {record.other_scheduler} yet: {others}", err=True)

        await follow(api, cluster, record, folder, options, seconds, report_start)


def _named_instead(world: World, beside: str) -> str:
    """Return the schedulers that pods with cards name, if none of these pods names the watched scheduler."""
    names = Counter(pod.scheduler_name for pod in world.pods.values() if world.engine.dialects.owners(pod))
    if names[beside]:
        return ""
    told = ", ".join(f"{name} ({count})" for name, count in names.most_common(_MOST_NAMES))
    return f"they name {told}" if told else "there is none"


def _options(folder: ShadowFolder, cluster: ClusterOptions, record: Record) -> EngineOptions:
    """Return the engine options for replays: from the settings of the watch, or from a file."""
    installed = SettingsObjects.among(folder.settings(), cluster.scheduler_namespace)
    if cluster.config is not None or installed.config_map is None:
        settings = settings_from_file(cluster.config, cluster.overrides)
    else:
        settings = settings_from_objects(installed, cluster.overrides)
    return options_serving(settings.options, record.other_scheduler)


def _reported(record: Record, min_duration: float, folder: ShadowFolder, options: EngineOptions) -> ShadowDocument:
    seen = list(histories(folder.lines(), record.until, decoders(options), record.other_scheduler))
    truncated: tuple[str, ...] = ()
    if folder.truncated:
        parts = counted(folder.truncated, "part")
        missing = f"{parts} of the record could not be read, because it was not written completely"
        truncated = (f"{missing}: the table above and `shadow snapshot` do not include it.",)
    return ShadowDocument.of(
        record, min_duration, [partial(make, seen, options) for make in (one_hour, whole_time)], truncated
    )

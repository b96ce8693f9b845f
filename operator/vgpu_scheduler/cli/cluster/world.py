"""From what could be read of a cluster to a world that the engine can be asked about."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import click
from kubernetes_asyncio.config import ConfigException

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.cli.cluster.files import TOO_DEEP, FileError
from vgpu_scheduler.cli.cluster.messages import fail, print_view_warnings, progress
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.view import ALL_KINDS, REQUIRED_KINDS, ClusterView, read_cluster, read_namespace
from vgpu_scheduler.groups import GROUP_SOURCES, POD_GROUP_KINDS
from vgpu_scheduler.runtime.warmup import is_compiled
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.whatif import World, WorldError, take_up_preemptions

_POD: Final = "Pod"


class MissingRightsError(Exception):
    """The user may not read what the answer depends on.

    Attributes
    ----------
    scheduler
        The settings, as far as they could be read.
    """

    def __init__(self, view: ClusterView) -> None:
        self.scheduler = view.scheduler
        where = f" in namespace {view.namespace}" if view.namespace else " in all namespaces"
        rights = [
            f"{view.missing[kind]}{where if kind == _POD and ':' not in view.missing[kind] else ''}"
            for kind in sorted(view.missing)
            if kind in REQUIRED_KINDS
        ]
        super().__init__(f"you may not {', '.join(rights)}")


_EXPECTED_ERRORS = (
    FileError,
    SettingsError,
    WorldError,
    MissingRightsError,
    ApiUnreachableError,
    ConfigException,
    OSError,
)


_NO_NODE: Final = ": there is no node "
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""Nothing has an age where nobody knows when the cluster was read."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the command with a message and status 2 where something cannot be read."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads on, which click ends the command for
    except _EXPECTED_ERRORS as error:
        fail(str(error))
    except RecursionError:
        fail(TOO_DEEP)


def open_world(options: ClusterOptions, *, keeping: bool = False) -> tuple[World, ClusterView]:
    """Read a cluster, make a world of it, and print warnings about what was left out.

    Parameters
    ----------
    keeping
        Keep the room there, too, that the scheduler keeps for pods after preemptions.

    Raises
    ------
    FileError, SettingsError, WorldError, ApiUnreachableError, ConfigException
        If it cannot be read.
    MissingRightsError
        If nodes or pods may not be listed.
    """
    view = read_cluster(options, progress)
    world = make_world(view)
    if keeping:
        keep_room(world, view)
    print_view_warnings(world, view)
    return world, view


def keep_room(world: World, view: ClusterView) -> None:
    """Have a world keep the room that its scheduler keeps for pods after preemptions."""
    take_up_preemptions(world, view.read_at or _LONG_AGO)


def open_namespace(
    options: ClusterOptions, namespace: str, required: Collection[str], kinds: Collection[str] = ALL_KINDS
) -> tuple[World, ClusterView]:
    """Read a namespace, for those who may see no more, and make a world of it, in which no node need be.

    Parameters
    ----------
    required
        The kinds without which nothing can be said.
    kinds
        What is read.

    Raises
    ------
    SettingsError, ApiUnreachableError, ConfigException
        If it cannot be read.
    MissingRightsError
        If objects of a required kind may not be listed there.
    """
    view = read_namespace(options, namespace, kinds)
    world = make_world(view, required)
    if "Node" in view.missing:
        world.problems = [text for text in world.problems if _NO_NODE not in text]
    return world, view


def make_world(
    view: ClusterView, required: Collection[str] = REQUIRED_KINDS, *, preemption: bool | None = None
) -> World:
    """Make a world of what was read.

    Parameters
    ----------
    required
        The kinds without which nothing can be said.
    preemption
        Instead of the setting.

    Raises
    ------
    WorldError
        If an object cannot be understood.
    MissingRightsError
        If objects of a required kind may not be listed.
    """
    if set(required) & view.missing.keys():
        raise MissingRightsError(view)
    options = view.scheduler.options
    world = World(options if preemption is None else replace(options, preemption=preemption))
    progress(f"{len(view.objects)} objects")
    world.engine.groups.served |= view.kinds.intersection(kind.name for kind in POD_GROUP_KINDS)
    for source in GROUP_SOURCES if view.live else ():
        if source.needs_object and not any(kind.name in view.kinds for kind in source.kinds):
            world.engine.groups.cannot_list(source.kinds[0].name)  # be it for want of rights, or of the kind
    world.add(view.objects)
    if view.has_read("Pod"):  # else nothing tells whose lock is whose
        world.review_locks(view.read_at or _LONG_AGO)
    progress("")
    if not world.nodes and not view.live:
        raise WorldError(f"{view.origin}: there is no Node among the objects of the cluster")
    if world.nodes:  # else nothing is compiled
        announce_compiling()
    return world


def announce_compiling() -> None:
    """Say what takes so long where no kernel was compiled before."""
    if not is_compiled():
        click.echo("the kernels are compiled now, once after an install: this takes up to a minute", err=True)

"""The world that a command asks about: from a snapshot, or read from a cluster, with what is to be said of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import click

from vgpu_scheduler import reading
from vgpu_scheduler.apiclient import ApiUnreachableError, ConfigException
from vgpu_scheduler.cli.cluster.messages import fail, print_view_warnings, progress
from vgpu_scheduler.history import LogError, PyarrowMissingError
from vgpu_scheduler.kernels.cache import compiles_first
from vgpu_scheduler.reading import (
    ALL_KINDS,
    REQUIRED_KINDS,
    TOO_DEEP,
    ClusterOptions,
    ClusterView,
    FileError,
    MissingRightsError,
    keep_room,
    read_cluster,
    read_namespace,
)
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.whatif import World, WorldError

_EXPECTED_ERRORS = (
    FileError,
    LogError,
    PyarrowMissingError,
    SettingsError,
    WorldError,
    MissingRightsError,
    ApiUnreachableError,
    ConfigException,
    OSError,
)


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
    for namespace in sorted({pod.namespace for pod in world.pending.values()}):
        world.ensure_namespace(namespace)
    print_view_warnings(world, view)
    return world, view


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
        world.problems = [problem for problem in world.problems if not problem.missing_node]
    return world, view


def make_world(
    view: ClusterView, required: Collection[str] = REQUIRED_KINDS, *, preemption: bool | None = None
) -> World:
    """Make a world of what was read as :func:`vgpu_scheduler.reading.make_world` does, and show how far that is."""
    progress(f"{len(view.objects)} objects")
    world = reading.make_world(view, required, preemption=preemption)
    progress("")
    if world.nodes:  # else nothing is compiled
        announce_compiling()
    return world


def announce_compiling() -> None:
    """Say what takes so long where no kernel was compiled before, and what is compiled can be kept: once."""
    if compiles_first():
        click.echo("the kernels are compiled now, once after an install: this takes up to a minute", err=True)

"""The world for a command, from a snapshot or a live cluster, with warnings about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import click

from vgpu_scheduler import reading
from vgpu_scheduler.apiclient import ApiUnreachableError, ConfigException
from vgpu_scheduler.cli.cluster.messages import ROLE_WITH_RIGHTS, describe_error, fail, print_view_warnings, progress
from vgpu_scheduler.cli.unwritable_output import is_unwritable
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
from vgpu_scheduler.whatif import InvalidObjectsError, World

EXPECTED_ERRORS = (
    FileError,
    LogError,
    PyarrowMissingError,
    SettingsError,
    InvalidObjectsError,
    MissingRightsError,
    ApiUnreachableError,
    ConfigException,
    OSError,
)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the command with a message and status 2 if something cannot be read."""
    try:
        yield
    except EXPECTED_ERRORS as error:
        if is_unwritable(error):
            raise  # main ends every command alike
        role = f". {ROLE_WITH_RIGHTS}" if isinstance(error, MissingRightsError) and error.is_forbidden else ""
        fail(f"{describe_error(error)}{role}")
    except RecursionError:
        fail(TOO_DEEP)


def open_world(options: ClusterOptions, *, keeping: bool = False) -> tuple[World, ClusterView]:
    """Read a cluster, make a world of it, and print warnings about what is missing.

    Parameters
    ----------
    keeping
        Also restore the room that the scheduler holds for preemptors.

    Raises
    ------
    FileError, SettingsError, InvalidObjectsError, ApiUnreachableError, ConfigException
        If the cluster cannot be read.
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
    """Read one namespace, for users who may see nothing else, and make a world of it, possibly without nodes.

    Parameters
    ----------
    required
        The kinds that are indispensable.
    kinds
        The kinds to read.

    Raises
    ------
    SettingsError, ApiUnreachableError, ConfigException
        If the namespace cannot be read.
    MissingRightsError
        If objects of a required kind may not be listed there.
    """
    view = read_namespace(options, namespace, kinds)
    return world_of_namespace(view, required), view


def world_of_namespace(view: ClusterView, required: Collection[str]) -> World:
    """Make a world of one namespace; that its pods' nodes are missing is no problem if nodes may not be read."""
    world = make_world(view, required)
    if "Node" in view.missing:
        world.problems = [problem for problem in world.problems if not problem.missing_node]
    return world


def make_world(
    view: ClusterView, required: Collection[str] = REQUIRED_KINDS, *, preemption: bool | None = None
) -> World:
    """Make a world as :func:`vgpu_scheduler.reading.make_world` does, and show progress."""
    progress(f"{len(view.objects)} objects")
    world = reading.make_world(view, required, preemption=preemption)
    progress("")
    if world.nodes:  # without nodes no kernel is compiled
        announce_compiling()
    return world


def announce_compiling() -> None:
    """Explain the delay, once, if the kernels are not compiled yet and can be cached."""
    if compiles_first():
        click.echo("the kernels are compiled once after an installation: this takes up to a minute", err=True)

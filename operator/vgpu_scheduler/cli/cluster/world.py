"""From what was seen of a cluster to a world that the engine can be asked about."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import click
from kubernetes_asyncio.config import ConfigException

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.cli.cluster.look import NEEDED, Look, look
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.settings import DEFAULTS
from vgpu_scheduler.cli.files import TOO_DEEP, FileError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.assembly import policy_defaults
from vgpu_scheduler.settings import SettingsError
from vgpu_scheduler.whatif import World, WorldError

UNREADABLE = (FileError, SettingsError, WorldError, ApiUnreachableError, ConfigException, OSError)
_COULD_NOT = 2
_MOST_PROBLEMS = 10


class NotSeenError(Exception):
    """The user may not see what the answer depends on.

    Attributes
    ----------
    look
        What could be seen.
    """

    def __init__(self, seen: Look) -> None:
        rights = ", ".join(seen.missing[kind] for kind in sorted(seen.missing) if kind in NEEDED)
        super().__init__(f"you may not {rights}")
        self.look = seen


def open_world(options: ClusterOptions) -> tuple[World, Look]:
    """Look at a cluster and make a world of it; what of it is not followed is said on stderr.

    Raises
    ------
    FileError, SettingsError, WorldError, ApiUnreachableError, ConfigException
        If it cannot be read.
    NotSeenError
        If nodes or pods may not be seen.
    """
    seen = look(options, progress)
    world = make_world(seen)
    tell(world, seen)
    return world, seen


def make_world(seen: Look) -> World:
    """Make a world of what was seen.

    Raises
    ------
    WorldError
        If an object cannot be understood.
    NotSeenError
        If nodes or pods may not be seen.
    """
    if NEEDED & seen.missing.keys():
        raise NotSeenError(seen)
    world = World(seen.found.dialects, policy_defaults(seen.found.settings))
    progress(f"{len(seen.objects)} objects")
    world.add(seen.objects)
    progress("")
    if not world.nodes and not seen.live:
        raise WorldError("there is no Node among the objects of the cluster")
    return world


def tell(world: World, seen: Look) -> None:
    """Say on stderr what of a cluster could not be seen or is not followed, and which settings are assumed."""
    for problem in world.problems[:_MOST_PROBLEMS]:
        _warn(problem)
    if len(world.problems) > _MOST_PROBLEMS:
        _warn(f"and {len(world.problems) - _MOST_PROBLEMS} more")
    for kind, times in sorted(world.ignored.items()):
        objects = "object" if times == 1 else "objects"
        click.echo(f"ignored: {times} {objects} of kind {kind or '(none)'}", err=True)
    for kind, right in sorted(seen.missing.items()):
        _warn(f"objects of kind {kind} could not be seen ({right}): the answer assumes that there are none")
    if seen.found.problem:
        _warn(f"the settings of the cluster cannot be read: {seen.found.problem}")
    if seen.found.source == DEFAULTS:
        click.echo("settings: assumed (the defaults; --config gives others)", err=True)


def tell_about(world: World, pods: Iterable[Pod]) -> None:
    """Say on stderr what pods that are asked about hardly mean; the same of many pods of one template only once."""
    told: dict[str, list[str]] = {}
    for pod in pods:
        for text in world.engine.suspicions.of_pod(pod):
            told.setdefault(text, []).append(pod.key)
    for text, keys in told.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        _warn(f"Pod {keys[0]}{more}: {text}")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def progress(text: str) -> None:
    """Say on a terminal what is being done, in one line that the next one replaces; an empty text clears it."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text[:100]}", err=True, nl=False)


def give_up(message: str) -> NoReturn:
    """End with an error that is not the answer."""
    progress("")
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(_COULD_NOT)


def guarded(work: Callable[[], Any]) -> Any:
    """Do something; what cannot be read ends the command with a message and status 2."""
    try:
        return work()
    except (*UNREADABLE, NotSeenError) as error:
        give_up(str(error))
    except RecursionError:
        give_up(TOO_DEEP)

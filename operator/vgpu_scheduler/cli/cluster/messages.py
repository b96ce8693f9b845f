"""What the commands say on stderr beside their answers: warnings, progress and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn

import click

from vgpu_scheduler.cli.cluster.settings import DEFAULTS
from vgpu_scheduler.cli.cluster.view import ClusterView
from vgpu_scheduler.cli.settings_reference import known_variables, unknown_variables
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, counted
from vgpu_scheduler.whatif import World, refusals

_ERROR = 2
_MOST_PROBLEMS = 10
_LIST = "list "


def view_warnings(world: World, view: ClusterView) -> Iterator[str]:
    """Yield a line for what of a cluster could not be read or is left out, and where settings are assumed."""
    for problem in world.problems[:_MOST_PROBLEMS]:
        yield f"warning: {problem}"
    if len(world.problems) > _MOST_PROBLEMS:
        yield f"warning: and {len(world.problems) - _MOST_PROBLEMS} more"
    for kind, times in sorted(world.ignored.items()):
        yield f"ignored: {counted(times, 'object')} of kind {kind or '(none)'}"
    unseen = sorted(view.missing.items())
    if view.namespace:
        refused = [right.removeprefix(_LIST) for _, right in unseen if ":" not in right]
        unseen = [(kind, right) for kind, right in unseen if ":" in right]
        if refused:
            first = sorted(refused, key=lambda name: (name != "nodes", name))
            yield f"warning: you may see namespace {view.namespace} only: {', '.join(first)} are left out"
    for kind, right in unseen:
        yield f"warning: objects of kind {kind} could not be seen ({right}): the answer assumes that there are none"
    if view.scheduler.problem:
        yield f"warning: the settings of the cluster cannot be read: {view.scheduler.problem}"
    yield from (f"warning: {text}" for text in unknown_variables(view.scheduler.environment))
    variables = known_variables(view.scheduler.environment)
    also = f", with {', '.join(variables)} of the environment" if variables else ""
    if view.scheduler.source == DEFAULTS:
        yield f"settings: assumed (the defaults{also}; --config gives others)"
    elif also:
        yield f"settings: {view.scheduler.source}{also}"


def print_view_warnings(world: World, view: ClusterView) -> None:
    """Print the warnings about what was read of a cluster."""
    for line in view_warnings(world, view):
        click.echo(line, err=True)


def print_pod_warnings(world: World, pods: Iterable[Pod], decisions: Iterable[Decision] = ()) -> None:
    """Say what in pods looks like a mistake; the same of many pods of one template is said once.

    Parameters
    ----------
    decisions
        Whose warnings are said, too.
    """
    pods_by_text: dict[str, list[str]] = {}
    for pod in pods:
        for text in (*world.engine.usage_warnings.of_pod(pod), *refusals(pod)):
            pods_by_text.setdefault(text, []).append(pod.key)
    for decision in decisions:
        for text in decision.warnings:
            pods_by_text.setdefault(text, []).append(decision.pod)
    for text, keys in pods_by_text.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        warn(f"Pod {keys[0]}{more}: {text}")


def on_terminal() -> bool:
    """Tell whether a terminal shows the answer."""
    return sys.stdout.isatty()


def in_colour() -> bool:
    """Tell whether the answer may have colours: on a terminal, unless ``NO_COLOR`` is set (https://no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def warn(text: str) -> None:
    """Print a warning."""
    click.echo(f"warning: {text}", err=True)


def progress(text: str) -> None:
    """Show on a terminal what is being done, in one line that the next one replaces; an empty text clears it."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text[:100]}", err=True, nl=False)


def fail(message: str) -> NoReturn:
    """End the command with an error."""
    progress("")
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(_ERROR)

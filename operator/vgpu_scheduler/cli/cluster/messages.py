"""Messages of commands on stderr: warnings, progress and errors."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable
from typing import Final, NoReturn

import click

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision
from vgpu_scheduler.reading import ClusterView, pod_warnings, view_warnings
from vgpu_scheduler.whatif import World

ROLE_WITH_RIGHTS: Final = "The ClusterRole vgpu-scheduler-doctor (manifests/doctor) has the right"
"""Where the rights come from that a command needs in the whole cluster."""
_ERROR = 2
_ITEM = "  - "
"""The prefix of list items."""


def print_view_warnings(world: World, view: ClusterView) -> None:
    """Print the warnings about a view of a cluster."""
    for line in view_warnings(world, view):
        click.echo(line, err=True)


def print_pod_warnings(
    world: World, pods: Iterable[Pod], decisions: Iterable[Decision] = (), *, undecided: bool = False
) -> None:
    """Warn about likely mistakes in pods; the same warning about many pods of one template is printed once.

    Parameters
    ----------
    decisions
        Decisions whose warnings to print as well.
    undecided
        Whether nothing is decided for lack of nodes; see :func:`pod_warnings`.
    """
    for text in pod_warnings(world, pods, decisions, undecided=undecided):
        warn(text)


def on_terminal() -> bool:
    """Tell whether stdout is a terminal."""
    return sys.stdout.isatty()


def wrapped(text: str, width: int) -> str:
    """Wrap list items to the width of a terminal; tables and other lines stay as they are."""
    return "\n".join(_broken(line, width) if line.startswith(_ITEM) else line for line in text.splitlines())


def _broken(line: str, width: int) -> str:
    indent = " " * len(_ITEM)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def in_colour() -> bool:
    """Tell whether output may have colours: on a terminal, unless ``NO_COLOR`` is set (https://no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def warn(text: str) -> None:
    """Print a warning."""
    click.echo(f"warning: {text}", err=True)


def progress(text: str) -> None:
    """Show progress on a terminal, in one line that the next call replaces; an empty text clears it."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text[:100]}", err=True, nl=False)


def describe_error(error: Exception) -> str:
    """Describe an error that a user can do something about; of one about a file, name the file first."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def fail(message: str) -> NoReturn:
    """End the command with an error message."""
    progress("")
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(_ERROR)

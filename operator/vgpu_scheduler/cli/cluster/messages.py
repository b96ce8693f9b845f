"""What the commands say on stderr beside their answers: warnings, progress and errors."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable
from typing import NoReturn

import click

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision
from vgpu_scheduler.reading import ClusterView, pod_warnings, view_warnings
from vgpu_scheduler.whatif import World

INTERRUPTED = 130
"""What a shell calls the end by Ctrl-C."""
_ERROR = 2
_ITEM = "  - "
"""How an item of a list begins."""


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
    for text in pod_warnings(world, pods, decisions):
        warn(text)


def on_terminal() -> bool:
    """Tell whether a terminal shows the answer."""
    return sys.stdout.isatty()


def wrapped(text: str, width: int) -> str:
    """Break the lines of lists that are longer than a terminal is wide; tables and other lines stay as they are."""
    return "\n".join(_broken(line, width) if line.startswith(_ITEM) else line for line in text.splitlines())


def _broken(line: str, width: int) -> str:
    indent = " " * len(_ITEM)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


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

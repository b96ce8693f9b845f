"""The flags of ``vgpu-scheduler run``: those of the command, and those on the command line of a Deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.reading.hami_flags import hami_flags

_Command = Callable[..., None]

_OWN = (
    click.option("--config", type=click.Path(path_type=Path), help="Settings file (YAML)."),
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: the service account."
    ),
    click.option("--context", help="Context of the kubeconfig."),
    click.option("--scheduler-name", "scheduler_names", multiple=True, help="Place pods that name this scheduler."),
    click.option("--http-port", type=int, help="Port of health and metrics."),
    hami_flags,
    click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="How much is logged."),
)


def run_flags(command: _Command) -> _Command:
    """Give a command the flags of ``run``, in the order of its help."""
    for flag in reversed(_OWN):
        command = flag(command)
    return command


def parse_run_flags(args: Iterable[str]) -> dict[str, Any]:
    """Return what a command line of ``run`` gives, by the names of its parameters.

    Raises
    ------
    click.ClickException
        If there is no such flag, or its value is malformed.
    """

    @click.command("run")
    @run_flags
    def parser(**_: Any) -> None:
        """Only be parsed."""

    return parser.make_context("run", list(args)).params

"""The flags of ``vgpu-scheduler run``, for the command and for parsing the command line of a Deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.reading.hami_flags import hami_flags

_Command = Callable[..., None]

_OWN = (
    click.option("--config", type=click.Path(path_type=Path), help="Path to the settings file (YAML)."),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Path to the kubeconfig file; default: the service account.",
    ),
    click.option("--context", help="Name of the kubeconfig context to use."),
    click.option("--scheduler-name", "scheduler_names", multiple=True, help="Place pods that name this scheduler."),
    click.option("--http-port", type=int, help="Port of the health and metrics endpoints."),
    hami_flags,
    click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="Log level."),
)


def run_flags(command: _Command) -> _Command:
    """Add the flags of ``run`` to a command, in the order of its help."""
    for flag in reversed(_OWN):
        command = flag(command)
    return command


def parse_run_flags(args: Iterable[str]) -> dict[str, Any]:
    """Parse a command line of ``run``; return the values by parameter name.

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

"""``vgpu-scheduler run``: the operator."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path
from typing import Any

import click
import uvloop

from vgpu_scheduler.apiclient import ConfigException, end_tasks
from vgpu_scheduler.reading.hami_settings import given_settings
from vgpu_scheduler.runtime import Operator
from vgpu_scheduler.settings import Settings, SettingsError, load, unknown_variables
from vgpu_scheduler.telemetry.logs import configure

_CANNOT_LISTEN = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES})
_GRACE_PERIOD = 0.5
"""Seconds that tasks get to clean up at the end before they are cancelled again."""


def run(*, config: Path | None, **flags: Any) -> None:
    """Run the operator with the settings of flags, the environment and a file."""
    given, warnings = given_settings(flags)
    for warning in warnings:
        click.echo(f"vgpu-scheduler: {warning}", err=True)
    for warning in unknown_variables(os.environ):
        click.echo(f"vgpu-scheduler: {warning}", err=True)
    try:
        settings = load(config, given)
    except SettingsError as error:
        click.echo(f"vgpu-scheduler: {error}", err=True)
        sys.exit(2)
    run_operator(settings)


def run_operator(settings: Settings) -> None:
    """Run the operator with these settings, and exit with its status."""
    configure(settings.log_level, settings.log_format, sys.stderr)
    try:
        asked = uvloop.run(_run_alone(Operator(settings)))
    except SettingsError as error:  # from a file that the settings name
        click.echo(f"vgpu-scheduler: {error}", err=True)
        sys.exit(2)
    except ConfigException as error:
        click.echo(f"vgpu-scheduler: the API server cannot be reached: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.errno not in _CANNOT_LISTEN:
            raise
        click.echo(f"vgpu-scheduler: {error.strerror}", err=True)
        sys.exit(2)
    sys.exit(0 if asked else 1)


async def _run_alone(operator: Operator) -> bool:
    """Run an operator, then end all remaining tasks: a lost cancellation must not keep the process alive."""
    try:
        return await operator.run()
    finally:
        await end_tasks(asyncio.all_tasks() - {asyncio.current_task()}, _GRACE_PERIOD)

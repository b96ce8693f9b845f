"""``vgpu-scheduler run``: the operator."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import uvloop
from kubernetes_asyncio.config import ConfigException

from vgpu_scheduler.cli.hami_flags import from_hami, hami_flags
from vgpu_scheduler.runtime import Operator
from vgpu_scheduler.settings import Settings, SettingsError, load

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (YAML).")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: the service account.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--scheduler-name", "scheduler_names", multiple=True, help="Place pods that name this scheduler.")
@click.option("--http-port", type=int, help="Port of health and metrics.")
@hami_flags
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="How much is logged.")
def run(config: Path | None, **flags: Any) -> None:
    """Run the operator. The flags of HAMi's scheduler are understood, too."""
    given, warnings = given_settings(flags)
    for warning in warnings:
        click.echo(f"vgpu-scheduler: {warning}", err=True)
    try:
        settings = load(config, given)
    except SettingsError as error:
        click.echo(f"vgpu-scheduler: {error}", err=True)
        sys.exit(2)
    run_operator(settings)


def given_settings(flags: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that flags give, and warnings about those without effect."""
    hami, own, warnings = from_hami(flags)
    return {**hami, **{name: value for name, value in own.items() if value not in (None, ())}}, warnings


def run_operator(settings: Settings) -> None:
    """Run the operator with these settings until it ends, and exit accordingly."""
    logging.basicConfig(level=settings.log_level, format=_FORMAT, stream=sys.stderr)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # one line per event otherwise
    try:
        asked = uvloop.run(Operator(settings).run())
    except SettingsError as error:  # of a file that the settings name
        click.echo(f"vgpu-scheduler: {error}", err=True)
        sys.exit(2)
    except ConfigException as error:
        click.echo(f"vgpu-scheduler: no way to the API server: {error}", err=True)
        sys.exit(2)
    sys.exit(0 if asked else 1)

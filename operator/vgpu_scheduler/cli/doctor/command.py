"""The command."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import NoReturn

import click
from kubernetes_asyncio.config import ConfigException

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiUnreachableError, connect
from vgpu_scheduler.cli.doctor.look import CannotLookError, Where, look_at
from vgpu_scheduler.cli.doctor.show import as_json, as_text
from vgpu_scheduler.doctor import Report, Seen, examine
from vgpu_scheduler.settings import SettingsError

_HEALTHY, _FINDINGS, _COULD_NOT_LOOK = 0, 1, 2


@click.command("doctor")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: kubectl's.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--namespace", default="vgpu-system", show_default=True, help="Where the scheduler is installed.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file of the scheduler (YAML); default: its ConfigMap in the cluster.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def doctor_command(
    kubeconfig: Path | None, context: str | None, namespace: str, config: Path | None, output: str
) -> None:
    """Look for what is wrong in a cluster, without changing anything.

    Reads nodes, pods and what belongs to the scheduler with your own rights, and says of each finding which object it
    is about, what is wrong and what to do; docs/doctor.md explains them all. Checks for which your rights do not
    suffice are skipped, and name the right. Ends with 0 when all is well, with 1 when there are errors or warnings, and
    with 2 when there are none but not everything could be looked at.
    """
    logging.getLogger("vgpu_scheduler").setLevel(logging.CRITICAL)  # what is wrong is in the report
    where = Where(str(kubeconfig) if kubeconfig else None, context, namespace, config)
    try:
        seen = asyncio.run(_look(where))
    except (CannotLookError, ApiUnreachableError, SettingsError, ConfigException) as error:
        _give_up(str(error))
    except OSError as error:  # a certificate or key that the kubeconfig names
        _give_up(str(error))
    report = examine(seen)
    if output == "json":
        click.echo(json.dumps(as_json(seen, report), indent=2))
    else:
        for line in as_text(seen, report):
            click.echo(line)
    raise SystemExit(_status(report))


async def _look(where: Where) -> Seen:
    api = await connect(where.kubeconfig, where.context, f"vgpu-scheduler-doctor/{__version__}")
    try:
        return await look_at(api, where)
    finally:
        await api.close()


def _status(report: Report) -> int:
    if not report.healthy:
        return _FINDINGS
    return _HEALTHY if report.complete else _COULD_NOT_LOOK


def _give_up(message: str) -> NoReturn:
    click.echo(f"Error: could not look: {message}", err=True)
    raise SystemExit(_COULD_NOT_LOOK)

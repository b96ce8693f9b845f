"""``vgpu-scheduler doctor``: what is wrong in a cluster."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, offer, report_option, run_module


@click.command("doctor")
@click.option(
    "-n",
    "--namespace",
    help="Check the policies and quotas of this namespace only; default: of all namespaces.",
    shell_complete=offer("namespaces"),
)
@cluster_options
@report_option
def doctor(**options: Any) -> None:
    """Look for problems in a cluster, without changing anything.

    Reads nodes, pods and the scheduler's own objects with your own rights, and prints for each finding the object, the
    problem and the remedy; docs/doctor.md explains all findings. Checks for which your rights, or the files of
    --cluster, do not suffice are skipped, and say what is missing. Exits with 0 if there are no errors or warnings,
    with 1 if there are any, and with 2 if there are none but some checks were skipped.
    """
    run_module("doctor.command", **options)

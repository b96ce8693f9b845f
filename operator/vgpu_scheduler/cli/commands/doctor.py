"""``vgpu-scheduler doctor``: what is wrong in a cluster."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, offer, report_option, run_module


@click.command("doctor")
@click.option(
    "-n",
    "--namespace",
    help="Look at the policies and quotas of this namespace alone; default: at those of all.",
    shell_complete=offer("namespaces"),
)
@cluster_options
@report_option
def doctor(**options: Any) -> None:
    """Look for what is wrong in a cluster, without changing anything.

    Reads nodes, pods and what belongs to the scheduler with your own rights, and says of each finding which object it
    is about, what is wrong and what to do; docs/doctor.md explains them all. Checks for which your rights, or the files
    of --cluster, do not suffice are skipped, and name what is missing. Ends with 0 when all is well, with 1 when there
    are errors or warnings, and with 2 when there are none but not everything could be looked at.
    """
    run_module("doctor.command", **options)

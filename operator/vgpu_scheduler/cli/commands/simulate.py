"""``vgpu-scheduler simulate``: where would these pods go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import (
    FILE,
    ClusterOptions,
    check_stdin,
    cluster_options,
    output_option,
    run_module,
)


@click.command("simulate")
@click.option(
    "-f",
    "--file",
    "pods",
    multiple=True,
    type=FILE,
    help="Pods, or workloads, to place, and what comes with them: claims, policies, quotas (- is stdin).",
)
@click.option("--pending", is_flag=True, help="Place the pods of the cluster that wait, whatever scheduler they name.")
@click.option(
    "--count",
    metavar="N|max",
    help="Place so many copies of each pod, or as many as fit; each pod on the cluster as it is, without the others.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Policies that are added, or replace those of their name; nothing else may be in the file or folder.",
)
@click.option(
    "--add-node",
    "added",
    multiple=True,
    metavar="NODE[=N]|FILE",
    help="Add an empty node like one that is there, or N of them, or the nodes of a file.",
)
@click.option("--without", multiple=True, metavar="node/NAME|pod/NS/NAME", help="Leave a node or a pod out.")
@cluster_options
@click.option("--dialect", help="hami, volcano or koordinator, instead of the setting `dialects`.")
@click.option("--node-policy", type=click.Choice(["binpack", "spread"]), help="Instead of the setting.")
@click.option("--device-policy", help="Instead of the setting.")
@output_option
@click.option("--explain", "explained", is_flag=True, help="Say what every node scored, and why others do not fit.")
def simulate(pods: tuple[Path, ...], cluster: ClusterOptions, **options: Any) -> None:
    """Place pods on a copy of a cluster.

    Of the live one, or of one in files; nothing is written. The real engine decides, with its policies in force. Pods
    are tried by priority, then in the order of the files; each finds what those before it took. Deployments,
    ReplicaSets, StatefulSets and Jobs stand for their pods; other kinds are named and passed over. Ends with 1 when a
    pod finds no place, and with 2 when something cannot be read.
    """
    check_stdin((*pods, *cluster.files))
    run_module("simulate", pods=pods, cluster=cluster, **options)

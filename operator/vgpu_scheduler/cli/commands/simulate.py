"""``vgpu-scheduler simulate``: where would these pods go, and which policy packs best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.options import (
    FILE,
    NamespaceOptions,
    check_stdin,
    cluster_options,
    forecast_options,
    namespace_options,
    output_option,
    page_options,
    run_module,
)
from vgpu_scheduler.reading import ClusterOptions

_OF_PODS: Final = {
    "pods": "-f",
    "pending": "--pending",
    "namespaces": "-n and -A",
    "selector": "-l",
    "count": "--count",
    "added": "--add-node",
    "without": "--without",
    "node_policy": "--node-policy",
    "device_policy": "--device-policy",
    "preempt": "--preempt",
    "explained": "--explain",
    "forecast": "--forecast and --log",
}
_OF_TRACES: Final = {
    "workloads": "--workload",
    "fleet": "--fleet",
    "seed": "--seed",
    "runs": "--runs",
    "load": "--load",
}
"""Options that belong to one of the two kinds of questions, by the names of parameters."""
_SEED: Final = 42


@click.command("simulate")
@click.option(
    "-f",
    "--file",
    "pods",
    multiple=True,
    type=FILE,
    help="Pods, or workloads, to place, and what comes with them: claims, policies, quotas (- is stdin).",
)
@click.option("--pending", is_flag=True, help="Place the pods of a namespace that wait, whatever scheduler they name.")
@click.option("-l", "--selector", default="", help="With --pending: only pods that have these labels.")
@click.option(
    "--count",
    metavar="N|max",
    help="Place so many copies of each pod, or as many as fit; each pod on the cluster as it is, without the others.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Policies that are added, or replace those of their name; nothing else may be in the file or folder. With"
    " --trace, each is compared with the others: a file, or hami, hami-binpack, volcano-binpack, koordinator-most,"
    " fragmentation or learned-prices (default: these six).",
)
@click.option(
    "--add-node",
    "added",
    multiple=True,
    metavar="NODE[=N]|FILE",
    help="Add a node like one that is there, with its DaemonSets, or N of them, or the nodes of a file.",
)
@click.option("--without", multiple=True, metavar="node/NAME|pod/NS/NAME", help="Leave a node or a pod out.")
@click.option(
    "--trace",
    metavar="FOLDER|synthetic",
    help="Replay the pod lists of a folder in the format of Alibaba's trace openb, or a workload made from what was"
    " published of it, and compare policies.",
)
@click.option(
    "--workload", "workloads", multiple=True, metavar="NAME", help="Only openb_pod_list_NAME.csv of a folder."
)
@click.option(
    "--fleet",
    type=click.Choice(["trace", "cluster"]),
    help="Replay on the nodes of the trace, or on the cluster's, empty [default: trace; cluster where --cluster or"
    " --context says which]",
)
@click.option("--seed", type=click.IntRange(0), help=f"What order pods arrive in [default: {_SEED}]")
@click.option("--runs", type=click.IntRange(1, 1000), help="Replay with so many seeds, from --seed on [default: 1]")
@click.option(
    "--load",
    type=click.FloatRange(0.0, 10.0, min_open=True),
    help="Let pods leave, too: so much of all cards is asked for on average (1 is all of them).",
)
@namespace_options
@cluster_options
@page_options
@forecast_options
@click.option("--dialect", help="hami, volcano or koordinator, instead of the setting `dialects`.")
@click.option("--node-policy", type=click.Choice(["binpack", "spread"]), help="Instead of the setting.")
@click.option("--device-policy", help="Instead of the setting.")
@output_option
@click.option(
    "--preempt",
    is_flag=True,
    help="Have pods of lower priority go where a policy lets others evict them, and say which: later pods find it so.",
)
@click.option("--explain", "explained", is_flag=True, help="Say what every node scored, and why others do not fit.")
def simulate(
    pods: tuple[Path, ...], trace: str | None, policies: tuple[Path, ...], cluster: ClusterOptions, **options: Any
) -> None:
    """Place pods on a copy of a cluster.

    Of the live one, or of one in files; nothing is written. The real engine decides, with its policies in force. Pods
    of files that name no namespace are in that of -n, or of the context, as kubectl would create them. Pods are tried
    by priority, then in the order of the files; each finds what those before it took. Workloads stand for their pods:
    Deployments, ReplicaSets, StatefulSets and Jobs, JobSets, LeaderWorkerSets, the jobs of Kubeflow's Training
    Operator, TrainJobs beside their runtimes, RayClusters and RayJobs; other kinds are named and passed over. With
    --preempt, who would have to go for a pod that fits nowhere goes; what their controllers would make anew does not
    come. Ends with 1 when a pod finds no place, and with 2 when something cannot be read.

    With --trace, thousands of pods arrive at empty nodes until 130 percent of the cards were asked for, and policies
    are compared: how much of the cards is allocated at 100, 110 and 130 percent, what is left and no typical pod can
    use, who was rejected, and what nobody uses. Every placement is audited.
    """
    of_traces = {name: options.pop(name) for name in _OF_TRACES}
    if trace is not None:
        _refuse({"pods": pods, **options}, _OF_PODS, "it does not go with --trace")
        if cluster.page is not None and not cluster.page.by_default:
            raise click.UsageError("--ui: it does not go with --trace")
        _replay(trace, policies, cluster, of_traces, options)
        return
    _refuse(of_traces, _OF_TRACES, "it is about --trace")
    for path in policies:
        if not path.exists():
            raise click.BadParameter(f"Path '{path}' does not exist.", param_hint="'--policy'")
    check_stdin((*pods, *cluster.files))
    run_module("simulate", pods=pods, policies=policies, cluster=cluster, **options)


def _refuse(given: Mapping[str, Any], flags: Mapping[str, str], why: str) -> None:
    for name, flag in flags.items():
        value = given[name]
        if not (value is None or value is False or value in ((), "", NamespaceOptions())):  # a seed may be 0
            raise click.UsageError(f"{flag}: {why}")


def _replay(
    trace: str, policies: tuple[Path, ...], cluster: ClusterOptions, given: Mapping[str, Any], options: dict[str, Any]
) -> None:
    named = bool(cluster.files) or cluster.context is not None
    if named and given["fleet"] == "trace":
        raise click.UsageError("--fleet trace goes without a cluster")
    first = _SEED if given["seed"] is None else given["seed"]
    dialects = {} if options["dialect"] is None else {"dialects": [options["dialect"]]}
    run_module(
        "traces.command",
        trace=trace,
        cluster=replace(cluster, overrides=dialects),
        policies=policies,
        workloads=given["workloads"],
        on_cluster=named or given["fleet"] == "cluster",
        seeds=range(first, first + (given["runs"] or 1)),
        load=given["load"],
        output=options["output"],
    )

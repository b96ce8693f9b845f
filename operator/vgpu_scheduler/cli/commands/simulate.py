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
"""The options of each of the two kinds of questions, by parameter name."""
_SEED: Final = 42


@click.command("simulate")
@click.option(
    "-f",
    "--file",
    "pods",
    multiple=True,
    type=FILE,
    help="Path to pods or workloads to place, and to their claims, policies and quotas (- is stdin).",
)
@click.option("--pending", is_flag=True, help="Place the waiting pods of the namespace, whatever scheduler they name.")
@click.option("-l", "--selector", default="", help="With --pending: only pods with these labels.")
@click.option(
    "--count",
    metavar="N|max",
    help="Number of copies of each pod to place, or as many as fit; each pod alone, on the cluster as it is.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Path to a file or folder of policies only; they are added, or replace those of the same name. With --trace,"
    " a policy to compare: a file, or hami, hami-binpack, volcano-binpack, koordinator-most, fragmentation or"
    " learned-prices (default: these six).",
)
@click.option(
    "--add-node",
    "added",
    multiple=True,
    metavar="NODE[=N]|FILE",
    help="Add a copy of an existing node, with its DaemonSets, or N copies, or the nodes in a file.",
)
@click.option("--without", multiple=True, metavar="node/NAME|pod/NS/NAME", help="Leave out a node or a pod.")
@click.option(
    "--trace",
    metavar="FOLDER|synthetic",
    help="Compare policies by replaying the pod lists of a folder, in the format of Alibaba's trace openb, or a"
    " workload generated from its published data.",
)
@click.option(
    "--workload", "workloads", multiple=True, metavar="NAME", help="Replay only openb_pod_list_NAME.csv of the folder."
)
@click.option(
    "--fleet",
    type=click.Choice(["trace", "cluster"]),
    help="Replay on the nodes of the trace, or on those of the cluster, without its pods [default: trace; cluster with"
    " --cluster or --context]",
)
@click.option("--seed", type=click.IntRange(0), help=f"Seed of the order of arrivals [default: {_SEED}]")
@click.option(
    "--runs", type=click.IntRange(1, 1000), help="Number of replays, with the seeds from --seed on [default: 1]"
)
@click.option(
    "--load",
    type=click.FloatRange(0.0, 10.0, min_open=True),
    help="Also let pods leave, so that this share of all cards is requested on average (1 is all of them).",
)
@namespace_options
@cluster_options
@page_options
@forecast_options
@click.option("--dialect", help="Dialect: hami, volcano or koordinator, instead of the setting `dialects`.")
@click.option("--node-policy", type=click.Choice(["binpack", "spread"]), help="Overrides the setting `node_policy`.")
@click.option("--device-policy", help="Overrides the setting `device_policy`.")
@output_option
@click.option(
    "--preempt",
    is_flag=True,
    help="Evict pods of lower priority where a policy allows it, and name them; they are gone for later pods, too.",
)
@click.option("--explain", "explained", is_flag=True, help="Show each node's score, or why it does not fit.")
def simulate(
    pods: tuple[Path, ...], trace: str | None, policies: tuple[Path, ...], cluster: ClusterOptions, **options: Any
) -> None:
    """Place pods on a copy of a cluster.

    Copies the live cluster, or the one in --cluster; writes nothing to it. The real engine decides, with the cluster's
    policies. As with kubectl, pods in files that name no namespace belong to that of -n or of the context. Pods are
    tried by priority, then in the order of the files; each sees the placements before it. Workloads stand for their
    pods: Deployments, ReplicaSets, StatefulSets and Jobs, JobSets, LeaderWorkerSets, the jobs of Kubeflow's Training
    Operator, TrainJobs beside their runtimes, RayClusters and RayJobs; other kinds are named and skipped. With
    --preempt, the victims of a pod that fits nowhere are evicted; pods that their controllers would recreate are left
    out. Exits with 1 if a pod fits nowhere, and with 2 if something cannot be read.

    With --trace, thousands of pods arrive at empty nodes until they have requested 130 percent of the cards. Policies
    are compared by the share of the cards that is allocated at 100, 110 and 130 percent, the free share that no typical
    pod can use, the rejected pods, and idle nodes and cards. Every placement is audited.
    """
    trace_options = {name: options.pop(name) for name in _OF_TRACES}
    if trace is None:
        _refuse(trace_options, _OF_TRACES, "it is for --trace")
        _place_pods(pods, policies, cluster, options)
    else:
        _refuse({"pods": pods, **options}, _OF_PODS, "it cannot be used with --trace")
        _place_trace(trace, policies, cluster, {**options, **trace_options})


def _refuse(given: Mapping[str, Any], flags: Mapping[str, str], why: str) -> None:
    for name, flag in flags.items():
        value = given[name]
        if not (value is None or value is False or value in ((), "", NamespaceOptions())):  # a seed may be 0
            raise click.UsageError(f"{flag}: {why}")


def _place_pods(
    pods: tuple[Path, ...], policies: tuple[Path, ...], cluster: ClusterOptions, options: Mapping[str, Any]
) -> None:
    """Place the pods of files, or those that wait, on a copy of a cluster."""
    for path in policies:
        if not path.exists():
            raise click.BadParameter(f"Path '{path}' does not exist.", param_hint="'--policy'")
    check_stdin((*pods, *cluster.files))
    run_module("simulate", pods=pods, policies=policies, cluster=cluster, **options)


def _place_trace(trace: str, policies: tuple[Path, ...], cluster: ClusterOptions, options: Mapping[str, Any]) -> None:
    """Place the pods of a trace on empty nodes, and compare the policies by the result."""
    if cluster.page is not None and not cluster.page.by_default:
        raise click.UsageError("--ui: it cannot be used with --trace")
    is_cluster_named = bool(cluster.files) or cluster.context is not None
    if is_cluster_named and options["fleet"] == "trace":
        raise click.UsageError("--fleet trace cannot be used with a cluster")
    first = _SEED if options["seed"] is None else options["seed"]
    dialects = {} if options["dialect"] is None else {"dialects": [options["dialect"]]}
    run_module(
        "traces.command",
        trace=trace,
        cluster=replace(cluster, overrides=dialects),
        policies=policies,
        workloads=options["workloads"],
        on_cluster=is_cluster_named or options["fleet"] == "cluster",
        seeds=range(first, first + (options["runs"] or 1)),
        load=options["load"],
        output=options["output"],
    )

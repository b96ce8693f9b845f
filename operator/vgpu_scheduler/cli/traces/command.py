"""Answers ``vgpu-scheduler simulate --trace``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from vgpu_scheduler.cli.cluster.messages import fail, print_view_warnings, progress, warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.progress_bar import progress_bar
from vgpu_scheduler.cli.cluster.world import announce_compiling, exit_on_error, make_world
from vgpu_scheduler.cli.traces.reading import read_trace
from vgpu_scheduler.cli.traces.show import show
from vgpu_scheduler.model import counted
from vgpu_scheduler.reading import ClusterOptions, FileError, read_cluster, read_policies
from vgpu_scheduler.whatif.traces import (
    CONTENDERS,
    AuditError,
    EnginePlacer,
    Fleet,
    NamedPolicies,
    Run,
    Summary,
    TraceNode,
    TracePod,
    churning_run,
    measure,
    nodes_of_cluster,
    replay,
    static_run,
    typical_pods,
)

_STEPS: Final = 50
"""Steps between two updates of the progress bar."""
Workloads = Mapping[str, Sequence[TracePod]]


def run(  # noqa: PLR0913 - one for each option of the command
    *,
    trace: str,
    cluster: ClusterOptions,
    policies: Sequence[Path],
    workloads: Sequence[str],
    on_cluster: bool,
    seeds: Sequence[int],
    load: float | None,
    output: str,
) -> None:
    """Replay a trace under each policy, and print the results."""
    with exit_on_error():
        contenders = _contenders(policies)
        found = read_trace(trace, workloads, with_nodes=not on_cluster)
        fleet = Fleet(_nodes_of(cluster) if on_cluster else found.nodes)
        asked = _of_any_model(found.workloads) if on_cluster else found.workloads
        _warn_of_models(asked, fleet)
        if not on_cluster:
            announce_compiling()
        summaries = _replayed(fleet, asked, contenders, seeds, load, shuffled=not on_cluster)
    for summary in summaries:
        if summary.withheld:
            pods = counted(summary.withheld, "pod")
            warn(f"{summary.policy}: it reports that it rejected {pods} that a node had room for")
    if output in FOR_PEOPLE:
        show(summaries)
    else:
        dump([summary.as_json() for summary in summaries], output)


# What is replayed ----------------------------------------------------------------------------------------------------


def _contenders(policies: Sequence[Path]) -> list[NamedPolicies]:
    """Return the policies to compare: each file, folder or predefined name is in force alone."""
    if not policies:
        return list(CONTENDERS.values())
    found = []
    for path in policies:
        if path.exists():
            found.append(NamedPolicies(path.stem, read_policies(path)))
        elif str(path) in CONTENDERS:
            found.append(CONTENDERS[str(path)])
        else:
            raise FileError(f"--policy {path}: there is no such file, and it is not one of {', '.join(CONTENDERS)}")
    for name in {contender.name for contender in found}:
        if [contender.name for contender in found].count(name) > 1:
            raise FileError(f"--policy: two files are called {name}: rename one")
    return found


def _nodes_of(options: ClusterOptions) -> list[TraceNode]:
    """Return the nodes of the cluster, after warnings about what does not count."""
    view = read_cluster(options, progress)
    world = make_world(view)
    progress("")
    print_view_warnings(world, view)
    nodes, left_out = nodes_of_cluster(world)
    for reason in left_out:
        warn(f"{reason}: it is ignored")
    return nodes


def _of_any_model(workloads: Workloads) -> Workloads:
    """Return workloads without card models, because a cluster has other models than the trace."""
    if any(pod.models for pods in workloads.values() for pod in pods):
        warn("the card models that pods of the trace ask for are ignored on the nodes of a cluster")
    return {name: [replace(pod, models=()) for pod in pods] for name, pods in workloads.items()}


def _warn_of_models(workloads: Workloads, fleet: Fleet) -> None:
    for name, pods in workloads.items():
        strangers = sum(bool(pod.models) and not fleet.allowed(pod).any() for pod in pods)
        if strangers:
            warn(f"{name}: no node has a card of the models that {counted(strangers, 'pod')} would take")


# The replay ----------------------------------------------------------------------------------------------------------


def _replayed(
    fleet: Fleet,
    workloads: Workloads,
    contenders: Sequence[NamedPolicies],
    seeds: Sequence[int],
    load: float | None,
    *,
    shuffled: bool,
) -> list[Summary]:
    """Replay every workload under every policy, with the same arrivals for all policies."""
    runs = {
        name: [_run(fleet, pods, seed, load, shuffled=shuffled) for seed in seeds] for name, pods in workloads.items()
    }
    steps = sum(len(run.arrivals.steps) for each in runs.values() for run in each) * len(contenders)
    summaries = []
    with progress_bar("", steps) as bar:
        done = count(1)

        def on_step() -> None:
            if next(done) % _STEPS == 0:
                bar.advance(_STEPS)

        for name, pods in workloads.items():
            mix = typical_pods(pods)
            for contender in contenders:
                results = []
                for each in runs[name]:
                    bar.describe(f"{name}, {contender.name}, seed {each.seed}")
                    locations = replay(each.arrivals, EnginePlacer(each.fleet, contender.policies), on_step)
                    try:
                        results.append(measure(each, locations, mix))
                    except AuditError as error:
                        fail(
                            f"{name}, {contender.name}, seed {each.seed}: the audit found an impossible state: {error}"
                        )
                summaries.append(Summary(name, contender.name, runs[name], results))
    return summaries


def _run(fleet: Fleet, pods: Sequence[TracePod], seed: int, load: float | None, *, shuffled: bool) -> Run:
    if load is None:
        return static_run(fleet, pods, seed, shuffled=shuffled)
    return churning_run(fleet, pods, seed, load, shuffled=shuffled)

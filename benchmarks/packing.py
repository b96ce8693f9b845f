"""How much of the cards policies give out on production traces, beside fragmentation gradient descent (FGD).

The trace openb is not part of this repository: ``OPENB_DATA``, or ``--data``, names the folder with its lists
(github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, folder csv). Without it, a workload that is made from its
published distribution is measured instead.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.fgd import FgdPlacer
from benchmarks.page import TARGET, write_between
from vgpu_scheduler.cli.traces.reading import SYNTHETIC, Trace, read_trace
from vgpu_scheduler.whatif.traces import (
    CONTENDERS,
    POINTS,
    EnginePlacer,
    Fleet,
    Placer,
    Run,
    RunResult,
    Summary,
    TraceNode,
    TracePod,
    TypicalPod,
    churning_run,
    measure,
    replay,
    static_run,
    typical_pods,
)

MARK: Final = "<!-- packing -->"
DATA: Final = "OPENB_DATA"
FGD: Final = "fgd"
OURS: Final = "fragmentation"
PUBLISHED: Final = {"default": 95.23, "gpushare100": 86.64, "multigpu50": 97.09, "gpuspec33": 87.84, "cpu200": 94.82}
"""Allocation at 100 percent of demand under FGD, the mean of seeds 42 to 51: expected_results of the paper's artifact
(github.com/hkust-adsl/kubernetes-scheduler-simulator)."""
SEED: Final = 42
LOADS: Final = (0.95, 1.0, 1.1)
LONG: Final = ("hami-binpack", OURS, "learned-prices")
"""The policies that are replayed with departures, too: that takes long."""
TOLERANCE: Final = 0.6
"""How far our FGD may be from the published one: some seeds, and another shuffle."""
Say = Callable[[str], None]
Map = Callable[[Callable[["Task"], list[RunResult]], Iterable["Task"]], Iterable[list[RunResult]]]


class PackingError(Exception):
    """Something that must not be: a pod that a policy of ours kept from a node with room."""


@dataclass(frozen=True, slots=True)
class Task:
    """One policy on one workload, seed by seed."""

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]
    workload: str
    policy: str
    seeds: Sequence[int]
    load: float | None

    def runs(self) -> list[Run]:
        """Return what is replayed: the same for every policy."""
        fleet = Fleet(self.nodes)
        if self.load is None:
            return [static_run(fleet, self.pods, seed) for seed in self.seeds]
        return [churning_run(fleet, self.pods, seed, self.load) for seed in self.seeds]


def placer_of(policy: str, fleet: Fleet, mix: Sequence[TypicalPod]) -> Placer:
    """Return who decides under a policy, or as FGD, on a fleet that is empty."""
    if policy == FGD:
        return FgdPlacer(fleet, mix)
    return EnginePlacer(fleet, CONTENDERS[policy].policies)


def replayed(task: Task) -> list[RunResult]:
    """Replay one policy with every seed.

    Raises
    ------
    AuditError
        If a placement cannot be.
    """
    mix = typical_pods(task.pods)
    return [measure(run, replay(run.arrivals, placer_of(task.policy, run.fleet, mix)), mix) for run in task.runs()]


def compare(
    trace: Trace, policies: Sequence[str], seeds: Sequence[int], load: float | None, say: Say, each: Map = map
) -> list[Summary]:
    """Replay all workloads under FGD and under policies, with the same arrivals, on the same order of nodes.

    Parameters
    ----------
    load
        What is asked for on average where pods leave; None where nobody does.
    say
        Is called with what was measured.
    each
        Calls a function with each task, in order, perhaps in several processes.

    Raises
    ------
    PackingError
        If a pod was rejected that a node had room for.
    AuditError
        If a placement cannot be.
    """
    tasks = [
        Task(trace.nodes, pods, workload, policy, seeds, load)
        for workload, pods in trace.workloads.items()
        for policy in (FGD, *policies)
    ]
    found = []
    for task, results in zip(tasks, each(replayed, tasks), strict=True):
        summary = Summary(task.workload, task.policy, task.runs(), results)
        if summary.withheld:
            raise PackingError(f"{task.workload}, {task.policy}: {summary.withheld} pods were rejected that had room")
        at_load = "" if load is None else f" at load {load:g}"
        say(f"{task.workload}, {task.policy}{at_load}: {summary.mean(0, 'allocation'):.2f} percent")
        found.append(summary)
    return found


def gains(ours: Summary, baseline: Summary, point: int = 0) -> list[float]:
    """Return by how much more is allocated than under a baseline, seed by seed, in percent of the cards."""
    pairs = zip(ours.results, baseline.results, strict=True)
    return [one.points[point].allocation - other.points[point].allocation for one, other in pairs]


def far_from_published(summaries: Sequence[Summary]) -> list[str]:
    """Return where our FGD is not what was published, a sentence each."""
    told = []
    for summary in summaries:
        published = PUBLISHED.get(summary.workload)
        if summary.policy == FGD and published and abs(summary.mean(0, "allocation") - published) > TOLERANCE:
            told.append(f"{summary.workload}: FGD gives out {summary.mean(0, 'allocation'):.2f}, published {published}")
    return told


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Attributes
    ----------
    folder
        Of the trace, or ``synthetic``.
    workloads
        All if empty.
    churning
        How many of the seeds are replayed with departures, too, under some of the policies.
    """

    folder: str
    workloads: Sequence[str] = ()
    policies: Sequence[str] = tuple(CONTENDERS)
    seeds: Sequence[int] = tuple(range(SEED, SEED + 3))
    churning: int = 1
    processes: int = 1


# The page ------------------------------------------------------------------------------------------------------------


def text(static: Sequence[Summary], churning: Mapping[float, Sequence[Summary]]) -> str:
    """Return the tables in Markdown."""
    lines = [*_allocations(static), "", *_gains(static), "", *_states(static)]
    for load, summaries in churning.items():
        lines += ["", *_churn(load, summaries)]
    return "\n".join(lines)


def _table(first: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    head = [f"| {' | '.join((first, *columns))} |", f"|---|{'---:|' * len(columns)}"]
    return head + [f"| {' | '.join((name, *cells))} |" for name, cells in rows.items()]


def _seeds(summaries: Sequence[Summary]) -> str:
    seeds = [run.seed for run in summaries[0].runs]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _by_policy(summaries: Sequence[Summary]) -> tuple[list[str], dict[str, list[Summary]]]:
    """Return the workloads, and the summaries of each policy in their order."""
    workloads = list(dict.fromkeys(summary.workload for summary in summaries))
    policies = dict.fromkeys(summary.policy for summary in summaries)
    return workloads, {name: [found for found in summaries if found.policy == name] for name in policies}


def _allocations(summaries: Sequence[Summary]) -> Iterator[str]:
    workloads, policies = _by_policy(summaries)
    fleet = summaries[0].runs[0].fleet
    yield (
        f"Percent of {sum(len(node.models) for node in fleet.nodes):,} cards on {len(fleet.nodes):,} nodes that are"
        f" given out when 100, 110 and 130 percent of them were asked for; {_seeds(summaries)}."
    )
    for number, point in enumerate(POINTS):
        rows = {name: [f"{one.mean(number, 'allocation'):.2f}" for one in found] for name, found in policies.items()}
        if not number and set(workloads) & PUBLISHED.keys():
            rows = {"fgd as published": [f"{PUBLISHED.get(name, '')}" for name in workloads], **rows}
        yield ""
        yield from _table(f"at {point} %", workloads, rows)


def _gains(summaries: Sequence[Summary]) -> Iterator[str]:
    workloads, policies = _by_policy(summaries)
    yield "The difference to FGD at 100 % in points, seed by seed, and how many seeds it won:"
    yield ""
    rows = {}
    for name, found in policies.items():
        if name != FGD:
            pairs = [gains(ours, fgd) for ours, fgd in zip(found, policies[FGD], strict=True)]
            rows[name] = [f"{fmean(each):+.2f}, {sum(one > 0 for one in each)} of {len(each)}" for each in pairs]
    yield from _table("", workloads, rows)


def _states(summaries: Sequence[Summary]) -> Iterator[str]:
    workloads, policies = _by_policy(summaries)
    yield (
        "How things stand at 100 %: percent of the cards that are free and of no use to a typical pod / rejected pods"
        " / idle nodes / idle cards:"
    )
    yield ""
    rows = {
        name: [
            f"{one.mean(0, 'fragmentation'):.2f} / "
            + " / ".join(f"{one.mean(0, measured):.0f}" for measured in ("rejected", "idle_nodes", "idle_cards"))
            for one in found
        ]
        for name, found in policies.items()
    }
    yield from _table("", workloads, rows)


def _churn(load: float, summaries: Sequence[Summary]) -> Iterator[str]:
    workloads, policies = _by_policy(summaries)
    yield (
        f"With departures, load {load:g}: percent of the cards given out on average after the warm-up (the difference"
        f" to FGD in points, rejected pods in all, idle cards at the end); {_seeds(summaries)}."
    )
    yield ""
    rows = {}
    for name, found in policies.items():
        differences = [fmean(gains(one, fgd)) for one, fgd in zip(found, policies[FGD], strict=True)]
        rows[name] = [
            f"{one.mean(0, 'allocation'):.2f} ({difference:+.2f}, {one.mean(0, 'rejected'):.0f},"
            f" {one.mean(0, 'idle_cards'):.0f})"
            for one, difference in zip(found, differences, strict=True)
        ]
    yield from _table("", workloads, rows)


# The command ---------------------------------------------------------------------------------------------------------


def write(measured: str) -> None:
    """Put the tables where the page has their marks."""
    write_between(MARK, measured)


def measured(plan: Plan, say: Say) -> str:
    """Measure everything, and return the tables.

    Raises
    ------
    FileError, TraceError
        If the trace cannot be read.
    PackingError, AuditError
        If something is not as it must be.
    """
    trace = read_trace(plan.folder, plan.workloads, with_nodes=True)
    with ProcessPoolExecutor(plan.processes) as pool:
        each: Map = pool.map if plan.processes > 1 else map
        static = compare(trace, plan.policies, plan.seeds, None, say, each)
        for sentence in far_from_published(static):
            raise PackingError(sentence)
        seeds, policies = plan.seeds[: plan.churning], [name for name in plan.policies if name in LONG]
        return text(static, {load: compare(trace, policies, seeds, load, say, each) for load in LOADS if seeds})


def options(prog: str, about: str | None, runs: int) -> argparse.ArgumentParser:
    """Return the options that all benchmarks with traces have.

    Parameters
    ----------
    prog
        The module's name.
    runs
        How many seeds are replayed unless it is said.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=about)
    parser.add_argument("--data", default=os.environ.get(DATA, ""), help=f"folder of the trace; default: {DATA}")
    parser.add_argument("--workload", action="append", default=[], help="only this one; may be given again")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--runs", type=int, default=runs, help="so many seeds, from --seed on")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write the tables to {TARGET.name}")
    return parser


def folder_of(data: str) -> str:
    """Return the folder of the trace, or what stands for one; say so where it is not named."""
    if not data:
        say(f"openb skipped: neither {DATA} nor --data names its folder; a synthetic workload is measured")
    return data or SYNTHETIC


def main() -> None:
    """Measure, print, and write where that is wished."""
    parser = options("benchmarks.packing", __doc__, 3)
    parser.add_argument("--policy", action="append", choices=list(CONTENDERS), help="only this one beside FGD")
    parser.add_argument("--churning", type=int, default=1, help="so many of them with departures, too")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.runs)
    policies = given.policy or tuple(CONTENDERS)
    plan = Plan(folder_of(given.data), given.workload, policies, seeds, given.churning, given.processes)
    found = measured(plan, say)
    print(found)
    if given.write:
        write(found)


def say(what: str) -> None:
    """Tell what was measured, beside the tables."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""What administrators count where pods wait for room: waiting times by size, nodes kept free, pods moved or evicted.

Pods come as in ``packing`` with departures, the same ones for every policy; but one that does not fit waits until it
does (``packing_serving``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.packing import FGD, OURS, Say, Task, folder_of, options, placer_of, say
from benchmarks.packing_serving import SIZES, Demand, Service, Waits, assess, serve
from benchmarks.page import write_between
from vgpu_scheduler.cli.traces.reading import Trace, read_trace
from vgpu_scheduler.whatif.traces import typical_pods

MARK: Final = "<!-- packing queue -->"
POLICIES: Final = (FGD, "hami-binpack", OURS, "learned-prices")
LOAD: Final = 0.95
Map = Callable[[Callable[[Task], list[Service]], Iterable[Task]], Iterable[list[Service]]]


@dataclass(frozen=True, slots=True)
class Served:
    """What a task came to, seed by seed."""

    task: Task
    services: Sequence[Service]

    def waits(self, size: str) -> Waits:
        """Return how long pods of a size waited, those of all seeds together."""
        found = [service.waits[size] for service in self.services]
        return Waits([time for waits in found for time in waits.times], sum(waits.never for waits in found))

    @property
    def allocation(self) -> float:
        """Percent of the cards that were given out, the mean over the seeds."""
        return fmean(service.allocation for service in self.services)

    @property
    def free_nodes(self) -> tuple[float, float]:
        """Nodes that nobody used, and those with eight cards among them, means over the seeds."""
        every, large = zip(*(service.free_nodes for service in self.services), strict=True)
        return fmean(every), fmean(large)

    @property
    def disturbed(self) -> tuple[int, int]:
        """Pods that were moved, and evicted, in all."""
        return sum(service.moved for service in self.services), sum(service.evicted for service in self.services)


def served(task: Task) -> list[Service]:
    """Replay one policy with every seed.

    Raises
    ------
    PackingError
        If a pod waited although it would have fitted.
    AuditError
        If a placement cannot be.
    """
    mix, found = typical_pods(task.pods), []
    for run in task.runs():
        demand = Demand.of(run)
        found.append(assess(demand, serve(demand, placer_of(task.policy, demand.fleet, mix))))
    return found


def compare(
    trace: Trace, seeds: Sequence[int], load: float, say: Say, each: Map = map, policies: Sequence[str] = POLICIES
) -> list[Served]:
    """Replay all workloads under each policy, with the same arrivals.

    Parameters
    ----------
    load
        What is asked for on average, as a part of all cards.
    say
        Is called with what was measured.
    each
        Calls a function with each task, in order, perhaps in several processes.

    Raises
    ------
    PackingError, AuditError
        See :func:`served`.
    """
    tasks = [
        Task(trace.nodes, pods, workload, policy, seeds, load)
        for workload, pods in trace.workloads.items()
        for policy in policies
    ]
    found = []
    for task, services in zip(tasks, each(served, tasks), strict=True):
        one = Served(task, services)
        waits = ", ".join(f"{size} {100.0 * one.waits(size).mean:.1f}" for size in SIZES)
        say(f"{task.workload}, {task.policy}: {one.allocation:.2f} percent, waits {waits}")
        found.append(one)
    return found


# The page ------------------------------------------------------------------------------------------------------------


def text(found: Sequence[Served]) -> str:
    """Return the table in Markdown."""
    task = found[0].task
    told = f"seed {task.seeds[0]}" if len(task.seeds) == 1 else f"seeds {task.seeds[0]} to {task.seeds[-1]}"
    columns = [*SIZES, "given out", "nodes free", "moved, evicted"]
    lines = [
        f"Waiting time in percent of the mean lifetime, mean / 95th percentile, at load {task.load:g}; {told}.",
        "",
        f"| | | {' | '.join(columns)} |",
        f"|---|---|{'---:|' * len(columns)}",
    ]
    before = ""
    for one in found:
        if one.task.workload != before:
            before = one.task.workload
            counts = [f"{len(one.waits(size).times):,}" for size in SIZES]
            lines.append(f"| {before} | pods that came | {' | '.join(counts)} | | | |")
        lines.append(f"| {before} | {one.task.policy} | {' | '.join(_cells(one))} |")
    return "\n".join(lines)


def _cells(one: Served) -> Iterator[str]:
    for size in SIZES:
        waits = one.waits(size)
        never = f", {waits.never:,} never" if waits.never else ""
        yield f"{100.0 * waits.mean:.1f} / {100.0 * waits.p95:.1f}{never}" if waits.times else "–"
    yield f"{one.allocation:.2f}"
    every, large = one.free_nodes
    yield f"{every:.1f}, of 8 cards {large:.1f}"
    moved, evicted = one.disturbed
    yield f"{moved}, {evicted}"


def main() -> None:
    """Measure, print, and write where that is wished."""
    parser = options("benchmarks.packing_queue", __doc__, 1)
    parser.add_argument("--load", type=float, default=LOAD, help="what is asked for on average, as a part of all cards")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="only this one; may be given again")
    given = parser.parse_args()
    trace = read_trace(folder_of(given.data), given.workload, with_nodes=True)
    seeds, policies = range(given.seed, given.seed + given.runs), given.policy or POLICIES
    with ProcessPoolExecutor(given.processes) as pool:
        each: Map = pool.map if given.processes > 1 else map
        measured = text(compare(trace, seeds, given.load, say, each, policies))
    print(measured)
    if given.write:
        write_between(MARK, measured)


if __name__ == "__main__":
    main()

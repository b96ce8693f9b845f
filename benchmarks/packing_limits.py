"""Where the rest of the cards is lost: what is given out at 100 percent of demand with one limit lifted at a time.

The pods are those of ``packing`` that have come when they have asked for all cards. A limit is lifted by changing
them, or their order, before they come: what is given out more then is what the limit costs a policy that does not know
the future either. Beside it stands what nobody can give out more than who knows all of them (``packing_bound``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean
from typing import Final

import numpy as np

from benchmarks.packing import FGD, PackingError, Say, folder_of, options, placer_of, say
from benchmarks.packing_bound import most
from benchmarks.page import write_between
from vgpu_scheduler.cli.traces.reading import Trace, read_trace
from vgpu_scheduler.whatif.traces import Arrivals, Fleet, TraceNode, TracePod, audited, replay, static_run, typical_pods

MARK: Final = "<!-- packing limits -->"
POLICIES: Final = (FGD, "learned-prices")
BOUND: Final = "bound"
BOUND_SO_FAR: Final = "bound, none refused so soon"
AS_IT_IS: Final = "as it is"
LARGEST: Final = "largest first"
ALL: Final = "all three"
SLACK: Final = 1e-6
"""Percent that rounding may make a bound too low."""
Lift = Callable[[Sequence[TracePod]], list[TracePod]]
Map = Callable[[Callable[["Task"], "list[Placed]"], Iterable["Task"]], "Iterable[list[Placed]]"]


# The limits ----------------------------------------------------------------------------------------------------------


def largest_first(pods: Sequence[TracePod]) -> list[TracePod]:
    """Let those come first that ask for most of cards, and among these those that ask for most cpu and memory."""
    return sorted(pods, key=lambda pod: (-pod.demand, -pod.cpu, -pod.memory))


def any_model(pods: Sequence[TracePod]) -> list[TracePod]:
    """Let each pod take cards of any model."""
    return [replace(pod, models=()) for pod in pods]


def on_several_nodes(pods: Sequence[TracePod]) -> list[TracePod]:
    """Make a pod of each card of a pod, with a part of its cpu and memory, so that they may be on several nodes."""
    return [part for pod in pods for part in _parts(pod)]


def _parts(pod: TracePod) -> Iterator[TracePod]:
    if pod.cards < 2:
        yield pod
        return
    for cpu, memory in zip(_shared_out(pod.cpu, pod.cards), _shared_out(pod.memory, pod.cards), strict=True):
        yield replace(pod, cpu=cpu, memory=memory, cards=1)


def _shared_out(amount: int, among: int) -> list[int]:
    """Return whole parts as equal as can be, which are the amount together."""
    each, rest = divmod(amount, among)
    return [each + (number < rest) for number in range(among)]


def without_cpu(pods: Sequence[TracePod]) -> list[TracePod]:
    """Let no pod ask for cpu."""
    return [replace(pod, cpu=0) for pod in pods]


def all_lifted(pods: Sequence[TracePod]) -> list[TracePod]:
    """Lift all limits but the order."""
    return without_cpu(on_several_nodes(any_model(pods)))


LIMITS: Final[Mapping[str, Lift]] = {
    AS_IT_IS: list,
    LARGEST: largest_first,
    "any model": any_model,
    "cards on several nodes": on_several_nodes,
    "no cpu": without_cpu,
    ALL: all_lifted,
}
"""What is lifted, by its name in the table."""


# The measurement -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """One policy on one workload with one limit lifted, seed by seed."""

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]
    workload: str
    policy: str
    limit: str
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True)
class Placed:
    """What one seed came to.

    Attributes
    ----------
    percent
        Of all cards that are given out.
    before
        How many pods had come before the first one was refused.
    """

    percent: float
    before: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a task came to, seed by seed; or what nobody can give out more than, whose name stands for the policy."""

    workload: str
    policy: str
    limit: str
    seeds: Sequence[int]
    placed: Sequence[Placed]

    @property
    def mean(self) -> float:
        """Percent of all cards that are given out, the mean over the seeds."""
        return fmean(one.percent for one in self.placed)


def until_all_is_asked_for(fleet: Fleet, pods: Sequence[TracePod]) -> list[TracePod]:
    """Return the first pods, as many as ask for no more than all cards together."""
    asked = accumulate(pod.demand for pod in pods)
    return [pod for pod, demand in zip(pods, asked, strict=True) if demand <= fleet.capacity]


def _coming(nodes: Sequence[TraceNode], workload: Sequence[TracePod], seed: int) -> tuple[Fleet, list[TracePod]]:
    """Return a fleet in the order of a seed, and who comes there."""
    run = static_run(Fleet(nodes), workload, seed)
    return run.fleet, until_all_is_asked_for(run.fleet, run.arrivals.pods)


def place_all(task: Task) -> list[Placed]:
    """Return what is given out, seed by seed.

    Raises
    ------
    PackingError
        If a pod was rejected that a node had room for.
    AuditError
        If a placement cannot be.
    """
    lift, found = LIMITS[task.limit], []
    mix = typical_pods(lift(task.pods))
    for seed in task.seeds:
        fleet, coming = _coming(task.nodes, task.pods, seed)
        pods = lift(coming)
        arrivals = Arrivals(pods, range(len(pods)), np.zeros(0))
        locations = replay(arrivals, placer_of(task.policy, fleet, mix))
        *_, free = audited(fleet, arrivals, locations)
        if free.withheld:
            raise PackingError(f"{task.workload}, {task.policy}: {free.withheld} pods were rejected that had room")
        before = next((number for number, location in enumerate(locations) if location is None), len(locations))
        found.append(Placed(100.0 * free.used / fleet.capacity, before))
    return found


def at_most(task: Task) -> list[Placed]:
    """Return what nobody can give out more than, seed by seed."""
    found = []
    for seed in task.seeds:
        fleet, pods = _coming(task.nodes, task.pods, seed)
        found.append(Placed(most(fleet.nodes, LIMITS[task.limit](pods)), len(pods)))
    return found


def at_most_so_far(task: Task, before: Sequence[int]) -> list[Placed]:
    """Return what nobody can give out more than who places so many first pods, of the seeds in turn."""
    found = []
    for seed, some in zip(task.seeds, before, strict=True):
        fleet, pods = _coming(task.nodes, task.pods, seed)
        found.append(Placed(most(fleet.nodes, pods, pods[:some]), some))
    return found


def compare(trace: Trace, seeds: Sequence[int], say: Say, each: Map = map) -> list[Allocation]:
    """Replay all workloads under each policy with each limit lifted, and with none; and ask for the bounds.

    Parameters
    ----------
    say
        Is called with what was measured.
    each
        Calls a function with each task, in order, perhaps in several processes.

    Raises
    ------
    PackingError
        See :func:`place_all`; or if more was given out than is proved to be possible.
    AuditError
        If a placement cannot be.
    """
    found = []
    for workload, pods in trace.workloads.items():
        tasks = [Task(trace.nodes, pods, workload, policy, limit, seeds) for policy in POLICIES for limit in LIMITS]
        bounds = [Task(trace.nodes, pods, workload, BOUND, limit, seeds) for limit in LIMITS if limit != LARGEST]
        placed = [*_each(place_all, tasks, each), *_each(at_most, bounds, each)]
        last = _last([seen for task, seen in placed if task.policy in POLICIES and task.limit == AS_IT_IS])
        so_far = Task(trace.nodes, pods, workload, BOUND_SO_FAR, AS_IT_IS, seeds)
        placed.append((so_far, at_most_so_far(so_far, last)))
        _check(placed)
        for task, seen in placed:
            allocation = Allocation(workload, task.policy, task.limit, seeds, seen)
            say(f"{workload}, {task.policy}, {task.limit}: {allocation.mean:.2f} percent")
            found.append(allocation)
    return found


def _each(ask: Callable[[Task], list[Placed]], tasks: Sequence[Task], each: Map) -> Iterator[tuple[Task, list[Placed]]]:
    """Ask for each task; once for those of a policy in which the same pods come, in the same order."""
    same = [(task.policy, task.limit == LARGEST, tuple(LIMITS[task.limit](task.pods))) for task in tasks]
    first = dict(reversed(list(zip(same, tasks, strict=True))))
    found = dict(zip(first, each(ask, list(first.values())), strict=True))
    yield from ((task, found[who]) for who, task in zip(same, tasks, strict=True))


def _last(placed: Sequence[Sequence[Placed]]) -> list[int]:
    """Return by how many pods the policy that refuses one last has refused none, seed by seed."""
    return [max(one.before for one in of_seed) for of_seed in zip(*placed, strict=True)]


def _check(placed: Sequence[tuple[Task, Sequence[Placed]]]) -> None:
    bounds = {task.limit: seen for task, seen in placed if task.policy == BOUND}
    bounds[LARGEST] = bounds[AS_IT_IS]
    for task, seen in placed:
        if any(one.percent > bound.percent + SLACK for one, bound in zip(seen, bounds[task.limit], strict=True)):
            raise PackingError(f"{task.workload}, {task.policy}, {task.limit}: more was given out than can be")


# The page ------------------------------------------------------------------------------------------------------------


def text(found: Sequence[Allocation]) -> str:
    """Return the table in Markdown."""
    seeds = found[0].seeds
    told = f"seed {seeds[0]}" if len(seeds) == 1 else f"the mean of seeds {seeds[0]} to {seeds[-1]}"
    means = {(one.workload, one.policy, one.limit): one.mean for one in found}
    lines = [
        f"Percent of the cards that are given out when all were asked for, and by how many points it differs; {told}.",
        "",
        f"| | | {' | '.join(LIMITS)} |",
        f"|---|---|{'---:|' * len(LIMITS)}",
    ]
    for workload, policy in dict.fromkeys((one.workload, one.policy) for one in found):
        plain = means[workload, policy, AS_IT_IS]
        lifted = [means.get((workload, policy, limit)) for limit in LIMITS if limit != AS_IT_IS]
        cells = ["" if mean is None else f"{mean:.2f} ({round(mean - plain, 2) + 0.0:+.2f})" for mean in lifted]
        lines.append(f"| {workload} | {policy} | {' | '.join([f'{plain:.2f}', *cells])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write where that is wished."""
    given = options("benchmarks.packing_limits", __doc__, 1).parse_args()
    trace = read_trace(folder_of(given.data), given.workload, with_nodes=True)
    with ProcessPoolExecutor(given.processes) as pool:
        each: Map = pool.map if given.processes > 1 else map
        measured = text(compare(trace, range(given.seed, given.seed + given.runs), say, each))
    print(measured)
    if given.write:
        write_between(MARK, measured)


if __name__ == "__main__":
    main()

"""How much of the cards groups get, and how long they wait until they are whole, beside two simpler ways.

Groups and single pods come and end on a fleet, in simulated time and without any I/O: they are decided by the
operator's engine, by the same engine pod by pod, and by first fit (a group is placed whole where its pods fit, node by
node in the order of their names, the oldest group first). All see the same arrivals, which a seed makes.
``python -m benchmarks.group_packing`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, quantiles
from typing import Any, Final, Protocol

import numpy as np

from benchmarks.decisions import node
from benchmarks.page import publish
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.policy import decode_policy

MARK: Final = "<!-- group packing -->"
NODES, CARDS = 32, 8
MEMORY: Final = 81920
"""MiB of a card."""
SEEDS: Final = (1, 2, 3)
HOURS: Final = 150.0
"""For so long jobs come."""
SETTLED: Final = 50.0
"""From then on it is measured."""
LOAD: Final = 1.05
"""Cards that jobs ask for on average, as a share of all."""
GANG: Final = "gang.scheduling.koordinator.sh"
POLICY: Final = {
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "pack"},
    "spec": {"nodes": {"scorers": [{"name": "fragmentation"}]}},
}
"""The operator's engine packs, as first fit does."""
_BACK_OFF: Final = 11.0
"""Seconds after which whoever was woken is tried."""


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that ask the same, and compute once all of them are placed.

    Attributes
    ----------
    comes, lasts
        When it comes, and how long it computes, in hours.
    pods
        How many there are; 1 for a pod alone.
    cards, memory
        What each asks for: cards, and MiB of each.
    """

    name: str
    comes: float
    lasts: float
    pods: int
    cards: int
    memory: int

    @property
    def share(self) -> float:
        """How many cards it asks for, parts of them as their share of memory."""
        return self.pods * self.cards * self.memory / MEMORY


def jobs(seed: int) -> list[Job]:
    """Return the jobs of a seed: half of what they ask for is asked for by groups."""
    rng, found, at = np.random.default_rng(seed), list[Job](), 0.0
    mean = fmean(_draw(rng, "", 0.0).share * _LASTS for _ in range(2000))
    rate = LOAD * NODES * CARDS / mean
    while at < HOURS:
        at += float(rng.exponential(1.0 / rate))
        found.append(_draw(rng, f"job-{len(found)}", at))
    return found


_LASTS: Final = 6.0
"""Hours that jobs compute on average."""


def _draw(rng: np.random.Generator, name: str, at: float) -> Job:
    lasts = float(rng.exponential(_LASTS))
    if rng.random() < 0.15:
        pods, cards = int(rng.choice([2, 4, 8, 16, 32])), int(rng.choice([1, 2, 4, 8], p=[0.4, 0.2, 0.2, 0.2]))
        pods = max(2, min(pods, NODES * CARDS // 4 // cards))
        memory = MEMORY if cards > 1 else int(rng.choice([MEMORY, MEMORY // 2]))
        return Job(name, at, lasts, pods, cards, memory)
    return Job(name, at, lasts, 1, 1, int(rng.choice([MEMORY, MEMORY // 2, MEMORY // 4, MEMORY // 8])))


class Placer(Protocol):
    """Whoever decides where pods go."""

    def come(self, job: Job) -> None:
        """Have the pods of a job wait."""

    def end(self, job: Job) -> None:
        """Have the pods of a job end."""

    def decide(self, hours: float) -> Iterable[tuple[str, int]]:
        """Place whom there is room for; yield the names of jobs, each with how many pods were placed."""


class EnginePlacer:
    """The operator's engine; pod by pod, if it is not told that they belong together."""

    def __init__(self, *, together: bool) -> None:
        self._together = together
        self._engine = Engine(EngineOptions([hami_dialect()]))
        self._seconds = 0.0
        self._engine.policy_tracker.observe(decode_policy(POLICY))
        for number in range(NODES):
            self._engine.observe_node(decode_node(node(number)), 0.0)

    def come(self, job: Job) -> None:
        """Have the pods of a job wait."""
        limits = {"nvidia.com/gpu": str(job.cards), "nvidia.com/gpumem": str(job.memory)}
        notes = {f"{GANG}/name": job.name, f"{GANG}/min-available": str(job.pods)}
        for number in range(job.pods):
            name = f"{job.name}-{number}"
            written: dict[str, Any] = {
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {
                    "schedulerName": "vgpu-scheduler",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "resources": {"limits": limits}}],
                },
                "status": {"phase": "Pending"},
            }
            if self._together and job.pods > 1:
                written["metadata"]["annotations"] = notes
            self._engine.observe_pod(decode_pod(written), self._seconds)

    def end(self, job: Job) -> None:
        """Have the pods of a job end."""
        for number in range(job.pods):
            self._engine.remove_pod(f"{job.name}-{number}", self._seconds)

    def decide(self, hours: float) -> Iterable[tuple[str, int]]:
        """Place whom there is room for."""
        found = list[tuple[str, int]]()
        for self._seconds in (hours * 3600.0, hours * 3600.0 + _BACK_OFF):
            while decisions := self._engine.schedule_next(self._seconds):
                for each in decisions:
                    if each.outcome is Outcome.PLACED:
                        self._engine.binding_succeeded(each.uid)
                        found.append((each.uid.rpartition("-")[0], 1))
        return found


class FirstFit:
    """Places jobs whole or not at all, the oldest first, each pod on the first node and the first cards that fit."""

    def __init__(self) -> None:
        self._free = np.full((NODES, CARDS), MEMORY)
        self._waiting: list[Job] = []
        self._places: dict[str, list[tuple[int, list[int], int]]] = {}

    def come(self, job: Job) -> None:
        """Have the pods of a job wait."""
        self._waiting.append(job)

    def end(self, job: Job) -> None:
        """Have the pods of a job end."""
        for row, cards, memory in self._places.pop(job.name):
            self._free[row, cards] += memory

    def decide(self, hours: float) -> Iterable[tuple[str, int]]:
        """Place whom there is room for."""
        del hours
        found, waiting = list[tuple[str, int]](), list[Job]()
        for job in self._waiting:
            places = self._fit(job)
            if places is None:
                waiting.append(job)
            else:
                self._places[job.name] = places
                found.append((job.name, job.pods))
        self._waiting = waiting
        return found

    def _fit(self, job: Job) -> list[tuple[int, list[int], int]] | None:
        free, places = self._free.copy(), list[tuple[int, list[int], int]]()
        for _ in range(job.pods):
            fits = free >= job.memory
            rows = np.flatnonzero(fits.sum(axis=1) >= job.cards)
            if not rows.size:
                return None
            row = int(rows[0])
            cards = np.flatnonzero(fits[row])[: job.cards].tolist()
            free[row, cards] -= job.memory
            places.append((row, cards, job.memory))
        self._free = free
        return places


@dataclass(slots=True)
class RunResult:
    """What came of the jobs of a seed.

    Attributes
    ----------
    given, computing
        Hours times cards that were given out, and that were given to jobs which computed.
    waited
        Hours that each group waited until it was whole.
    never
        How many groups were not whole at the end.
    """

    given: float = 0.0
    computing: float = 0.0
    waited: list[float] = field(default_factory=list)
    never: int = 0


def play(placer: Placer, todo: Sequence[Job]) -> RunResult:
    """Play jobs until no more come; what is given out is measured once the fleet is settled."""
    result, known, left = RunResult(), {job.name: job for job in todo}, {job.name: job.pods for job in todo}
    ends: list[tuple[float, str]] = []
    given, computing, last = 0.0, 0.0, 0.0
    coming = sorted(todo, key=lambda job: job.comes)
    while coming:
        at, ended = ends[0] if ends and ends[0][0] <= coming[0].comes else (coming[0].comes, "")
        since = max(last, SETTLED)
        if at > since:
            result.given += (at - since) * given
            result.computing += (at - since) * computing
        last = at
        if ended:
            heapq.heappop(ends)
            placer.end(known[ended])
            given, computing = given - known[ended].share, computing - known[ended].share
        else:
            placer.come(coming.pop(0))
        for name, number in placer.decide(at):
            job = known[name]
            left[name] -= number
            given += job.share * number / job.pods
            if not left[name]:
                computing += job.share
                heapq.heappush(ends, (at + job.lasts, name))
                if job.pods > 1 and job.comes >= SETTLED:
                    result.waited.append(at - job.comes)
    result.never = sum(left[job.name] > 0 for job in todo if job.pods > 1 and job.comes >= SETTLED)
    return result


WAYS: Final[dict[str, Callable[[], Placer]]] = {
    "groups": lambda: EnginePlacer(together=True),
    "the same, pod by pod": lambda: EnginePlacer(together=False),
    "groups, first fit": FirstFit,
}


def measure() -> dict[str, list[RunResult]]:
    """Return what came of each way, seed by seed."""
    found: dict[str, list[RunResult]] = {}
    for seed in SEEDS:
        todo = jobs(seed)
        for way, make in WAYS.items():
            found.setdefault(way, []).append(play(make(), todo))
    return found


def table(found: dict[str, list[RunResult]]) -> str:
    """Return the table of the page."""
    seeds = ", ".join(map(str, SEEDS))
    asked = f"{NODES * CARDS} cards, jobs that ask for {100 * LOAD:.0f} percent of them, seeds {seeds}"
    measured = (
        "cards given out",
        "to jobs that compute",
        "a group waits, mean",
        "9 of 10 wait less than",
        "never whole",
    )
    lines = [f"| {' | '.join((asked, *measured))} |", f"|---{'|---:' * len(measured)}|"]
    hours = (HOURS - SETTLED) * NODES * CARDS
    for way, results in found.items():
        waited = [each for result in results for each in result.waited]
        given, computing = (
            fmean(values) / hours for values in zip(*((c.given, c.computing) for c in results), strict=True)
        )
        lines.append(
            f"| {way} | {given:.1%} | {computing:.1%} | {fmean(waited):.1f} h | {quantiles(waited, n=10)[-1]:.1f} h |"
            f" {sum(result.never for result in results)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    publish(MARK, table(measure()))


if __name__ == "__main__":
    main()

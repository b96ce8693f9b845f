"""Where the time of a slice goes: the CPU of a burst by process and part, and the steps of one on an idle cluster.

A burst of plain pods is beside it.

``python -m benchmarks.slice_time`` measures and writes the table and the picture of ``docs/performance.md``.
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tests.apiserver.control_plane import ControlPlane

from benchmarks import latency
from benchmarks.checkouts import BEFORE, OURS, Checkout, Compared, arguments, checkouts, comparison, in_turns
from benchmarks.cluster import PODS, SLICE, cluster, pod, until
from benchmarks.footprint import cpu
from benchmarks.page import publish
from benchmarks.throughput import NODE_SIDE_DELAY, NODES, ROUND, Candidate, create, until_bound
from vgpu_devcluster.process import OperatorProcess

MARK: Final = "<!-- slice -->"
PICTURE: Final = Path(__file__).parents[1] / "docs" / "slice-time.svg"
TURNS: Final = 2
"""Turns of each checkout."""
_MODULE: Final = "benchmarks.sampling"
_ANSWERS_WITHIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Burst:
    """Where the CPU of a burst of pods goes.

    Attributes
    ----------
    rate
        Pods per second.
    processes
        Milliseconds of CPU per pod, by process.
    parts
        Milliseconds of the operator's CPU per pod, by part of the program.
    """

    rate: float
    processes: dict[str, float]
    parts: dict[str, float]


@dataclass(frozen=True, slots=True)
class SliceTime:
    """Where the time of a slice goes.

    Attributes
    ----------
    slices, plain
        A burst of slices, and one of plain pods.
    steps
        Milliseconds of each step of a slice on an idle cluster, the median.
    """

    slices: Burst
    plain: Burst
    steps: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was used up to a moment: seconds of CPU by process, and samples of the operator by part."""

    at: float
    bound: float
    processes: dict[str, float]
    samples: Counter[str]


async def _sampled(process: OperatorProcess, samples: Path) -> Counter[str]:
    """Have an operator write what was sampled so far; return that."""

    def told() -> list[str]:
        return samples.read_text().splitlines() if samples.exists() else []

    before = len(told())
    process.send(signal.SIGUSR1)

    async def more() -> list[str] | None:
        lines = told()
        return lines if len(lines) > before else None

    failure = f"the operator writes no samples:\n{process.log[-2000:]}"
    lines = await until(more, lambda: failure, _ANSWERS_WITHIN, 0.005, process)
    return Counter(json.loads(lines[-1]))


async def _read(candidate: Candidate, process: OperatorProcess, plane: ControlPlane, samples: Path) -> _Reading:
    look = await candidate.look()
    pids = {"operator": process.pid, "API server": plane.server_pid, "etcd": plane.etcd_pid}
    used = {name: cpu(pid) for name, pid in pids.items()}
    return _Reading(look.at, look.bound, used, await _sampled(process, samples))


async def _readings(candidate: Checkout, limits: dict[str, str]) -> tuple[_Reading, _Reading]:
    """Have a burst of pods bound; return what had been used when a third of them were, and when all were."""
    async with cluster(NODES, NODE_SIDE_DELAY) as found:
        if limits:  # as in the table of throughput, plain pods are left to themselves
            await found.nodes.start()
        samples = found.folder / "samples"
        command, log = (candidate.python, "-m", _MODULE, str(samples), "run"), found.folder / "operator.log"
        process = OperatorProcess(found.plane.kubeconfig(), log, candidate.environment, command)
        operator = Candidate(candidate.name, process)
        await create(found.http, [(PODS, pod(f"pod-{n}", operator.scheduler, limits)) for n in range(ROUND)])
        async with operator.running():

            async def read() -> _Reading:
                return await _read(operator, process, found.plane, samples)

            _, third, last = await until_bound(read, "pods, sampled", ROUND, pause=0.1)
            return third, last


async def _burst(candidate: Checkout, limits: dict[str, str]) -> Burst:
    """Measure a burst of pods with these limits, which a checkout's operator binds."""
    first, last = await _readings(candidate, limits)
    pods = last.bound - first.bound
    processes = {name: 1000.0 * (last.processes[name] - used) / pods for name, used in first.processes.items()}
    samples = last.samples - first.samples
    parts = {part: processes["operator"] * count / samples.total() for part, count in samples.most_common()}
    return Burst(pods / (last.at - first.at), processes, parts)


async def measure(steps: Sequence[float], candidates: Sequence[Checkout] = (OURS,)) -> tuple[SliceTime, list[Compared]]:
    """Measure the bursts; return those of this checkout, the mean of its turns, and how the other one compares.

    Parameters
    ----------
    steps
        What was measured of slices on an idle cluster.
    """
    bursts: list[Burst] = []
    found: list[Compared] = []
    for what, limits in (("slice", SLICE), ("plain pod", {})):
        turns: dict[str, list[Burst]] = {}
        for each in in_turns(candidates, TURNS):
            turns.setdefault(each.name, []).append(await _burst(each, limits))
        bursts.append(_mean(turns[OURS.name]))
        for name in bursts[-1].processes if BEFORE in turns else ():
            both = ([burst.processes[name] for burst in turns[whose]] for whose in (BEFORE, OURS.name))
            found.append(Compared(f"a burst, sampled, for each {what}: CPU of the {name}", "ms", *both))
    slices, plain = bursts
    return SliceTime(slices, plain, steps), found


def _mean(turns: Sequence[Burst]) -> Burst:
    """Return the mean of some bursts."""

    def means(found: Sequence[dict[str, float]]) -> dict[str, float]:
        names = dict.fromkeys(name for each in found for name in each)
        return {name: statistics.mean(each.get(name, 0.0) for each in found) for name in names}

    rate = statistics.mean(burst.rate for burst in turns)
    return Burst(rate, means([burst.processes for burst in turns]), means([burst.parts for burst in turns]))


def text(found: SliceTime) -> str:
    """Return the table in Markdown."""
    slices, plain = found.slices, found.plain
    lines = ["| CPU in a burst, for each pod | slice | plain pod |", "|---|---|---|"]
    lines += [f"| {name} | {used:.2f} ms | {plain.processes[name]:.2f} ms |" for name, used in slices.processes.items()]
    for part in slices.parts | plain.parts:
        both = (burst.parts.get(part, 0.0) for burst in (slices, plain))
        lines.append("| " + " | ".join([f"of the operator: {part}", *(f"{used:.2f} ms" for used in both)]) + " |")
    lines += ["", "| a slice on an idle cluster, the median of each step | |", "|---|---|"]
    lines += [f"| {step} | {took:.1f} ms |" for step, took in zip(latency.STEPS, found.steps, strict=True)]
    return "\n".join([*lines, "", f"![Where the time of a slice goes]({PICTURE.name})"])


def draw(found: SliceTime, target: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(8.6, 8.0), layout="constrained")
    of_slice, of_operator, of_plain, of_steps = figure.subplots(4, 1)
    slices, plain = found.slices, found.plain
    total = sum(slices.processes.values())
    _stack(of_slice, f"CPU of a slice in a burst of {slices.rate:.0f} a second: {total:.1f} ms", slices.processes)
    _stack(of_operator, f"the operator's part of it: {slices.processes['operator']:.1f} ms", slices.parts)
    alike = {part: plain.parts.get(part, 0.0) for part in slices.parts | plain.parts}  # in the same colours
    _stack(of_plain, f"the operator's part of a plain pod: {plain.processes['operator']:.1f} ms", alike)
    steps = dict(zip(latency.STEPS, found.steps, strict=True))
    _stack(of_steps, "one slice on an idle cluster, from its creation: the median of each step", steps)
    with mpl.rc_context({"svg.hashsalt": "vgpu-scheduler"}):
        figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)


def _stack(axes: Axes, title: str, parts: dict[str, float]) -> None:
    """Draw one bar of parts, one right of the other."""
    left = 0.0
    for number, (name, width) in enumerate(parts.items()):
        axes.barh([0], [width], left=left, color=f"C{number % 10}", label=f"{name}: {width:.1f} ms")
        left += width
    axes.set(title=title, yticks=[], xlabel="ms", xlim=(0.0, left))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=3, fontsize="small", frameon=False)


def write(found: SliceTime) -> None:
    """Write the table and the picture."""
    draw(found, PICTURE)
    publish(MARK, text(found))


async def _measure_all(candidates: Sequence[Checkout]) -> tuple[SliceTime, list[Compared]]:
    return await measure((await latency.measure()).steps, candidates)


def main() -> None:
    """Measure and write."""
    found, compared = asyncio.run(_measure_all(checkouts(arguments("benchmarks.slice_time", __doc__))))
    write(found)
    print("\n".join(comparison(compared)))


if __name__ == "__main__":
    main()

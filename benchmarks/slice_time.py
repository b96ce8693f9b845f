"""Where the time of a slice goes: the CPU of a burst by process and part, and the steps of one on an idle cluster.

``python -m benchmarks.slice_time`` measures and writes the table and the picture of ``docs/performance.md``.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
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
from benchmarks.cluster import PODS, SLICE, cluster, pod
from benchmarks.footprint import cpu
from benchmarks.page import write_between
from benchmarks.throughput import NODE_SIDE_DELAY, NODES, ROUND, Candidate, create, until_bound
from vgpu_scheduler.cli.demo.process import OperatorProcess

MARK: Final = "<!-- slice -->"
PICTURE: Final = Path(__file__).parents[1] / "docs" / "slice-time.svg"
_COMMAND: Final = (sys.executable, "-m", "benchmarks.sampling")
_ANSWERS_WITHIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class SliceTime:
    """Where the time of a slice goes.

    Attributes
    ----------
    rate
        Slices per second of the burst.
    processes
        Milliseconds of CPU per slice, by process.
    parts
        Milliseconds of the operator's CPU per slice, by part of the program.
    steps
        Milliseconds of each step of a slice on an idle cluster, the median.
    """

    rate: float
    processes: dict[str, float]
    parts: dict[str, float]
    steps: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was used up to a moment: seconds of CPU by process, and samples of the operator by part."""

    at: float
    bound: float
    processes: dict[str, float]
    samples: Counter[str]


def _sampled(process: OperatorProcess, samples: Path) -> Counter[str]:
    """Have an operator write what was sampled so far; return that."""

    def told() -> list[str]:
        return samples.read_text().splitlines() if samples.exists() else []

    before = len(told())
    process.send(signal.SIGUSR1)
    deadline = time.monotonic() + _ANSWERS_WITHIN
    while len(lines := told()) == before:
        if process.exit_code is not None or time.monotonic() > deadline:
            raise TimeoutError(f"the operator writes no samples:\n{process.log[-2000:]}")
        time.sleep(0.005)
    return Counter(json.loads(lines[-1]))


async def _read(candidate: Candidate, process: OperatorProcess, plane: ControlPlane, samples: Path) -> _Reading:
    look = await candidate.look()
    pids = {"operator": process.pid, "API server": plane.server_pid, "etcd": plane.etcd_pid}
    used = {name: cpu(pid) for name, pid in pids.items()}
    return _Reading(look.at, look.bound, used, await asyncio.to_thread(_sampled, process, samples))


async def _burst() -> tuple[_Reading, _Reading]:
    """Have a burst of slices bound; return what had been used when the first ones were, and when all were."""
    async with cluster(NODES, NODE_SIDE_DELAY) as found:
        await found.nodes.start()
        samples = found.folder / "samples"
        command = (*_COMMAND, str(samples), "run")
        process = OperatorProcess(found.plane.kubeconfig(), found.folder / "operator.log", command=command)
        candidate = Candidate("", process)
        await create(found.http, [(PODS, pod(f"slice-{n}", candidate.scheduler, SLICE)) for n in range(ROUND)])
        async with candidate.running():

            async def read() -> _Reading:
                return await _read(candidate, process, found.plane, samples)

            return await until_bound(read, "slices, sampled", pause=0.1)


async def measure(steps: Sequence[float]) -> SliceTime:
    """Measure a burst.

    Parameters
    ----------
    steps
        What was measured of slices on an idle cluster.
    """
    first, last = await _burst()
    slices = last.bound - first.bound
    processes = {name: 1000.0 * (last.processes[name] - used) / slices for name, used in first.processes.items()}
    samples = last.samples - first.samples
    parts = {part: processes["operator"] * count / samples.total() for part, count in samples.most_common()}
    return SliceTime(slices / (last.at - first.at), processes, parts, steps)


def text(found: SliceTime) -> str:
    """Return the table in Markdown."""
    lines = ["| CPU of a slice in a burst | |", "|---|---|"]
    lines += [f"| {name} | {used:.2f} ms |" for name, used in found.processes.items()]
    lines += [f"| of the operator: {part} | {used:.2f} ms |" for part, used in found.parts.items()]
    lines += ["", "| a slice on an idle cluster, the median of each step | |", "|---|---|"]
    lines += [f"| {step} | {took:.1f} ms |" for step, took in zip(latency.STEPS, found.steps, strict=True)]
    return "\n".join([*lines, "", f"![Where the time of a slice goes]({PICTURE.name})"])


def draw(found: SliceTime, target: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(8.6, 6.0), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1)
    total = sum(found.processes.values())
    _stack(top, f"CPU of a slice in a burst of {found.rate:.0f} a second: {total:.1f} ms", found.processes)
    _stack(middle, f"the operator's part of it: {sum(found.parts.values()):.1f} ms", found.parts)
    steps = dict(zip(latency.STEPS, found.steps, strict=True))
    _stack(bottom, "one slice on an idle cluster, from its creation: the median of each step", steps)
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


def write(idle: latency.Latencies) -> None:
    """Measure a burst, and write the table and the picture."""
    found = asyncio.run(measure(idle.steps))
    draw(found, PICTURE)
    measured = text(found)
    sys.stdout.write(measured + "\n")
    write_between(MARK, measured)


def main() -> None:
    """Measure and write."""
    write(asyncio.run(latency.measure()))


if __name__ == "__main__":
    main()

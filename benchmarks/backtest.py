"""How long a back-test of a week takes, and what it takes of memory: ``python -m benchmarks.backtest``.

A week is played on an engine and written to a log; then the command replays it under the policies of the log and under
another one, in as many processes as there are cores. ``--nodes`` and ``--pods`` make it smaller.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from tests.engine.builders import make_engine, pod_object
from tests.history.recorded import BEGAN, HOUR, Playing, known_at_start, play, written

from benchmarks.cluster import CARDS, registered_node
from benchmarks.page import publish
from vgpu_scheduler.history import Header, History
from vgpu_scheduler.kube import Object, decode_node, decode_pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION

T = TypeVar("T")
MARK: Final = "<!-- backtest -->"
NODES: Final = 1000
PODS: Final = 100_000
HOURS: Final = 168.0
LOAD: Final = 0.95
"""What pods ask for on average, as a part of all cards."""
_SIZES: Final = ((1, 50), (1, 50), (1, 100), (1, 100), (1, 100), (2, 100), (4, 100))
"""What pods ask for: cards, and percent of each."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """What a back-test took.

    Attributes
    ----------
    seconds
        From the start of the command to its end.
    megabytes
        The memory of its largest process.
    log_megabytes
        The size of the log.
    same
        The part of the decisions of the log that came out the same, in percent.
    """

    nodes: int
    pods: int
    seconds: float
    megabytes: float
    log_megabytes: float
    same: float


@dataclass(frozen=True, slots=True)
class Week:
    """A week of a cluster.

    Attributes
    ----------
    pods
        The pods as they were created, by UID.
    decision
        Milliseconds of CPU that the engine took for a decision, the median of those that found a place.
    """

    history: History
    pods: Mapping[str, Object]
    decision: float


class _Timed(Playing):
    """Measures what decisions take, in seconds of CPU."""

    took: array[float]

    def attempt(self, now: float) -> Sequence[Decision]:
        """Decide the next pod."""
        began = time.process_time()
        decisions = super().attempt(now)
        if any(each.outcome is Outcome.PLACED for each in decisions):
            self.took.append(time.process_time() - began)
        return decisions


def week(nodes: int, pods: int) -> Week:
    """Return a week of a cluster: pods come at random times, and stay for random times."""
    rng = np.random.default_rng(0)
    listed = [decode_node(registered_node(number, nodes)) for number in range(nodes)]
    playing = _Timed(make_engine(), {})
    playing.took = array("d")
    for each in listed:
        playing.engine.observe_node(each, BEGAN)
    demand = sum(cards * percent / 100 for cards, percent in _SIZES) / len(_SIZES)
    lifetime = LOAD * nodes * len(CARDS) / demand * HOURS * HOUR / pods
    came, written_ = [], {}
    for number, at in enumerate(np.sort(rng.uniform(0.0, HOURS * HOUR, pods)).tolist()):
        cards, percent = _SIZES[int(rng.integers(len(_SIZES)))]
        limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem-percentage": str(percent)}
        obj = pod_object(f"pod-{number}", {"limits": limits}, priority=int(rng.integers(0, 3)) * 100)
        pod = decode_pod(obj)
        written_[pod.uid] = obj
        came.append((BEGAN + at, pod))
        playing.ends[pod.uid] = float(rng.exponential(lifetime))
    play(playing, came, HOURS)
    history = History(BEGAN, BEGAN + HOURS * HOUR, known_at_start(listed), tuple(playing.events))
    return Week(history, written_, 1000.0 * statistics.median(playing.took))


def made_apart(make: Callable[..., T], *arguments: Any) -> T:
    """Return what a function makes in a process of its own: what it took of memory counts for no other one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(make, *arguments).result()


def _write(folder: Path, nodes: int, pods: int) -> None:
    """Write the log of a week."""
    written(folder, week(nodes, pods).history, Header(BEGAN, "run", 1, "benchmark"), batch=5000).close()


def measure(nodes: int = NODES, pods: int = PODS) -> Backtest:
    """Make a week, and measure its back-test."""
    with tempfile.TemporaryDirectory() as name:
        folder, policy = Path(name) / "history", Path(name) / "spread.yaml"
        folder.mkdir()
        made_apart(_write, folder, nodes, pods)
        said = {"apiVersion": f"{GROUP}/{VERSION}", "kind": CLUSTER_KIND, "metadata": {"name": "spread"}}
        policy.write_text(json.dumps({**said, "spec": {"devices": {"policy": "spread"}}}))
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        began = time.perf_counter()
        command = [sys.executable, "-m", "vgpu_scheduler", "backtest", "--log", str(folder), "--policy", str(policy)]
        with (Path(name) / "answer.json").open("w+") as answer:
            process = subprocess.Popen([*command, "-o", "json"], stdout=answer)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            assert status == 0, f"the back-test ended with {status}"
            answer.seek(0)
            agreement = json.load(answer)["agreement"]
    peak = used.ru_maxrss / 1024
    return Backtest(nodes, pods, seconds, peak, size, 100.0 * agreement["same"] / max(agreement["decisions"], 1))


def text(found: Backtest) -> str:
    """Return the table in Markdown."""
    cells = (
        f"{found.nodes:,} nodes, {found.pods:,} pods",
        str(os.cpu_count()),
        f"{found.seconds / 60:.1f} min",
        f"{found.megabytes:,.0f} MiB",
        f"{found.log_megabytes:.1f} MiB",
        f"{found.same:.2f} %",
    )
    head = ("a week, two policies", "processes", "time", "largest process", "log", "decisions that come out the same")
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), cells))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backtest", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    options = parser.parse_args()
    found = measure(options.nodes, options.pods)
    if (options.nodes, options.pods) == (NODES, PODS):
        publish(MARK, text(found))
    else:
        print(text(found))


if __name__ == "__main__":
    main()

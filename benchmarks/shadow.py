"""What a week of watching takes of memory and time: ``python -m benchmarks.shadow``.

A week is played by an engine, which is the other scheduler here; see ``benchmarks.backtest``. A process of its own is
told what happened, as a watch would tell it, and keeps its record and its history in a folder as ``vgpu-scheduler
shadow`` does; then that command reports from the folder. ``--nodes`` and ``--pods`` make it smaller.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.backtest import HOURS, NODES, PODS, Week, made_apart, week
from benchmarks.cluster import registered_node
from benchmarks.page import publish
from vgpu_scheduler.cli.shadow.folder import ShadowFolder
from vgpu_scheduler.cli.shadow.following import options_serving
from vgpu_scheduler.history import Arrived, Decided, Departed
from vgpu_scheduler.kube import Object, rfc3339
from vgpu_scheduler.reading.settings import settings_from_file
from vgpu_scheduler.shadow import ChangeLog, IncreasingClock, Record, Shadow, ShadowOptions
from vgpu_scheduler.shadow.comparing import choose
from vgpu_scheduler.whatif import ChangeResult, World
from vgpu_scheduler.whatif.world.changes import key_of

MARK: Final = "<!-- shadow -->"
BESIDE: Final = "hami-scheduler"
_HOUR: Final = 3600.0
_ASKED: Final = 17
"""A choice is timed at each so many-th change, if it is of a pod that waits."""


class Happened(msgspec.Struct, array_like=True):
    """A pod is there as it is written, or it is gone."""

    at: float
    pod: dict[str, Any]
    gone: bool = False


class Watched(msgspec.Struct):
    """What a watch took.

    Attributes
    ----------
    changes
        What happened.
    seconds
        Of CPU, for all that happened and all looks.
    choice
        Milliseconds of CPU until it is known what this scheduler would have done with a pod, the median.
    megabytes
        The memory of the process at most.
    """

    changes: int
    seconds: float
    choice: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Reported:
    """What the report took.

    Attributes
    ----------
    seconds
        From the start of the command to its end.
    megabytes
        Its memory at most.
    folder
        MiB of the folder.
    """

    seconds: float
    megabytes: float
    folder: float


def _stamp(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(at, UTC))


def happened(found: Week) -> Iterator[Happened]:
    """Yield what a watch of pods would tell of a week: each comes, is announced, is bound, runs, and goes."""
    there: dict[str, dict[str, Any]] = {}
    for event in found.history.events:
        if isinstance(event, Arrived):
            written = found.pods[event.pod.uid]
            metadata = {**written["metadata"], "creationTimestamp": _stamp(event.at)}
            there[event.pod.uid] = {
                **written,
                "kind": "Pod",
                "metadata": metadata,
                "spec": {**written["spec"], "schedulerName": BESIDE},
            }
            yield Happened(event.at, there[event.pod.uid])
        elif isinstance(event, Decided):
            pod = there[event.uid]
            announced = {**pod, "metadata": {**pod["metadata"], "annotations": dict(event.annotations)}}
            bound = {**announced, "spec": {**pod["spec"], "nodeName": event.node}}
            status = {"phase": "Running", "startTime": _stamp(event.at)}
            there[event.uid] = {**bound, "status": status}
            yield from (Happened(event.at, each) for each in (announced, bound, there[event.uid]))
        elif isinstance(event, Departed):
            yield Happened(event.at, there.pop(event.uid), gone=True)


def watch(nodes: int, happened_: Path, folder: Path) -> Watched:
    """Watch a week."""
    options = options_serving(settings_from_file(None).options, BESIDE)
    objects: dict[str, Object] = {}
    for number in range(nodes):
        node: Object = {"kind": "Node", **registered_node(number, nodes)}
        objects[node["metadata"]["name"]] = node
    world = World(options)
    world.add(list(objects.values()))
    keeper, record = ShadowFolder(folder), Record(BESIDE)
    decoder = msgspec.json.Decoder(Happened)
    change_log, clock = ChangeLog(keeper.write), IncreasingClock(0.0)
    shadow = Shadow(record, ShadowOptions(gap=HOURS * _HOUR, audit_every=_HOUR, sample_every=60.0))
    choices, changes, hour = [], 0, 0
    began = time.process_time()
    with happened_.open("rb") as lines:
        for line in lines:
            each = decoder.decode(line)
            if not changes:
                change_log.begin(objects.values(), clock.time_of_change(each.at - 1.0))
                shadow.begin(world, each.at - 1.0)
            changes += 1
            key = key_of(each.pod)
            pod = world.pods.get(key)
            if changes % _ASKED == 0 and pod is not None and pod.uid in world.pending:
                at = time.process_time()
                choose(world, pod)
                choices.append(time.process_time() - at)
            now = clock.time_of_change(each.at)
            change_log.note(each.pod, gone=each.gone, now=now)
            taken = shadow.apply_change(world, each.pod, gone=each.gone, now=now)
            assert taken is not ChangeResult.NOT, each
            objects[key] = each.pod
            if each.gone:
                del objects[key]
            shadow.check(world, clock.time_of_look(now))
            if int(now // _HOUR) != hour:
                hour = int(now // _HOUR)
                keeper.save(record)
    shadow.end(world, clock.time_of_look(now))
    keeper.save(record)
    seconds = time.process_time() - began
    choice = 1000.0 * statistics.median(choices)
    return Watched(changes, seconds, choice, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def report(folder: Path) -> Reported:
    """Have the command report what was seen, with its replays."""
    command = [sys.executable, "-m", "vgpu_scheduler", "shadow", "report", "--state", str(folder), "-o", "json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    assert status == 0, f"the report ended with {status}"
    size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    return Reported(seconds, used.ru_maxrss / 1024, size)


def _write(lines: Path, nodes: int, pods: int) -> float:
    """Write what happens in a week, line by line; return what a decision took."""
    found = week(nodes, pods)
    with lines.open("wb") as file:
        for each in happened(found):
            file.write(msgspec.json.encode(each) + b"\n")
    return found.decision


def measure(nodes: int, pods: int) -> str:
    """Make a week, watch it, have it reported, and return the tables in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        lines, folder = Path(name) / "happened.jsonl", Path(name) / "shadow"
        decision = made_apart(_write, lines, nodes, pods)
        command = [sys.executable, "-m", "benchmarks.shadow", "--nodes", str(nodes), "--watch", str(lines), str(folder)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return text(nodes, pods, decision, msgspec.json.decode(done.stdout, type=Watched), report(folder))


def text(nodes: int, pods: int, decision: float, watched: Watched, reported: Reported) -> str:
    """Return the table in Markdown."""
    days = HOURS / 24
    rows = (
        (f"{nodes:,} nodes, {pods:,} pods in {days:.0f} days: {watched.changes:,} changes", ""),
        ("---", "---:"),
        ("memory of the watch, at most", f"{watched.megabytes:,.0f} MiB"),
        ("memory of the report, at most", f"{reported.megabytes:,.0f} MiB"),
        ("what is kept on disk", f"{reported.folder:,.0f} MiB"),
        (
            "the watch's CPU per change, looks included",
            f"{1000 * watched.seconds / watched.changes:.2f} ms",
        ),
        ("a choice of the shadow", f"{watched.choice:.2f} ms"),
        ("a decision of the leader", f"{decision:.2f} ms"),
        ("the report, with the replays of 48 hours and of the whole time", f"{reported.seconds / 60:.1f} min"),
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shadow", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--watch", nargs=2, type=Path, metavar=("HAPPENED", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch is not None:
        sys.stdout.buffer.write(msgspec.json.encode(watch(options.nodes, *options.watch)))
        return
    found = measure(options.nodes, options.pods)
    if (options.nodes, options.pods) == (NODES, PODS):
        publish(MARK, found)
    else:
        print(found)


if __name__ == "__main__":
    main()

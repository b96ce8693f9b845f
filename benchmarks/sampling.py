"""Samples what an operator spends its CPU on: ``python -m benchmarks.sampling FILE run ...``.

It runs the command line in this process, looks every 2 ms of CPU at what is running, and counts that under
the part of the program that it belongs to. On SIGUSR1 it appends the counts so far to the file, as a line of JSON.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

INTERVAL = 0.002
"""Seconds of CPU between two samples."""
LOOP = "event loop"
HTTP, READING, TELLING = "HTTP and TLS", "reading objects", "logs and metrics"
PARTS = (
    ("kopf/", "kopf"),
    ("aiohttp/", HTTP),
    ("yarl/", HTTP),
    ("ssl.py", HTTP),
    ("prometheus_client/", TELLING),
    ("logging/", TELLING),
    ("vgpu_scheduler/apiclient/", HTTP),
    ("vgpu_scheduler/binding/reporter.py", "events of pods"),
    ("vgpu_scheduler/binding/reports.py", "events of pods"),
    ("vgpu_scheduler/binding/", "lanes and locks"),
    ("vgpu_scheduler/intake/", READING),
    ("vgpu_scheduler/kube/", READING),
    ("vgpu_scheduler/dialects/", READING),
    ("vgpu_scheduler/telemetry/", TELLING),
    ("vgpu_scheduler/runtime/", LOOP),
    ("vgpu_scheduler/cli/", LOOP),
    ("vgpu_scheduler/", "decisions and ledger"),
)
"""How the name of a module's file begins, and the part it belongs to; the first match counts."""
_ROOTS = re.compile(r".*/(site-packages|lib/python[0-9.]+|operator)/")


def part_of(file: str) -> str:
    """Return the part of the program that a source file belongs to, empty if its caller's."""
    module = _ROOTS.sub("", file)
    return next((part for begin, part in PARTS if module.startswith(begin)), "")


def part_running(frame: FrameType | None) -> str:
    """Return the part of the program that runs: the innermost one that has a name."""
    return next((part for part in map(part_of, _files(frame)) if part), LOOP)


def _files(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


class Sampler:
    """Counts samples by the part that ran.

    Parameters
    ----------
    target
        The file that the counts are appended to.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._counts: Counter[str] = Counter()

    def start(self) -> None:
        """Begin to sample this process."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR1, self._write)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self._counts[part_running(frame)] += 1

    def _write(self, _: int, __: FrameType | None) -> None:
        with self._target.open("a") as target:
            target.write(json.dumps(self._counts) + "\n")


def main() -> None:
    """Sample a command."""
    target, *arguments = sys.argv[1:]
    Sampler(Path(target)).start()
    from vgpu_scheduler.cli import main as command  # noqa: PLC0415 - importing it counts, too

    sys.argv[1:] = arguments
    command()


if __name__ == "__main__":
    main()

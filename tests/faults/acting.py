"""An operator that acts up, as files say that a story writes; tests run it instead of the program.

``CRASH_FILE``, where it exists, names a step of a bind at which it kills itself, and how many binds pass it before. It
takes the file away then, so that it crashes once. ``CLOCK_FILE`` holds the seconds by which its time of day is wrong.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvloop

from vgpu_scheduler.apiclient import SystemClock
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime import Operator
from vgpu_scheduler.settings import load


def shift_clock(file: Path) -> None:
    """Have the time of day be wrong by what a file says."""
    seconds = time.time

    def ahead() -> float:
        return float(file.read_text() or 0) if file.exists() else 0.0

    def now(_: SystemClock) -> datetime:
        return datetime.fromtimestamp(seconds(), UTC) + timedelta(seconds=ahead())

    SystemClock.now = now  # type: ignore[method-assign, assignment]
    time.time = lambda: seconds() + ahead()
    time.time_ns = lambda: int((seconds() + ahead()) * 1e9)


class Crash:
    """Kills the process when a step has been passed so often as a file says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed = 0

    def passed(self, step: HookPoint) -> None:
        """Take in that a bind is at a step."""
        if not self._file.exists():
            return
        at, _, after = self._file.read_text().partition(" ")
        if step.value == at:
            self._passed += 1
            if self._passed > int(after):
                self._file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run the operator."""
    logging.basicConfig(level="INFO", stream=sys.stderr)
    shift_clock(Path(os.environ["CLOCK_FILE"]))
    crash = Crash(Path(os.environ["CRASH_FILE"]))

    async def at_point(step: HookPoint, _: Pod) -> None:
        crash.passed(step)

    uvloop.run(Operator(load(None, {}), at_point).run())


if __name__ == "__main__":
    main()

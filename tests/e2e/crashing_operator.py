"""An operator that kills itself at a chosen step of a chosen bind: ``CRASH_AT`` and ``CRASH_AFTER`` say where."""

from __future__ import annotations

import logging
import os
import signal
import sys

import uvloop

from vgpu_scheduler.binding import Step
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime import Operator
from vgpu_scheduler.settings import load


def main() -> None:
    """Run until the step is reached."""
    logging.basicConfig(level="INFO", stream=sys.stderr)
    at, left = Step(os.environ["CRASH_AT"]), int(os.environ["CRASH_AFTER"])

    async def on_step(step: Step, _: Pod) -> None:
        nonlocal left
        if step is at:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    uvloop.run(Operator(load(None, {}), on_step).run())


if __name__ == "__main__":
    main()

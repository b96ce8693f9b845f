"""Fuzzing one target for a while: by libFuzzer through atheris where that is installed, else by blind mutation."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from tests.fuzz.mutating import applied, corpus, random_edits
from tests.fuzz.targets import Target

LONGEST = 10.0
"""Seconds of processor time that no input may take."""


class HangError(Exception):
    """An input takes too long."""


@dataclass(slots=True)
class Ran:
    """What came of fuzzing a target."""

    target: str
    inputs: int
    seconds: float
    by: str
    finding: bytes | None = None
    error: str = ""


@contextlib.contextmanager
def bounded(seconds: float = LONGEST) -> Iterator[None]:
    """End what takes longer than so many seconds of processor time."""

    def stop(_: int, __: FrameType | None) -> None:
        raise HangError(f"it took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def mutate_blindly(target: Target, seconds: float, seed: int) -> Ran:
    """Run a target over its corpus and changes of it, which know nothing of coverage, until the time is up."""
    logging.disable(logging.CRITICAL)
    chance = random.Random(seed)
    pool = [data for _, data in corpus(target.name)]
    ran = Ran(target.name, 0, 0.0, "blind mutation")
    began = time.monotonic()
    while ran.seconds < seconds:
        data = pool[ran.inputs] if ran.inputs < len(pool) else applied(
            chance.choice(pool), random_edits(chance), target.most
        )  # fmt: skip
        try:
            with bounded():
                target.run(data)
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            ran.finding, ran.error = data, traceback.format_exc()
            break
        ran.inputs += 1
        ran.seconds = time.monotonic() - began
    return ran

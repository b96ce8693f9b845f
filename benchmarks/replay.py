"""Replays a cluster that is described as data on an engine: ``python -m benchmarks.replay FILE``.

A checkout runs its own copy of this module, with its own engine, in a process of its own: names that change from one to
the next do not keep them from being compared. It imports nothing of the benchmarks, so that a checkout that has no such
module runs this one.

Each line of the file is one step, a list in JSON: its name, and what it is given.

``["observe", KIND, OBJECT]``
    Something was created or has changed, as the API server shows it.
``["remove", UID, LABEL]``
    A pod was deleted; an empty label has the time not be told.
``["tick", SECONDS]``
    Time passes.
``["place", LABEL]``
    The next pod is decided, and is placed.
``["reject", LABEL]``
    All that wait are decided, and none is placed.
``["drain", LABEL]``
    All that wait are decided.
``["units", LABEL, COUNT]``
    So many units are attempted, as the scheduling loop does it.

What it took is written to standard output as JSON: by label, the seconds and the seconds of CPU of each such step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from inspect import signature
from pathlib import Path
from typing import Any, cast

from vgpu_scheduler import engine
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_node, decode_pod, decode_volume, decode_volume_claim
from vgpu_scheduler.policy import Policies, PolicyDefaults

NAME = "vgpu-scheduler"
"""The scheduler that the pods name."""
_LOOKS = 32
"""Shapes that the scheduling loop looks at for one attempt."""
Samples = dict[str, list[tuple[float, float]]]
"""What it took: by label, the seconds and the seconds of CPU of each such step."""


def new_engine() -> Engine:
    """Return an engine that knows nothing yet."""
    if hasattr(engine, "EngineOptions"):
        return Engine(engine.EngineOptions([hami_dialect()], PolicyDefaults(), [NAME]))
    older: Any = Engine  # of a checkout of before there were options
    return cast("Engine", older([hami_dialect()], Policies(PolicyDefaults()), [NAME]))


class Replay:
    """An engine, and what its steps took.

    Attributes
    ----------
    samples
        By label, the seconds and the seconds of CPU of each step.
    """

    def __init__(self) -> None:
        self._engine = new_engine()
        self._now = 0.0
        self.samples: Samples = {}

    def step(self, name: str, *given: Any) -> None:
        """Take one step; see the module.

        Raises
        ------
        RuntimeError
            If pods are not placed that are to be, or the other way round.
        """
        getattr(self, f"_{name}")(*given)

    def _observe(self, kind: str, obj: Any) -> None:
        if kind == "Node":
            self._engine.observe_node(decode_node(obj), self._now)
        elif kind == "Pod":
            self._engine.observe_pod(decode_pod(obj), self._now)
        elif kind == "PersistentVolumeClaim":
            self._engine.kinds[kind].observe(decode_volume_claim(obj), self._now)
        else:
            self._engine.kinds[kind].observe(decode_volume(obj), self._now)

    def _remove(self, uid: str, label: str) -> None:
        self._timed(label, lambda: self._engine.remove_pod(uid, self._now))

    def _tick(self, seconds: float) -> None:
        self._now += seconds

    def _place(self, label: str) -> None:
        decision = self._timed(label, lambda: self._engine.attempt(self._now))
        if decision is None or decision.placement is None:
            raise RuntimeError(f"{label}: {decision.message if decision else 'no pod waits'}")

    def _reject(self, label: str) -> None:
        if placed := self._timed(label, self._decide_all):
            raise RuntimeError(f"{label}: {placed} pods were placed")

    def _drain(self, label: str) -> None:
        self._timed(label, self._decide_all)

    def _units(self, label: str, count: int) -> None:
        # A checkout of before names both otherwise, or has no limit.
        name = "schedule_next" if hasattr(self._engine, "schedule_next") else "attempt_group"
        schedule_next: Callable[..., Any] = getattr(self._engine, name)
        named = signature(schedule_next).parameters.keys() & {"most_partial_attempts", "most_looks"}
        limit: dict[str, Any] = dict.fromkeys(named, _LOOKS)

        def attempt() -> None:
            for _ in range(count):
                schedule_next(self._now, **limit)

        self._timed(label, attempt)

    def _decide_all(self) -> int:
        """Decide until nobody is active; return how many pods were placed."""
        placed = 0
        while (decision := self._engine.attempt(self._now)) is not None:
            placed += decision.placement is not None
        return placed

    def _timed(self, label: str, work: Callable[[], Any]) -> Any:
        began, used = time.perf_counter(), time.process_time()
        result = work()
        took = (time.perf_counter() - began, time.process_time() - used)
        if label:
            self.samples.setdefault(label, []).append(took)
        return result

    def check(self) -> None:
        """Make sure that no device is given away twice.

        Raises
        ------
        RuntimeError
            If one is.
        """
        if over := self._engine.state.over_capacity():
            raise RuntimeError(f"given away twice: {over}")


def replay(lines: Iterable[str]) -> Samples:
    """Take the steps of a file; return what they took."""
    made = Replay()
    for line in lines:
        made.step(*json.loads(line))
    made.check()
    return made.samples


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as steps:
        json.dump(replay(steps), sys.stdout)

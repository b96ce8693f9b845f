"""Replays side by side, in as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.cli.backtest.sources import LoadedHistory, Source, find
from vgpu_scheduler.history import ReplayResult, replay
from vgpu_scheduler.history.checking import Agreement, check
from vgpu_scheduler.history.resampling import resampled
from vgpu_scheduler.policy import PolicyResource

__all__ = ["ReplayTask", "carried_out"]

_WORTH_A_PROCESS: Final = 4000
"""Events to be replayed by each process at least: another one takes seconds to begin."""
_LOOK_EVERY: Final = 0.2
"""Seconds between two looks at how far all are."""
Advance = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay.

    Attributes
    ----------
    policies
        Those in force instead of the ones of the history.
    seed
        Which resampled history is replayed; None for the history itself.
    checks
        Ask for the decisions of the history again instead.
    """

    policies: tuple[PolicyResource, ...] = ()
    seed: int | None = None
    checks: bool = False


Result = ReplayResult | Agreement


def carried_out(
    source: Source, found: LoadedHistory, tasks: Sequence[ReplayTask], most: int | None, advance: Advance
) -> list[Result]:
    """Carry tasks out, and return what they came to, in their order.

    Parameters
    ----------
    source, found
        The history, for other processes and for this one.
    most
        How many processes there are at most; None for as many as there are cores.
    advance
        Told how much of all was done since it was called last; all of it is the number of tasks.
    """
    events = len(found.history.events) * len(tasks)
    processes = min(most or os.cpu_count() or 1, len(tasks), max(events // _WORTH_A_PROCESS, 1))
    if processes == 1:
        return [_do(found, task, advance) for task in tasks]
    context = multiprocessing.get_context("spawn")  # threads of libraries do not survive a fork
    done = context.Value("d", 0.0)
    results: dict[int, Result] = {}
    with ProcessPoolExecutor(processes, context, _begin, (source, done)) as pool, _stopped(pool):
        waiting = {pool.submit(_do_elsewhere, task): number for number, task in enumerate(tasks)}
        told = 0.0
        while waiting:
            ready, _ = wait(waiting, _LOOK_EVERY, FIRST_COMPLETED)
            for future in ready:
                results[waiting.pop(future)] = future.result()
            advance(done.value - told)
            told = done.value
    return [results[number] for number in range(len(tasks))]


@contextmanager
def _stopped(pool: ProcessPoolExecutor) -> Iterator[None]:
    """End what has not begun where something goes wrong, or the user has had enough."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_here: dict[str, Any] = {}
"""What a process of its own works with."""


def _begin(source: Source, done: Any) -> None:
    _here["found"], _here["done"] = find(source), done


def _do_elsewhere(task: ReplayTask) -> Result:
    done = _here["done"]

    def advance(part: float) -> None:
        with done.get_lock():
            done.value += part

    return _do(_here["found"], task, advance)


def _do(found: LoadedHistory, task: ReplayTask, advance: Advance) -> Result:
    history = found.history
    if task.checks:
        steps = _Steps(len(history.first) + len(history.events), advance)
        agreement = check(history, found.options, lambda: steps.reach(steps.reached + 1))
        steps.reach(steps.whole)
        return agreement
    if task.seed is not None:
        history = resampled(history, task.seed)
    steps = _Steps(history.ended - history.began, advance)
    course = replay(history, found.options, task.policies, lambda at, _: steps.reach(at - history.began))
    steps.reach(steps.whole)
    return course


class _Steps:
    """How far a task is, told now and then."""

    def __init__(self, whole: float, advance: Advance) -> None:
        self.whole = whole
        self.reached = self._told = 0.0
        self._advance = advance

    def reach(self, at: float) -> None:
        """Take in how far it is."""
        self.reached = at
        part = (at - self._told) / self.whole if self.whole else 0.0
        if part > 0.005 or at == self.whole:  # often enough for eyes
            self._told = at
            self._advance(part)

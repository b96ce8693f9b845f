"""Runs replays in parallel, in as many processes as there are cores."""

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

_WORTH_A_PROCESS: Final = 4000
"""The fewest events to replay per process: starting a process takes seconds."""
_LOOK_EVERY: Final = 0.2
"""Seconds between two updates of the progress."""
Advance = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """A replay to run.

    Attributes
    ----------
    policies
        The policies to use in place of those in the history.
    seed
        The seed of the resampled history; None for the history itself.
    checks
        Whether to repeat the decisions of the history and compare, instead of replaying.
    """

    policies: tuple[PolicyResource, ...] = ()
    seed: int | None = None
    checks: bool = False


Result = ReplayResult | Agreement


def carried_out(
    source: Source, found: LoadedHistory, tasks: Sequence[ReplayTask], most: int | None, advance: Advance
) -> list[Result]:
    """Run tasks, and return their results in the order of the tasks.

    Parameters
    ----------
    source, found
        The history: its source, which other processes read, and as loaded in this process.
    most
        The most processes; None for one per core.
    advance
        Called with the progress since the last call; all tasks together add up to their number.
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
    """Cancel tasks that have not started if an error occurs or the user interrupts."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_here: dict[str, Any] = {}
"""The state of a worker process."""


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
    result = replay(history, found.options, task.policies, lambda at, _: steps.reach(at - history.began))
    steps.reach(steps.whole)
    return result


class _Steps:
    """Reports the progress of a task in small steps."""

    def __init__(self, whole: float, advance: Advance) -> None:
        self.whole = whole
        self.reached = self._told = 0.0
        self._advance = advance

    def reach(self, at: float) -> None:
        """Record the progress of the task."""
        self.reached = at
        part = (at - self._told) / self.whole if self.whole else 0.0
        if part > 0.005 or at == self.whole:  # a finer step would not be visible
            self._told = at
            self._advance(part)

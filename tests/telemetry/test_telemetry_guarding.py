"""What is only told of something changes nothing of it: hooks and metrics that fail are named in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.runtime.test_runtime_scheduling import Heard, turns

from vgpu_scheduler.apiclient import guarded, guarded_async
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.telemetry import AttemptMetrics, Metrics, catalogue


class Broken:
    """A metric that cannot be recorded."""

    def labels(self, *_: str) -> NoReturn:
        raise RuntimeError("odd")

    def observe(self, _: float) -> NoReturn:
        raise RuntimeError("odd")


def broken_attempts() -> AttemptMetrics:
    attempts = Metrics().attempts
    for name in ("_duration", "_algorithm", "_decision", "_tries", "_sli", "_points"):
        setattr(attempts, name, Broken())
    return attempts


RECORD: dict[str, Callable[[AttemptMetrics], None]] = {
    "decided": lambda attempts: attempts.decided(0.1),
    "attempted": lambda attempts: attempts.attempted("scheduled", "s", 0.1),
    "scheduled": lambda attempts: attempts.scheduled(1, 0.1),
    "answered": lambda attempts: attempts.answered("Success", "s", 0.1),
}


@pytest.mark.parametrize("what", RECORD)
def test_to_record_an_attempt_never_fails(what: str, caplog: pytest.LogCaptureFixture) -> None:
    RECORD[what](broken_attempts())
    assert f"AttemptMetrics.{what} failed" in caplog.text


async def test_decisions_go_on_while_metrics_fail() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("fits"), pod("large", asks(1, 9000))])
    heard = Heard()
    loop = SchedulingLoop(engine, DecisionHandlers(heard, heard, heard), heard, broken_attempts(), heard.signals)  # type: ignore[arg-type]
    await turns(loop)
    assert [decision.pod for decision in heard.submitted] == ["default/fits"]
    assert len(heard.said) == 1


def test_a_metric_that_cannot_be_read_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()

    def fail() -> NoReturn:
        raise RuntimeError("odd")

    metrics.add_number(catalogue.LEADER, fail)
    metrics.add_number(catalogue.REPORTS_DROPPED, lambda: 7.0)
    shown = metrics.render().decode()
    assert catalogue.LEADER.name not in shown
    assert f"{catalogue.REPORTS_DROPPED.name} 7.0" in shown
    assert f"metric {catalogue.LEADER.name} cannot be read" in caplog.text


async def test_what_ends_a_task_passes() -> None:
    def end() -> NoReturn:
        raise asyncio.CancelledError

    async def end_later() -> None:
        end()

    with pytest.raises(asyncio.CancelledError):
        guarded(end)()
    with pytest.raises(asyncio.CancelledError):
        await guarded_async(end_later)()

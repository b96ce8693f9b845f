"""What the log says while watches fail: a plain line for what happened, no error and no trace for what is expected."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from io import StringIO

import pytest
from tests.intake.watching import NODES, Watcher, until

from vgpu_devcluster import Fault
from vgpu_scheduler.intake import supervised
from vgpu_scheduler.intake.kopf_source import KopfSource
from vgpu_scheduler.telemetry.logs import KopfMessageFilter


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Everything that is logged at level INFO, as the operator writes it."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(KopfMessageFilter(logging.INFO))
    handler.addFilter(lambda record: record.name != "aiohttp.server")  # that is the API server of this test
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
async def source(watcher: Watcher, log: StringIO, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """kopf, running, with pod ``p0`` seen; it is started again without much delay."""
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    await watcher.write("POST", NODES, {"metadata": {"name": "n0"}})
    await watcher.create("p0")
    made = KopfSource(
        watcher.api.credentials, watcher.observer, "vgpu-scheduler", nodes=True,
        lost_track=watcher.lose_track, after_spawn=lambda: None,
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    await until(lambda: watcher.waiting == {"p0"} and watcher.nodes == {"n0"})
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_start_says_nothing(watcher: Watcher, source: None, log: StringIO) -> None:
    assert log.getvalue() == ""


@pytest.mark.parametrize(
    ("fault", "expired", "told"),
    [
        (None, True, None),
        (
            Fault(verb="watch", user_agent="kopf", status=410, times=1),
            False,
            "kopf for vgpu-scheduler ended, and is started again",
        ),
        (Fault(verb="watch", status=500, times=3), False, "tries again: APIServerError: fault injected"),
        (Fault(verb="watch", status=429, times=2), False, "tries again: APITooManyRequestsError: fault injected"),
        (Fault(verb="watch", drop=True, times=3), False, "tries again: ServerDisconnectedError: Server disconnected"),
        (Fault(verb="list", status=503, times=2), True, "could not GET http"),
    ],
    ids=["410 in the stream", "410", "500", "429", "cut off", "the list fails, too"],
)
async def test_what_is_expected_is_a_plain_line_and_no_error(
    watcher: Watcher, source: None, log: StringIO, fault: Fault | None, *, expired: bool, told: str | None
) -> None:
    if fault is not None:
        watcher.cluster.inject(fault)
    watcher.cluster.end_watches(expired=expired)
    await watcher.create("p1")
    await until(lambda: watcher.waiting >= {"p0", "p1"}, within=30.0)
    if fault is not None:
        await until(lambda: fault.times == 0, within=30.0)
    if told is not None:
        await until(lambda: told in log.getvalue(), within=30.0)
    gc.collect()  # tasks that nobody asked about say so when they are collected
    await asyncio.sleep(0.05)
    lines = log.getvalue().splitlines()
    assert len(lines) <= 4, lines
    assert all(line.startswith("WARNING ") for line in lines), lines
    assert all("{" not in line for line in lines), lines
    assert any(told in line for line in lines) if told else not lines, lines

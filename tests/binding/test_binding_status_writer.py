"""The loop that writes statuses: it looks when something is due, and backs off while writes fail."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from vgpu_scheduler.binding.status_patches import StatusWriter

ENOUGH = 12


class Scripted(StatusWriter):
    """Writes as told: ``True`` if all is written, ``False`` if not, an error to raise."""

    what = "a scripted status"

    def __init__(self, due: list[bool], outcomes: list[bool | Exception]) -> None:
        self.due, self.outcomes = deque(due), deque(outcomes)
        self.done: list[str] = []

    def is_due(self) -> bool:
        self.done.append("asked")
        return self.due.popleft() if self.due else False

    async def write(self) -> bool:
        self.done.append("wrote")
        outcome = self.outcomes.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def played(writer: Scripted, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Run a writer; return its pauses."""
    pauses: list[float] = []
    ended = asyncio.Event()
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= ENOUGH:
            ended.set()
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    running = asyncio.create_task(writer.run())
    async with asyncio.timeout(30.0):
        await ended.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return pauses[:ENOUGH]


async def test_nothing_is_written_while_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Scripted([False, True, False, False, True], [True, True])
    pauses = await played(writer, monkeypatch)
    assert writer.done[:7] == ["asked", "asked", "wrote", "asked", "asked", "asked", "wrote"]
    assert "wrote" not in writer.done[7:]
    assert pauses == [1.0] * ENOUGH


@pytest.mark.parametrize("failure", [False, ZeroDivisionError("a mistake of ours")])
async def test_it_tries_again_without_asking_and_ever_more_rarely_until_all_is_written(
    monkeypatch: pytest.MonkeyPatch, *, failure: bool | Exception
) -> None:
    writer = Scripted([True, True], [*[failure] * 6, True, failure, True])
    pauses = await played(writer, monkeypatch)
    assert writer.done[:8] == ["asked", *["wrote"] * 7]
    assert writer.done[8:11] == ["asked", "wrote", "wrote"]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 12.0, 12.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

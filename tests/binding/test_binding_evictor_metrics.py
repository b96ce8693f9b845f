"""What the evictor tells of preemptions that are under way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

from tests.engine.builders import asks, cards, node
from tests.engine.preemption_fleet import Fleet

from vgpu_scheduler.binding import Evictor
from vgpu_scheduler.binding.context import BindContext


class Clock:
    """A clock that is told the time."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


async def test_it_tells_how_long_the_longest_preemption_has_been_under_way() -> None:
    fleet = Fleet([node("a", cards("a", 2))])
    for name in ("low-1", "low-2"):
        fleet.come(name, 0, asks(gpumem=8000))
    fleet.decide()
    clock = Clock()
    context = SimpleNamespace(engine=fleet.engine, clock=clock, writer=None)
    evictor = Evictor(cast(BindContext, context), 5.0, lambda _: False)
    fleet.come("first", 5, asks(gpumem=8000))
    fleet.decide()
    task = asyncio.create_task(evictor.run())
    await asyncio.sleep(0)  # it looks once

    async def told(longest: float) -> None:
        async with asyncio.timeout(10):
            while evictor.stats.longest != longest:
                await asyncio.sleep(0.01)

    try:
        clock.seconds = 60.0
        fleet.come("second", 5, asks(gpumem=8000))
        fleet.decide()
        await told(60.0)
        clock.seconds = 100.0
        await told(100.0)
        fleet.end("uid-first")
        await told(40.0)
        fleet.end("uid-second")
        await told(0.0)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

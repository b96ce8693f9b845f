"""The pauses between two looks at something that may have changed."""

from __future__ import annotations

import asyncio

from vgpu_scheduler.apiclient import Backoff


async def test_pauses_grow_to_twelve_times_the_first_and_are_short_again_after_something_was_heard() -> None:
    backoff, changed = Backoff(2**-12), asyncio.Event()
    pauses = []
    for _ in range(6):
        pauses.append(backoff.pause * 2**12)
        assert not await backoff.wait(changed)
    assert pauses == [1, 2, 4, 8, 12, 12]
    changed.set()
    assert await backoff.wait(changed)
    assert backoff.pause == 2**-12

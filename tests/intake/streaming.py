"""Streams of pods for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.intake.watching import Watcher, until

from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.intake import (
    ObjectStream,
    PodSelection,
)

THEIRS = "another"


@contextlib.asynccontextmanager
async def streaming(watcher: Watcher, *selections: PodSelection) -> AsyncIterator[None]:
    """Run a stream of each of some selections."""
    watched = watches(watcher)
    tasks = [
        asyncio.create_task(
            ObjectStream(watcher.api, POD_KIND, watcher.observer, watcher.lose_track, selection=selection).run()
        )
        for selection in selections
    ]
    try:
        await until(lambda: watches(watcher) == watched + len(tasks))
        yield
    finally:
        for task in tasks:
            assert not task.done(), task.exception()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def lists(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="list")


def watches(watcher: Watcher) -> int:
    return watcher.cluster.requests.total(user_agent="intake", verb="watch")

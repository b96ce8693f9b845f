"""The world that pages are made from, as it is now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.ui.recent import RecentEvents
from vgpu_scheduler.whatif import ChangeResult, World, apply_change
from vgpu_scheduler.whatif.world.changes import NODE, POD, key_of

Change = tuple[dict[str, Any], bool]
"""An object as it is written, and whether it is gone."""
_Answer = TypeVar("_Answer")
Question = Callable[[World, ClusterView], _Answer]


class ClusterListener(Protocol):
    """Who takes changes into a world in a way of its own, and is told of each other world; all in one thread."""

    def apply_change(self, world: World, obj: dict[str, Any], *, gone: bool, now: datetime) -> ChangeResult:
        """Take a change into a world, as :func:`vgpu_scheduler.whatif.apply_change` does."""

    def replaced(self, before: World, after: World, view: ClusterView) -> None:
        """Take in that a world stands in the place of another one, made of what was read."""


class CurrentWorld:
    """A world, and what could be read of its cluster; everything that is asked of it is asked in one thread.

    Parameters
    ----------
    listener
        Takes in what happens; None where nobody else need know.

    Attributes
    ----------
    generation
        Rises whenever pages may show something else.
    trouble
        Why what is shown may be out of date; empty where it is not.
    recent
        What has happened of late; to be asked together with the world.
    """

    def __init__(self, world: World, view: ClusterView, listener: ClusterListener | None = None) -> None:
        self._listener = listener
        self._world = world
        self._view = view
        self._made_at = time.monotonic()
        self.recent = RecentEvents(world, view.read_at if view.live else None)
        self._thread = ThreadPoolExecutor(1, "world")
        self._changed = asyncio.Condition()
        self.generation = 1
        self.trouble = ""

    @property
    def view(self) -> ClusterView:
        """What could be read of the cluster."""
        return self._view

    async def ask(self, question: Question[_Answer]) -> _Answer:
        """Return the answer to a question; nothing else is done to the world meanwhile."""
        return await self._in_thread(lambda: question(self._world, self._seen_now()))

    def _seen_now(self) -> ClusterView:
        """Return what could be read, with the time of day that it is there now; files stay as old as they are."""
        view = self._view
        if not view.live or view.read_at is None:
            return view
        return replace(view, read_at=view.read_at + timedelta(seconds=time.monotonic() - self._made_at))

    async def apply_changes(self, changes: Sequence[Change], now: datetime) -> bool:
        """Take in what has happened, in its order; tell whether that was possible, else the world is to be made anew.

        Parameters
        ----------
        now
            The time of day, as the API server has it: the locks of nodes that changed are judged by it.
        """
        taken, is_known = await self._in_thread(lambda: self._apply_changes(changes, now))
        if is_known and ChangeResult.CHANGED in taken:
            await self.tell()
        return is_known

    def _apply_changes(self, changes: Sequence[Change], now: datetime) -> tuple[set[ChangeResult], bool]:
        taken = set()
        nodes = False
        for obj, gone in changes:
            what = self._taken(obj, gone=gone, now=now)
            taken.add(what)
            nodes |= what is ChangeResult.CHANGED and obj["kind"] == NODE
        if nodes:
            self._world.review_locks(now)
        if ChangeResult.NOT not in taken:
            pods, names = ([obj for obj, _ in changes if obj["kind"] == kind] for kind in (POD, NODE))
            self.recent.note(self._world, map(key_of, pods), [obj["metadata"]["name"] for obj in names], now)
        return taken, ChangeResult.NOT not in taken

    def _taken(self, obj: dict[str, Any], *, gone: bool, now: datetime) -> ChangeResult:
        if self._listener is None:
            return apply_change(self._world, obj, gone=gone)
        return self._listener.apply_change(self._world, obj, gone=gone, now=now)

    async def replace(self, make: Callable[[], tuple[World, ClusterView]]) -> None:
        """Put another world in the place of this one."""
        self._world, self._view = await self._in_thread(lambda: self._noted(*make()))
        self._made_at = time.monotonic()
        await self.tell()

    def _noted(self, world: World, view: ClusterView) -> tuple[World, ClusterView]:
        """Note what is not as it was."""
        if view.read_at is not None:
            self.recent.note_all(world, view.read_at)
        if self._listener is not None:
            self._listener.replaced(self._world, world, view)
        return world, view

    async def say(self, trouble: str) -> None:
        """Say why what is shown may be out of date, or by an empty text that it is not."""
        if trouble != self.trouble:
            self.trouble = trouble
            await self.tell()

    async def later_than(self, generation: int) -> int:
        """Wait for a generation after another one, and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.generation > generation)
            return self.generation

    async def tell(self) -> None:
        """Tell those who wait that pages may show something else."""
        async with self._changed:
            self.generation += 1
            self._changed.notify_all()

    async def _in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

"""The current world, from which pages are made."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from vgpu_scheduler.reading import ClusterView
from vgpu_scheduler.ui.recent import RecentEvents
from vgpu_scheduler.whatif import ChangeResult, World, apply_change
from vgpu_scheduler.whatif.world.changes import NODE, POD, key_of

Change = tuple[dict[str, Any], bool]
"""An object as the API server sends it, and whether it was deleted."""
_Answer = TypeVar("_Answer")
Question = Callable[[World, ClusterView], _Answer]
_Work = tuple[Future[Any], Callable[[], Any]]
"""A piece of work, and the future for its outcome."""


class ClusterListener(Protocol):
    """Applies changes to a world in its own way, and is told of each new world; all in one thread."""

    def apply_change(self, world: World, obj: dict[str, Any], *, gone: bool, now: datetime) -> ChangeResult:
        """Apply a change to a world, as :func:`vgpu_scheduler.whatif.apply_change` does."""

    def replaced(self, before: World, after: World, view: ClusterView) -> None:
        """Note that a world was replaced by one made from a new read of the cluster."""


class CurrentWorld:
    """A world and the view that it was made from; all access to the world happens in one thread.

    Changes of the world go before the questions that wait, so that many questions do not make it lag.

    Parameters
    ----------
    listener
        Applies the changes; None for the default.

    Attributes
    ----------
    generation
        Rises whenever pages may change.
    trouble
        Why the pages may be out of date; empty if they are not.
    recent
        Recent events; read them in the same question as the world.
    """

    def __init__(self, world: World, view: ClusterView, listener: ClusterListener | None = None) -> None:
        self._listener = listener
        self._world = world
        self._view = view
        self._made_at = time.monotonic()
        self.recent = RecentEvents(world, view.read_at if view.live else None)
        self._thread = ThreadPoolExecutor(1, "world")
        self._first: deque[_Work] = deque()
        self._later: deque[_Work] = deque()
        self._changed = asyncio.Condition()
        self.generation = 1
        self.trouble = ""

    @property
    def view(self) -> ClusterView:
        """The view that the world was made from."""
        return self._view

    async def ask(self, question: Question[_Answer], *, first: bool = False) -> _Answer:
        """Return the answer to a question; the world does not change meanwhile.

        Parameters
        ----------
        first
            Whether the question goes before others, as changes do.
        """
        return await self._in_thread(lambda: question(self._world, self._seen_now()), first=first)

    def _seen_now(self) -> ClusterView:
        """Return the view with the current time of day if it is live; the time of files stays."""
        view = self._view
        if not view.live or view.read_at is None:
            return view
        return replace(view, read_at=view.read_at + timedelta(seconds=time.monotonic() - self._made_at))

    async def apply_changes(self, changes: Sequence[Change], now: datetime) -> bool:
        """Apply changes in order; return False if one cannot be applied, so that the world has to be made anew.

        Parameters
        ----------
        now
            The time of day by the API server's clock, by which the locks of changed nodes are judged.
        """
        taken, is_known = await self._in_thread(lambda: self._apply_changes(changes, now), first=True)
        if is_known and ChangeResult.CHANGED in taken:
            await self.start_generation()
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
        """Replace the world."""
        self._world, self._view = await self._in_thread(lambda: self._noted(*make()), first=True)
        self._made_at = time.monotonic()
        await self.start_generation()

    def _noted(self, world: World, view: ClusterView) -> tuple[World, ClusterView]:
        """Note the differences between the old and the new world."""
        if view.read_at is not None:
            self.recent.note_all(world, view.read_at)
        if self._listener is not None:
            self._listener.replaced(self._world, world, view)
        return world, view

    async def set_trouble(self, trouble: str) -> None:
        """Set why the pages may be out of date; an empty text means that they are not."""
        if trouble != self.trouble:
            self.trouble = trouble
            await self.start_generation()

    async def wait_for_generation_after(self, generation: int) -> int:
        """Wait for a generation later than the given one, and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.generation > generation)
            return self.generation

    async def start_generation(self) -> None:
        """Start a new generation, and wake the tasks that wait for one."""
        async with self._changed:
            self.generation += 1
            self._changed.notify_all()

    async def _in_thread(self, work: Callable[[], _Answer], *, first: bool) -> _Answer:
        future: Future[_Answer] = Future()
        (self._first if first else self._later).append((future, work))
        self._thread.submit(self._run_next)
        return await asyncio.wrap_future(future)

    def _run_next(self) -> None:
        """Do the next piece of work, unless nobody waits for it any more."""
        future, work = (self._first or self._later).popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)
            del future, work  # the error refers to this frame, which would keep an old world alive

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for future, _ in (*self._first, *self._later):
            future.cancel()

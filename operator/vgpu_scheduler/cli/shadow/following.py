"""Watches a live cluster on which another scheduler works, with read access only."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, end_tasks
from vgpu_scheduler.cli.shadow.folder import ShadowFolder
from vgpu_scheduler.cli.snapshot import without_private_parts
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.reading import ClusterOptions, ClusterView, SchedulerSettings, SettingsObjects
from vgpu_scheduler.shadow import ChangeLog, IncreasingClock, Record, Shadow, ShadowOptions
from vgpu_scheduler.ui import LiveCluster
from vgpu_scheduler.whatif import ChangeResult, World

_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the waiting pods."""
_SAVE_EVERY: Final = 60.0
_PAUSE: Final = 3.0
"""The pause after a look, as a multiple of the look's duration, so that changes are applied meanwhile."""
_LONGEST_PAUSE: Final = 30.0
_OPEN_AGAIN: Final = 5.0


def options_serving(options: EngineOptions, name: str) -> EngineOptions:
    """Return the options of an engine that serves another scheduler's pods as its own.

    Placements that the other scheduler announces count as well. Preemption is off, because single decisions are
    compared with those of a scheduler that only places pods.
    """
    if name in options.scheduler_names:
        return replace(options, preemption=False)
    others = dict.fromkeys((*options.coexist_with, name))
    names = (*options.scheduler_names, name)
    return replace(options, scheduler_names=names, coexist_with=tuple(others), preemption=False)


@dataclass(frozen=True, slots=True)
class ShadowFeed:
    """Passes the changes of a watched cluster to a shadow and to a log of changes, with times from one clock.

    Attributes
    ----------
    now
        Returns the time of day.
    """

    shadow: Shadow
    change_log: ChangeLog
    clock: IncreasingClock
    now: Callable[[], datetime]

    def apply_change(self, world: World, obj: dict[str, Any], *, gone: bool, now: datetime) -> ChangeResult:
        """Apply a change."""
        at = self.clock.time_of_change(now.timestamp())
        if not self.shadow.slept(at):
            self.change_log.note(obj, gone=gone, now=at)
        return self.shadow.apply_change(world, obj, gone=gone, now=at)

    def replaced(self, before: World, after: World, view: ClusterView) -> None:
        """Note that the world was made anew."""
        at = self._changed()
        if not self.shadow.slept(at):
            self.change_log.note_all(view.objects, at)
        self.shadow.replaced(before, after, at)

    def begin(self, world: World, view: ClusterView) -> None:
        """Start watching."""
        at = self._changed()
        self.change_log.begin(view.objects, at)
        self.shadow.begin(world, at)

    def check(self, world: World, _view: ClusterView) -> bool:
        """Take a look at the current state; return False if the machine slept, so that watching has to start again."""
        at = self.clock.time_of_look(self.now().timestamp())
        self.shadow.check(world, at)
        return not self.shadow.slept(at)

    def end(self, world: World, _view: ClusterView) -> None:
        """Take a last look."""
        self.shadow.end(world, self.clock.time_of_look(self.now().timestamp()))

    def _changed(self) -> float:
        return self.clock.time_of_change(self.now().timestamp())


async def follow(
    api: ApiClient,
    cluster: ClusterOptions,
    record: Record,
    folder: ShadowFolder,
    options: ShadowOptions,
    seconds: float | None,
    told: Callable[[World], None],
) -> None:
    """Watch a cluster for some time, or until the user ends it.

    Parameters
    ----------
    told
        Called with the world after the first look.

    Raises
    ------
    ApiUnreachableError, SettingsError, InvalidObjectsError, MissingRightsError
        If the cluster cannot be read at the start.
    """

    def adapt(settings: SchedulerSettings) -> SchedulerSettings:
        record.under = settings.source
        folder.keep_settings(SettingsObjects.from_settings(settings.settings, cluster.scheduler_namespace).objects)
        return replace(settings, options=options_serving(settings.options, record.other_scheduler))

    def now() -> datetime:
        return live.now()

    change_log = ChangeLog(folder.write, without_private_parts)
    feed = ShadowFeed(Shadow(record, options), change_log, IncreasingClock(record.until), now)
    live = LiveCluster(api, cluster, listener=feed, adapt=adapt)
    current = await live.open()
    await current.ask(feed.begin)
    await current.ask(feed.check)
    await current.ask(lambda world, _: told(world))
    ending = asyncio.create_task(_ended(seconds))
    try:
        await _watch(live, feed, ending, folder)
        while not ending.done():
            live = LiveCluster(api, cluster, listener=feed, adapt=adapt)
            try:
                current = await live.open()
            except ApiUnreachableError:  # after sleep the network comes back later than the machine
                await asyncio.wait({ending}, timeout=_OPEN_AGAIN)
                continue
            await current.ask(feed.begin)
            await _watch(live, feed, ending, folder)
    finally:
        ending.cancel()


async def _watch(live: LiveCluster, feed: ShadowFeed, ending: asyncio.Task[None], folder: ShadowFolder) -> None:
    """Look repeatedly, until the time is over, or until the machine slept and watching has to start again."""
    current, loop, record = live.current, asyncio.get_running_loop(), feed.shadow.record
    following = asyncio.create_task(live.run())
    try:
        saved, pause, awake = loop.time(), 0.0, True
        while awake and not (ending.done() or following.done()):
            await asyncio.wait({ending, following}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            began = loop.time()
            if not current.trouble:  # else the world is stale
                awake = await current.ask(feed.check)
            pause = max(_LOOK_EVERY, min(_PAUSE * (loop.time() - began), _LONGEST_PAUSE))
            if loop.time() - saved >= _SAVE_EVERY:
                saved = loop.time()
                await current.ask(lambda *_, now=saved: folder.keep_up(record, now))
        if following.done():
            await following
    finally:
        with suppress(asyncio.CancelledError):
            await end_tasks([following])
        await current.ask(feed.end)
        await current.ask(lambda *_: folder.save(record))
        current.close()


async def _ended(seconds: float | None) -> None:
    """Wait until the time is over, or until SIGINT or SIGTERM arrives."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked.set)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # wait_for may lose cancellations before Python 3.12
            await asked.wait()

"""Follows a live cluster on which another scheduler works, with no other right than to read."""

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
from vgpu_scheduler.shadow import ChangeLog, Clock, Record, Shadow, ShadowOptions
from vgpu_scheduler.ui import LiveCluster
from vgpu_scheduler.whatif import ChangeResult, World

_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at who waits."""
_SAVE_EVERY: Final = 60.0
_PAUSE: Final = 3.0
"""How much longer than a look takes there is none, so that changes are taken in meanwhile."""
_LONGEST_PAUSE: Final = 30.0
_OPEN_AGAIN: Final = 5.0


def beside_options(options: EngineOptions, name: str) -> EngineOptions:
    """Return what an engine is made from that would serve the pods of another scheduler as its own.

    What that scheduler announces counts from then on. Nobody is evicted: what one decision is compared with is what a
    scheduler does that only places.
    """
    if name in options.scheduler_names:
        return replace(options, preemption=False)
    others = dict.fromkeys((*options.coexist_with, name))
    names = (*options.scheduler_names, name)
    return replace(options, scheduler_names=names, coexist_with=tuple(others), preemption=False)


@dataclass(frozen=True, slots=True)
class ShadowFeed:
    """Tells a shadow and a log of changes what happens to the world of a cluster that is followed, by one clock.

    Attributes
    ----------
    now
        Returns the time of day.
    """

    shadow: Shadow
    change_log: ChangeLog
    clock: Clock
    now: Callable[[], datetime]

    def apply_change(self, world: World, obj: dict[str, Any], *, gone: bool, now: datetime) -> ChangeResult:
        """Take in a change."""
        at = self.clock.change(now.timestamp())
        if not self.shadow.slept(at):
            self.change_log.note(obj, gone=gone, now=at)
        return self.shadow.apply_change(world, obj, gone=gone, now=at)

    def replaced(self, before: World, after: World, view: ClusterView) -> None:
        """Take in that the world was made anew."""
        at = self._changed()
        if not self.shadow.slept(at):
            self.change_log.note_all(view.objects, at)
        self.shadow.replaced(before, after, at)

    def begin(self, world: World, view: ClusterView) -> None:
        """Begin to watch."""
        at = self._changed()
        self.change_log.begin(view.objects, at)
        self.shadow.begin(world, at)

    def look(self, world: World, _view: ClusterView) -> bool:
        """Look at what there is now; tell whether there is no need to begin anew."""
        at = self.clock.look(self.now().timestamp())
        self.shadow.look(world, at)
        return not self.shadow.slept(at)

    def end(self, world: World, _view: ClusterView) -> None:
        """Look at everything for the last time."""
        self.shadow.end(world, self.clock.look(self.now().timestamp()))

    def _changed(self) -> float:
        return self.clock.change(self.now().timestamp())


async def follow(
    api: ApiClient,
    cluster: ClusterOptions,
    record: Record,
    folder: ShadowFolder,
    options: ShadowOptions,
    seconds: float | None,
    told: Callable[[World], None],
) -> None:
    """Follow a cluster for some time, or until somebody ends it.

    Parameters
    ----------
    told
        Is called with the world after the first look.

    Raises
    ------
    ApiUnreachableError, SettingsError, WorldError, MissingRightsError
        If the cluster cannot be read at first.
    """

    def adapt(settings: SchedulerSettings) -> SchedulerSettings:
        record.under = settings.source
        folder.keep_settings(SettingsObjects.from_settings(settings.settings, cluster.scheduler_namespace).objects)
        return replace(settings, options=beside_options(settings.options, record.beside))

    def now() -> datetime:
        return live.now()

    change_log = ChangeLog(folder.write, without_private_parts)
    feed = ShadowFeed(Shadow(record, options), change_log, Clock(record.until), now)
    live = LiveCluster(api, cluster, listener=feed, adapt=adapt)
    current = await live.open()
    await current.ask(feed.begin)
    await current.ask(feed.look)
    await current.ask(lambda world, _: told(world))
    ending = asyncio.create_task(_ended(seconds))
    try:
        await _watch(live, feed, ending, lambda: folder.save(record))
        while not ending.done():
            live = LiveCluster(api, cluster, listener=feed, adapt=adapt)
            try:
                current = await live.open()
            except ApiUnreachableError:  # the network wakes up later than the machine
                await asyncio.wait({ending}, timeout=_OPEN_AGAIN)
                continue
            await current.ask(feed.begin)
            await _watch(live, feed, ending, lambda: folder.save(record))
    finally:
        ending.cancel()


async def _watch(live: LiveCluster, feed: ShadowFeed, ending: asyncio.Task[None], save: Callable[[], None]) -> None:
    """Look again and again, until the time is over, or the machine has slept and somebody has to begin anew."""
    current, loop = live.current, asyncio.get_running_loop()
    following = asyncio.create_task(live.run())
    try:
        saved, pause, awake = loop.time(), 0.0, True
        while awake and not (ending.done() or following.done()):
            await asyncio.wait({ending, following}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            began = loop.time()
            if not current.trouble:  # else it is old what there is to be seen
                awake = await current.ask(feed.look)
            pause = max(_LOOK_EVERY, min(_PAUSE * (loop.time() - began), _LONGEST_PAUSE))
            if loop.time() - saved >= _SAVE_EVERY:
                await current.ask(lambda *_: save())
                saved = loop.time()
        if following.done():
            await following
    finally:
        with suppress(asyncio.CancelledError):
            await end_tasks([following])
        await current.ask(feed.end)
        await current.ask(lambda *_: save())
        current.close()


async def _ended(seconds: float | None) -> None:
    """Wait for the time to be over, or for somebody to end it by Ctrl-C or as Kubernetes ends a pod."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked.set)
    with suppress(TimeoutError):
        await asyncio.wait_for(asked.wait(), seconds)

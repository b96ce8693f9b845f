"""Streams of storage objects, which run only while a waiting pod needs volumes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, end_tasks, wait_for_event
from vgpu_scheduler.intake.kinds import STORAGE, Kind
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.intake.stream import ObjectStream

log = logging.getLogger(__name__)

_LINGER = 600.0
"""Seconds to keep watching after the last pod that needed the objects: the next one often comes soon."""
_POLL_INTERVAL = 5.0
"""Seconds between two checks whether the objects are still needed, and whether the API server allows reading them."""


class StorageStreams:
    """Watches the storage objects while waiting pods use volume claims or disks.

    Parameters
    ----------
    api, observer
        The source and the target of observations.
    lost_track
        Called when deletions may have been missed.
    linger
        Seconds to keep watching after the last pod that needed the objects.
    """

    def __init__(
        self, api: ApiClient, observer: Observer, lost_track: Callable[[], None], linger: float = _LINGER
    ) -> None:
        self._api = api
        self._observer = observer
        self._engine = observer.engine
        self._lost_track = lost_track
        self._linger = linger
        self._needed = asyncio.Event()
        observer.signals.storage_needed.listen(self._look)
        self._streams: Sequence[ObjectStream[Any]] = ()

    @property
    def kinds(self) -> Sequence[Kind[Any]]:
        """The kinds that are watched and listed now; kinds that may not be read are left out."""
        return [stream.kind for stream in self._streams if stream.listed.is_set() and not stream.refusal]

    def _look(self) -> None:
        """Start the watches if a waiting pod needs storage objects."""
        if self._engine.storage.needed:
            self._needed.set()

    async def run(self) -> None:
        """Watch whenever storage objects are needed, until cancelled."""
        while True:
            await self._needed.wait()
            await self._watch()

    async def _watch(self) -> None:
        """Watch until no pod has needed the objects for a while."""
        streams = [ObjectStream(self._api, kind, self._observer, self._lost_track) for kind in STORAGE]
        tasks = [asyncio.create_task(stream.run(), name=f"stream-{stream.kind.name}") for stream in streams]
        self._streams = streams
        try:
            last = self._observer.monotonic()
            while self._observer.monotonic() - last < self._linger:
                self._tell(streams)
                await self._pause(streams)
                if self._engine.storage.needed:
                    last = self._observer.monotonic()
        finally:
            self._streams = ()
            self._needed.clear()
            self._engine.storage.mark_unsynced()
            await end_tasks(tasks)

    def _tell(self, streams: Sequence[ObjectStream[Any]]) -> None:
        """Tell the engine whether all storage objects are known, and if not, which kind may not be read."""
        storage = self._engine.storage
        refused = next((stream for stream in streams if stream.refusal), None)
        problem = f"{refused.kind.name} objects cannot be read: {refused.refusal}" if refused else ""
        known = not problem and all(stream.listed.is_set() for stream in streams)
        if (known, problem) == (storage.synced, storage.unreadable):
            return
        if known:
            storage.mark_synced()
        else:
            storage.mark_unsynced(problem)
        self._observer.signals.decide_again()

    async def _pause(self, streams: Sequence[ObjectStream[Any]]) -> None:
        """Wait until one more kind is listed, or, once all are, until they are needed; 5 seconds at most."""
        self._needed.clear()
        awaited = next((stream.listed for stream in streams if not stream.listed.is_set()), self._needed)
        await wait_for_event(awaited, _POLL_INTERVAL)

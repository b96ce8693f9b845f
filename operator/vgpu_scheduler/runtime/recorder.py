"""The recorder: hands what the leader observes and decides to a thread, which writes it to log files.

The scheduling loop only appends to a queue and never waits. Entries that do not fit in the queue are counted, and the
log notes how many are missing; the next file then begins with a full snapshot.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from vgpu_scheduler.apiclient import Clock
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import (
    ChangeTracker,
    HistoryEvent,
    MissedEvents,
    PyarrowMissingError,
    check_arrow,
    known_objects,
)
from vgpu_scheduler.history.hashing import Hasher
from vgpu_scheduler.kube import Versioned
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.runtime.device_files import DEVICE_FILES
from vgpu_scheduler.runtime.recorder_files import RecorderFiles, RecorderStats, TakeIn
from vgpu_scheduler.settings import HistorySettings, Settings, SettingsError

log = logging.getLogger(__name__)

_MOST_QUEUED: Final = 50_000
"""The most observations and decisions that may wait to be written."""
PACE: Final = 2.0
"""Seconds between two writes."""
_ENDS_WITHIN: Final = 10.0
"""Seconds that shutdown waits for the last rows to be written."""
_DECISIVE: Final = frozenset({
    "scheduler_names", "dialects", "profile", "node_policy", "device_policy", "device_order", "strict_annotations",
    "exclusive_when_unspecified", "nvidia", "hami_devices", "volcano_devices", "volcano", "scoring", "preemption",
    "managed_nodes", "coexist_with", "lease", "bind",
})  # fmt: skip
"""The settings that decisions depend on."""

Objects = list[tuple[str, Versioned]]


class HistoryRecorder:
    """Queues observations and decisions, and writes them in a thread while a replica leads.

    Parameters
    ----------
    settings
        Where to write, and how much to keep.
    engine
        The source of snapshots.
    decisive
        The settings that decisions depend on, written into each file.
    clock
        The time.
    run
        The name of this process's run, part of the file names.
    hashed
        Hashes the names in events, or leaves events as they are.
    """

    def __init__(
        self,
        settings: HistorySettings,
        engine: Engine,
        decisive: dict[str, Any],
        clock: Clock,
        run: str,
        hashed: Callable[[Iterable[HistoryEvent]], Iterable[HistoryEvent]] = lambda events: events,
    ) -> None:
        assert settings.directory is not None
        self._engine = engine
        self._clock = clock
        self._queue: deque[tuple[float, TakeIn, tuple[Any, ...]]] = deque()
        self._latest = 0.0
        """The latest time (seconds since 1970) that the thread has written."""
        self._leading = False
        self._lost = 0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.stats = RecorderStats()
        tracker = ChangeTracker(engine.dialects, engine.scheduler_names, engine.coexist_with)
        self._files = RecorderFiles(settings, decisive, run, tracker, self.stats, hashed)
        self._thread: threading.Thread | None = None

    # Called by the loop ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start recording, with a snapshot first."""
        self._leading, self._stop = True, threading.Event()
        self._wake.clear()
        self._put_picture()
        self._thread = threading.Thread(target=self._run, args=(self._stop, self._thread), name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop recording, and let the thread write what is queued; does not wait for it."""
        self._leading = False
        self._stop.set()
        self._wake.set()

    def join(self, seconds: float = _ENDS_WITHIN) -> None:
        """Wait some seconds at most for the thread to finish writing; blocks, so call it from another thread."""
        if self._thread is not None:
            self._thread.join(seconds)

    async def wait_until_written(self, seconds: float = _ENDS_WITHIN) -> None:
        """Wait some seconds at most for the thread to finish writing."""
        await asyncio.to_thread(self.join, seconds)

    def seen(self, kind: str, value: Versioned) -> None:
        """Record that an object was observed."""
        self._put(ChangeTracker.seen, kind, value)

    def object_gone(self, kind: str, value: Versioned) -> None:
        """Record that an object is gone."""
        self._put(ChangeTracker.object_gone, kind, value)

    def pod_gone(self, uid: str) -> None:
        """Record that a pod is gone."""
        self._put(ChangeTracker.pod_gone, uid)

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Record decisions; those that neither place a pod nor preempt are left out."""
        if decisions[0].outcome is Outcome.PLACED or any(each.preemption is not None for each in decisions):
            self._put(ChangeTracker.decided, decisions)

    def withdrawn(self, uid: str) -> None:
        """Record that the decision about a pod is not carried out."""
        self._put(ChangeTracker.withdrawn, uid)

    def _put(self, take: TakeIn, *what: Any) -> None:
        if not self._leading:
            return
        if len(self._queue) >= _MOST_QUEUED:
            self._lost += 1
            self.stats.dropped += 1
            return
        if self._lost:
            self._put_picture()
        self._queue.append((self._now(), take, what))

    def _now(self) -> float:
        """Return the time of day. It is read each time, because the clock may be set while the process runs."""
        return self._clock.now().timestamp()

    def _put_picture(self) -> None:
        """Queue a snapshot, with which the next file begins."""
        objects: Objects = list(known_objects(self._engine))
        lost, self._lost = self._lost, 0
        self._queue.append((self._now(), self._begin_anew, (objects, lost)))

    def _begin_anew(self, tracker: ChangeTracker, at: float, objects: Objects, lost: int) -> Iterable[HistoryEvent]:
        tracker.restart(objects, at)
        self._files.begin_anew()
        return [MissedEvents(at, lost, "they arrived faster than they could be written")] if lost else []

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self, stop: threading.Event, before: threading.Thread | None) -> None:
        """Write until asked to stop, after the thread of the previous term has ended."""
        try:
            if before is not None:
                before.join()
            while not stop.is_set():
                self._wake.wait(PACE)
                self._write_queue()
            self._write_queue()
            self._files.finish(self._not_before_latest(self._now()))
        except Exception:  # a failing recorder must not stop the leader
            log.exception("history: no more events are recorded")
            self.stats.failed += 1
            self._leading = False
            self._queue.clear()

    def _write_queue(self) -> None:
        """Write the entries that were queued when the call began."""
        now = self._now()  # read first: entries queued meanwhile must not be older than the last row written
        for _ in range(len(self._queue)):
            at, take, what = self._queue.popleft()
            self._files.take(self._not_before_latest(at), take, what)
        self._files.flush(self._not_before_latest(now))

    def _not_before_latest(self, at: float) -> float:
        """Return a time of day (seconds since 1970), never an earlier one than before: the clock may be set back."""
        self._latest = max(self._latest, at)
        return self._latest


def make_recorder(settings: Settings, engine: Engine, clock: Clock, run: str) -> HistoryRecorder | None:
    """Return the recorder; None if no directory for it is configured.

    Raises
    ------
    SettingsError
        If a directory is configured but the packages of the extra ``history`` are not installed, or if a device
        configuration, whose content is recorded, cannot be read.
    """
    if settings.history.directory is None:
        return None
    try:
        check_arrow()
    except PyarrowMissingError as error:
        raise SettingsError(f"history.directory: {error}") from None
    inlined = settings
    for file in DEVICE_FILES:
        inlined = file.inlined(inlined)
    decisive = inlined.model_dump(mode="json", exclude_unset=True, include=set(_DECISIVE))
    if not settings.history.hash_names:
        return HistoryRecorder(settings.history, engine, decisive, clock, run)
    hasher = Hasher(_key(settings.history), {settings.lease.namespace})
    return HistoryRecorder(settings.history, engine, decisive, clock, run, hasher.events)


def _key(settings: HistorySettings) -> bytes:
    """Return the key that names are hashed with.

    Raises
    ------
    SettingsError
        If its file cannot be read, or is empty.
    """
    path = settings.hash_key_file
    if path is None:
        return secrets.token_bytes(32)
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"history.hash_key_file: {path}: {error.strerror}") from None
    if not key:
        raise SettingsError(f"history.hash_key_file: {path} is empty")
    return key

"""The log of what happens: what the leader observes and decides is handed to a thread, which writes it to files.

The scheduling loop only appends to a queue, and waits for nobody: what the queue has no room for is counted, said in
the log where it is missing, and made up for by a file that begins with all that is there.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from vgpu_scheduler.apiclient import Clock
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import (
    Event,
    MissedEvents,
    PyarrowMissingError,
    Recording,
    check_arrow,
    known_objects,
)
from vgpu_scheduler.history.hashing import Hasher
from vgpu_scheduler.kube import Versioned
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.runtime.device_files import DEVICE_FILES
from vgpu_scheduler.runtime.recorder_files import RecorderFiles, RecorderStats, TakeIn
from vgpu_scheduler.settings import HistorySettings, Settings, SettingsError

__all__ = ["Recorder", "RecorderStats", "make_recorder"]

log = logging.getLogger(__name__)

_MOST_QUEUED: Final = 50_000
"""Observations and decisions that wait to be written at most."""
_PACE: Final = 2.0
"""Seconds between two writes."""
_ENDS_WITHIN: Final = 10.0
"""Seconds for which the end of a process waits for the last rows to be written."""
_DECISIVE: Final = frozenset({
    "scheduler_names", "dialects", "profile", "node_policy", "device_policy", "device_order", "strict_annotations",
    "exclusive_when_unspecified", "nvidia", "hami_devices", "volcano_devices", "volcano", "scoring", "preemption",
    "managed_nodes", "coexist_with", "lease", "bind",
})  # fmt: skip
"""The settings that decisions depend on."""

Objects = list[tuple[str, Versioned]]


class Recorder:
    """Takes observations and decisions, and has them written while a replica leads.

    Parameters
    ----------
    settings
        Where to, and how much.
    engine
        Knows what there is.
    decisive
        The settings that are in each file.
    clock
        The time.
    run
        What files of this process are called by.
    hashed
        Hashes the names in events, or leaves them.
    """

    def __init__(
        self,
        settings: HistorySettings,
        engine: Engine,
        decisive: dict[str, Any],
        clock: Clock,
        run: str,
        hashed: Callable[[Iterable[Event]], Iterable[Event]] = lambda events: events,
    ) -> None:
        assert settings.directory is not None
        self._engine = engine
        self._clock = clock
        self._ahead = 0.0
        """By how many seconds the time since 1970 is ahead of the monotonic one, which costs less to be asked for."""
        self._queue: deque[tuple[float, TakeIn, tuple[Any, ...]]] = deque()
        self._leading = False
        self._lost = 0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.stats = RecorderStats()
        recording = Recording(engine.dialects, engine.scheduler_names, engine.coexist_with)
        self._files = RecorderFiles(settings, decisive, run, recording, self.stats, hashed)
        self._thread: threading.Thread | None = None

    # Called by the loop ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write from now on: first what there is."""
        self._leading, self._stop = True, threading.Event()
        self._wake.clear()
        self._ahead = self._clock.now().timestamp() - self._clock.monotonic()
        self._put_picture()
        self._thread = threading.Thread(target=self._run, args=(self._stop, self._thread), name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take in nothing more, and have the thread write what waits; nobody waits for it here."""
        self._leading = False
        self._stop.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until all is written, for some seconds at most; the loop has this called by another thread."""
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN)

    def seen(self, kind: str, value: Versioned) -> None:
        """Take in an object that was observed."""
        self._put(Recording.seen, kind, value)

    def object_gone(self, kind: str, value: Versioned) -> None:
        """Take in that an object is gone."""
        self._put(Recording.object_gone, kind, value)

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod is gone."""
        self._put(Recording.pod_gone, uid)

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Take in decisions; those that change nothing are left out."""
        if decisions[0].outcome is Outcome.PLACED or any(each.preemption is not None for each in decisions):
            self._put(Recording.decided, decisions)

    def withdrawn(self, uid: str) -> None:
        """Take in that what was decided of a pod is not carried out."""
        self._put(Recording.withdrawn, uid)

    def _put(self, take: TakeIn, *what: Any) -> None:
        if not self._leading:
            return
        if len(self._queue) >= _MOST_QUEUED:
            self._lost += 1
            self.stats.dropped += 1
            return
        if self._lost:
            self._put_picture()
        self._queue.append((self._clock.monotonic() + self._ahead, take, what))

    def _put_picture(self) -> None:
        """Have the next file begin with what there is now."""
        objects: Objects = list(known_objects(self._engine))
        lost, self._lost = self._lost, 0
        self._queue.append((self._now(), self._begin_anew, (objects, lost)))

    def _begin_anew(self, recording: Recording, at: float, objects: Objects, lost: int) -> Iterable[Event]:
        recording.restart(objects, at)
        self._files.begin_anew()
        return [MissedEvents(at, lost, "they came faster than they could be written")] if lost else []

    def _now(self) -> float:
        return self._clock.monotonic() + self._ahead

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self, stop: threading.Event, before: threading.Thread | None) -> None:
        """Write until it is to end; first the thread that wrote before has to be done."""
        try:
            if before is not None:
                before.join()
            self._files.tidy()
            while not stop.is_set():
                self._wake.wait(_PACE)
                self._write_queue()
            self._write_queue()
            self._files.finish(self._now())
        except Exception:  # the leader goes on, whatever becomes of its log
            log.exception("history: nothing more is written")
            self.stats.failed += 1
            self._leading = False
            self._queue.clear()

    def _write_queue(self) -> None:
        """Write what waits, as far as it did when this began."""
        now = self._now()  # asked first: what comes meanwhile must not be older than what is written
        for _ in range(len(self._queue)):
            self._files.take(*self._queue.popleft())
        self._files.flush(now)


def make_recorder(settings: Settings, engine: Engine, clock: Clock, run: str) -> Recorder | None:
    """Return what writes the log; None where none is wanted.

    Raises
    ------
    SettingsError
        If one is wanted, and the packages of the extra ``history`` are not there; if a device configuration, which is
        written down, cannot be read.
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
        return Recorder(settings.history, engine, decisive, clock, run)
    hasher = Hasher(_key(settings.history), {settings.lease.namespace})
    return Recorder(settings.history, engine, decisive, clock, run, hasher.events)


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

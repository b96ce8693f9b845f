"""kopf, supervised.

Only ``on.event`` handlers, which write nothing: kopf's other handlers leave annotations and finalizers on the objects
that they watch, and these are users' objects. Some watch errors end kopf (an HTTP 410, a broken line, errors inside the
stream), and what was deleted while it was not watching it never reports. So it is started again, and a sweep is asked
for. Several operators live in one process: each has its own registry, login and settings, and is kept from cancelling
tasks that it did not start.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary

import kopf
from kopf._cogs.structs.credentials import Vault
from kopf._core.engines.peering import Identity

from vgpu_scheduler.apiclient import Credentials, end_tasks
from vgpu_scheduler.intake.kopf_json import read_any_depth, skip_known
from vgpu_scheduler.intake.watching import EventHandler
from vgpu_scheduler.kube import ObjectIdentity

log = logging.getLogger(__name__)

_PREFIX = "kopf.vgpu-scheduler.io"
_PAGE = 250
"""Objects of a list that kopf has decoded at a time: each takes some tens of kB until its handler has run."""
_RESTART_DELAY = 1.0
_LONGEST_RESTART_DELAY = 30.0
_WATCH_GRACE_PERIOD = 5.0
"""Seconds that kopf's tasks may take to end before they are cancelled again."""


class _Everything(Collection[Any]):
    """A collection that contains whatever is asked for: kopf must not cancel tasks that it did not start."""

    def __contains__(self, item: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Endless:
    """Delays between reconnections that never run out; kopf ends when they do."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2, 5)
        while True:
            yield 10


class _NoDiffBase(kopf.DiffBaseStorage):
    """kopf's memory of objects' last state, for handlers that we do not have: computing it costs most of an event."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        del body, extra_fields
        return {}

    def fetch(self, *, body: Any) -> Any:
        del body

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Store nothing."""


class _NoProgress(kopf.ProgressStorage):
    """kopf's memory of handlers under way, for handlers that we do not have."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        del key, body

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        """Store nothing."""

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        """Purge nothing."""

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        """Touch nothing."""

    def clear(self, *, essence: Any) -> Any:
        return essence


class SupervisedKopf(ABC):
    """A kopf operator that is started again whenever it ends.

    Parameters
    ----------
    credentials
        How the API server is reached.
    name
        What logs call it.
    lost_track
        Called when deletions may have been missed.
    after_spawn
        Called after kopf was started: it takes the signal handlers of the process.
    restarted
        Called whenever it had to be started again.
    """

    def __init__(
        self,
        credentials: Credentials,
        name: str,
        *,
        lost_track: Callable[[], None],
        after_spawn: Callable[[], None],
        restarted: Callable[[], None],
    ) -> None:
        self._credentials = credentials
        self._name = name
        self._lost_track = lost_track
        self._after_spawn = after_spawn
        self._restarted = restarted
        self._over = asyncio.Event()
        self._outside = copy_context()
        self._handlers: dict[str, EventHandler[Any]] = {}

    def _watch(self, registry: kopf.OperatorRegistry, handler: EventHandler[Any], *resource: str) -> None:
        """Have a handler take in what is news of a resource, from its initial listing on."""
        handler.begin()
        self._handlers[handler.kind] = handler

        @kopf.on.event(*resource, registry=registry, when=lambda event, **_: handler.is_news(event))
        async def on_event(event: Any, **_: Any) -> None:
            self._outside.run(handler, event)  # what it starts does not end with kopf

    @abstractmethod
    def _register(self, registry: kopf.OperatorRegistry) -> None:
        """Register the handlers."""

    def _configure(self, settings: kopf.OperatorSettings) -> None:  # noqa: B027 - most have nothing to change
        """Change settings where this operator needs it."""

    def begin_anew(self) -> None:
        """End kopf, so that it is started again: it discovers what there is only when it starts, or is told of it."""
        self._over.set()

    async def run(self) -> None:
        """Run kopf, and run it again whenever it ends, until cancelled."""
        delay = _RESTART_DELAY
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._run_once()
                log.warning("kopf for %s ended, and is started again", self._name)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever ends it, it is started again
                told = getattr(error, "message", "") or error  # kopf's errors carry the whole answer
                log.warning("kopf for %s ended, and is started again: %s: %s", self._name, type(error).__name__, told)
            self._restarted()
            self._lost_track()
            lasted = asyncio.get_running_loop().time() - began
            delay = _RESTART_DELAY if lasted > _LONGEST_RESTART_DELAY else min(delay * 2, _LONGEST_RESTART_DELAY)
            await asyncio.sleep(delay)

    async def _run_once(self) -> None:
        read_any_depth()
        skip_known(self._is_known)
        registry = kopf.OperatorRegistry()
        self._login(registry)
        self._register(registry)
        self._over = asyncio.Event()
        sessions = Vault()
        try:
            # When one watch fails, kopf leaves the others to the end of its process.
            async with task_scope(_WATCH_GRACE_PERIOD):
                tasks = await kopf.spawn_tasks(
                    registry=registry,
                    settings=self._kopf_settings(),
                    identity=Identity(self._name),  # kopf's own has the user's name, and the image's user has none
                    clusterwide=True,
                    standalone=True,
                    vault=sessions,
                    stop_flag=self._over,
                )
                self._after_spawn()
                await kopf.run_tasks(tasks, ignored=_Everything())
        finally:
            await sessions.close()  # again: those others may have opened one after kopf had closed its own

    def _is_known(self, kind: str, identity: ObjectIdentity) -> bool:
        """Tell whether an object is known in its version; that it is there as it is known is taken in."""
        handler = self._handlers.get(kind)
        return handler is not None and handler.seen_unchanged(identity)

    def _login(self, registry: kopf.OperatorRegistry) -> None:
        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            configuration = self._credentials.configuration
            return kopf.ConnectionInfo(
                server=self._credentials.server,
                ca_path=configuration.ssl_ca_cert,
                insecure=not configuration.verify_ssl,
                certificate_path=configuration.cert_file,
                private_key_path=configuration.key_file,
                token=await self._credentials.token(),
            )

    def _kopf_settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.queueing.idle_timeout = 0.5
        settings.watching.chunk_size = _PAGE
        settings.networking.error_backoffs = _Endless()
        settings.persistence.finalizer = f"{_PREFIX}/finalizer"
        settings.persistence.diffbase_storage = _NoDiffBase()
        settings.persistence.progress_storage = _NoProgress()
        settings.process.ultimate_exiting_timeout = None
        self._configure(settings)
        return settings


_Tasks = WeakKeyDictionary[asyncio.Task[Any], None]
"""Tasks in the order in which they were started."""
_SCOPE: ContextVar[_Tasks | None] = ContextVar("task scope", default=None)


@asynccontextmanager
async def task_scope(grace_period: float) -> AsyncIterator[None]:
    """End, with a block, all tasks that were started in it, directly or by one of them.

    They are ended one after the other, the oldest first: it may need those that it has started to tidy up.

    Parameters
    ----------
    grace_period
        Seconds that they may take to tidy up before they are cancelled again.
    """
    asyncio.get_running_loop().set_task_factory(_start)
    tasks: _Tasks = WeakKeyDictionary()
    token = _SCOPE.set(tasks)
    try:
        yield
    finally:
        _SCOPE.reset(token)
        for task in list(tasks):
            await end_tasks([task], grace_period)


def _start(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    /,
    **options: Any,
) -> asyncio.Task[Any]:
    """Start a task as the loop does, in the scope of who starts it."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    scope = _SCOPE.get()
    if scope is not None:
        scope[task] = None
    return task

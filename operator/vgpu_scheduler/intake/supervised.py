"""A supervised kopf operator.

It uses only ``on.event`` handlers: kopf's other handlers write annotations and finalizers to the watched objects, and
these belong to users. Some watch errors end kopf (an HTTP 410, a broken line, errors inside the stream), and kopf never
reports what was deleted while it was not watching. The supervisor therefore restarts kopf and requests a relist.
Several operators run in one process: each has its own registry, login and settings, and is prevented from cancelling
tasks that it did not start.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextvars import copy_context
from typing import Any

import kopf
from kopf._cogs.structs.credentials import Vault
from kopf._core.engines.peering import Identity

from vgpu_scheduler.apiclient import Backoff, Credentials
from vgpu_scheduler.intake.kopf_json import read_any_depth, skip_known
from vgpu_scheduler.intake.kopf_storage import NoDiffBase, NoProgress
from vgpu_scheduler.intake.task_scope import task_scope
from vgpu_scheduler.intake.watching import EventHandler
from vgpu_scheduler.kube import ObjectIdentity

log = logging.getLogger(__name__)

_PREFIX = "kopf.vgpu-scheduler.io"
_PAGE = 250
"""Objects per page of kopf's lists: each takes some tens of kB until its handler has run."""
_RESTART_DELAY = 1.0
_LONGEST_RESTART_DELAY = 30.0
_WATCH_GRACE_PERIOD = 5.0
"""Seconds that kopf's tasks may take to end before they are cancelled again."""


class _Everything(Collection[Any]):
    """A collection that contains everything: as the tasks to ignore, it keeps kopf from cancelling others' tasks."""

    def __contains__(self, item: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Endless:
    """Delays between reconnections that never run out; kopf would end when they do."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2, 5)
        while True:
            yield 10


class SupervisedKopf(ABC):
    """A kopf operator that is restarted whenever it ends.

    Parameters
    ----------
    credentials
        The address of the API server and how to authenticate.
    name
        The operator's name in logs.
    lost_track
        Called when deletions may have been missed.
    after_spawn
        Called after each start of kopf, because kopf replaces the signal handlers of the process.
    restarted
        Called after each end of kopf, before the restart.
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
        """Register a handler for the events of a resource that are news, from the initial listing on."""
        handler.begin()
        self._handlers[handler.kind] = handler

        @kopf.on.event(*resource, registry=registry, when=lambda event, **_: handler.is_new_version(event))
        async def on_event(event: Any, **_: Any) -> None:
            self._outside.run(handler, event)  # tasks that it starts must not end with kopf

    @abstractmethod
    def _register(self, registry: kopf.OperatorRegistry) -> None:
        """Register the handlers."""

    def _configure(self, settings: kopf.OperatorSettings) -> None:  # noqa: B027 - most have nothing to change
        """Change kopf's settings; subclasses override it."""

    def begin_anew(self) -> None:
        """End kopf, so that it is restarted: it discovers resources only at its start, or when told of a definition."""
        self._over.set()

    async def run(self) -> None:
        """Run kopf, and restart it whenever it ends, until cancelled."""
        backoff = Backoff(_RESTART_DELAY, _LONGEST_RESTART_DELAY)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._run_once()
                log.warning("kopf for %s ended, and is started again", self._name)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - kopf is restarted whatever ends it
                reason = getattr(error, "message", "") or error  # kopf's errors carry the whole answer
                log.warning("kopf for %s ended, and is started again: %s: %s", self._name, type(error).__name__, reason)
            self._restarted()
            self._lost_track()  # kopf reports no deletion that it did not see
            if asyncio.get_running_loop().time() - began > _LONGEST_RESTART_DELAY:
                backoff.reset()
            await backoff.sleep()

    async def _run_once(self) -> None:
        """Run kopf until it ends, and end all of its tasks and sessions."""
        read_any_depth()
        skip_known(self._is_known)  # before kopf starts its tasks, which inherit it
        registry = kopf.OperatorRegistry()
        self._login(registry)
        self._register(registry)
        self._over = asyncio.Event()
        sessions = Vault()
        try:
            # When one watch fails, kopf leaves the tasks of the others running.
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
            await sessions.close()  # a second time: a task may have opened a session after kopf closed its own

    def _is_known(self, kind: str, identity: ObjectIdentity) -> bool:
        """Tell whether the object's version is known already; if so, record that the object still exists."""
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
        settings.persistence.diffbase_storage = NoDiffBase()
        settings.persistence.progress_storage = NoProgress()
        settings.process.ultimate_exiting_timeout = None
        self._configure(settings)
        return settings

"""The server as one object: in a running loop, in a thread of its own, or as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiohttp import web

from .definitions import DEFINITIONS
from .objects import Target
from .resources import BUILT_IN, Resource
from .reviews import REVIEWS, USER
from .server import ApiServer
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .faults import Fault
    from .log import OnRequest, RequestLog
    from .store import Snapshot

_T = TypeVar("_T")
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class DevCluster:
    """An API server for development: everything in memory, on a port of the loopback address.

    Parameters
    ----------
    port
        0 takes a free one.
    log_size
        The number of changes to keep per kind; a watch that starts before them gets a 410.
    watch_queue
        Events that may wait for a slow watcher before its stream ends.
    bookmark_interval
        Seconds between the bookmarks of a quiet watch.
    on_request
        Called with method, path, user agent and status of every answered request.
    resources
        Further kinds to serve; the kinds of posted CustomResourceDefinitions are added automatically.
    disruption_controller
        Whether to update the status of disruption budgets, as the disruption controller does.
    """

    def __init__(  # noqa: PLR0913 - one for each option of the server
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log_size: int = 8192,
        watch_queue: int = 4096,
        bookmark_interval: float = 30.0,
        on_request: OnRequest | None = None,
        resources: Sequence[Resource] = (),
        disruption_controller: bool = True,
    ) -> None:
        self._host = host
        self._port = port
        self._store = Store(log_size)
        rows = (*BUILT_IN, *REVIEWS, DEFINITIONS, *resources)
        self._api = ApiServer(
            rows,
            self._store,
            watch_queue=watch_queue,
            bookmarks=bookmark_interval,
            disruption=disruption_controller,
        )
        self._api.log.on_request = on_request
        self._runner: web.ServerRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        namespaces = next(row for row in rows if row.plural == "namespaces")
        for name in _NAMESPACES:
            self._api.registry.create(Target(namespaces), {"metadata": {"name": name}})

    # ------------------------------------------------------------------------------------------------ life cycle

    async def start(self) -> str:
        """Start serving in the running loop, and return the URL."""
        self._loop = asyncio.get_running_loop()
        server = web.Server(self._api.handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._api.address = f"{self._host}:{self._port}"
        return self.url

    async def stop(self) -> None:
        """End all watches and stop serving; the objects stay, and :meth:`start` serves them again."""
        self._end_watches(expired=False)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._loop = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @classmethod
    @contextlib.contextmanager
    def thread(cls, **options: Any) -> Iterator[Self]:
        """Serve during the block, in a thread with its own loop; ``options`` are those of the constructor."""
        cluster = cls(**options)
        stop = asyncio.Event()
        started: Future[asyncio.AbstractEventLoop] = Future()

        async def serve() -> None:
            try:
                await cluster.start()
            except OSError as error:
                started.set_exception(error)
                return
            started.set_result(asyncio.get_running_loop())
            await stop.wait()
            await cluster.stop()

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="devcluster", daemon=True)
        thread.start()
        loop = started.result()
        try:
            yield cluster
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()

    # ------------------------------------------------------------------------------------------------ ways in

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{self._host}:{self._port}"

    def kubeconfig(self, path: Path | str) -> Path:
        """Write a kubeconfig for this server, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "devcluster", "cluster": {"server": self.url}}],
            "users": [{"name": USER, "user": {"token": "unchecked"}}],
            "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": USER}}],
            "current-context": "devcluster",
        }
        target = Path(path)
        target.write_text(json.dumps(config, indent=2) + "\n")
        return target

    @property
    def requests(self) -> RequestLog:
        """Counters of the answered requests."""
        return self._api.log

    # ------------------------------------------------------------------------------------------------ faults

    def inject(self, fault: Fault) -> Fault:
        """Add a fault, until :meth:`heal` or until it has hit ``times`` requests."""
        return self._call(lambda: self._api.faults.append(fault)) or fault

    def heal(self, fault: Fault | None = None) -> None:
        """Remove one fault, or all."""
        faults = self._api.faults
        self._call(lambda: faults.clear() if fault is None else faults.remove(fault))

    def end_watches(self, *, expired: bool = False) -> None:
        """End all open watches, cleanly or with a 410 in the stream, after which clients list again."""
        self._call(lambda: self._end_watches(expired=expired))

    def compact(self) -> None:
        """Drop all past changes: a watch from any earlier revision gets a 410."""

        def forget() -> None:
            for table in self._store.tables():
                table.log.clear()
                table.compacted = self._store.revision
            self._api.lists.forget()

        self._call(forget)

    def restart(self) -> None:
        """Cut all connections and serve the same objects again on the same port; not from the server's own loop."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("the cluster does not serve")

        async def again() -> None:
            await self.stop()
            await self.start()

        asyncio.run_coroutine_threadsafe(again(), loop).result()

    def snapshot(self) -> Snapshot:
        """Return the stored objects, for :meth:`restore`."""
        return self._call(self._store.snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot: watches end, and later revisions are assigned a second time."""

        def go_back() -> None:
            self._end_watches(expired=False)
            self._store.restore(snapshot)
            self._api.lists.forget()

        self._call(go_back)

    def _end_watches(self, *, expired: bool) -> None:
        for table in self._store.tables():
            for watcher in table.watchers:
                watcher.close(expired=expired)

    def _call(self, action: Callable[[], _T]) -> _T:
        """Run ``action`` in the server's loop, from any thread."""
        loop = self._loop
        try:
            inside = asyncio.get_running_loop() is loop
        except RuntimeError:
            inside = False
        if loop is None or inside:
            return action()

        async def run() -> _T:
            return action()

        return asyncio.run_coroutine_threadsafe(run(), loop).result()

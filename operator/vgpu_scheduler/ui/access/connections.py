"""Bounds how many connections are open, and ends those on which nothing is asked."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import Final

from aiohttp import web

__all__ = ["BoundedSite", "Bounds"]

_BACKLOG: Final = 128
_HANDSHAKE: Final = 10.0
"""Seconds that a TLS handshake may take."""
_EVERY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What connections are bounded by.

    Attributes
    ----------
    most
        So many at a time; more are closed at once.
    quiet
        Seconds without a request after which one is closed.
    """

    most: int = 512
    quiet: float = 75.0


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class BoundedSite(web.BaseSite):
    """Listens on an address."""

    def __init__(
        self,
        runner: web.AppRunner,
        address: tuple[str, int],
        context: ssl.SSLContext | None,
        bounds: Bounds,
    ) -> None:
        super().__init__(runner, ssl_context=context, backlog=_BACKLOG)
        self._address = address
        self._context = context
        self._bounds = bounds
        self._since: dict[asyncio.BaseTransport, float] = {}
        self._busy: dict[asyncio.BaseTransport, int] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Where it listens."""
        host, port = self._address
        return f"{'http' if self._context is None else 'https'}://{host}:{port}"

    async def start(self) -> None:
        """Begin to listen.

        Raises
        ------
        OSError
            If that is not possible.
        """
        await super().start()
        host, port = self._address
        handshake = None if self._context is None else _HANDSHAKE
        self._server = await asyncio.get_running_loop().create_server(
            self._accepted, host, port, ssl=self._context, backlog=_BACKLOG, ssl_handshake_timeout=handshake
        )
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Listen no more."""
        if self._watching is not None:
            self._watching.cancel()
        await super().stop()

    def asked(self, transport: asyncio.BaseTransport | None, more: int) -> None:
        """Note that a request has begun on a connection (1), or ended (-1)."""
        if transport is not None:
            self._busy[transport] = self._busy.get(transport, 0) + more
            self._since[transport] = time.monotonic()

    def _accepted(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        return server() if len(server.connections) < self._bounds.most else _Refused()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(_EVERY, self._bounds.quiet))
            server, now = self._runner.server, time.monotonic()
            transports = (handler.transport for handler in server.connections) if server is not None else ()
            there = [transport for transport in transports if transport is not None]
            self._since = {transport: self._since.get(transport, now) for transport in there}
            self._busy = {transport: self._busy.get(transport, 0) for transport in there}
            for transport, since in self._since.items():
                if not self._busy[transport] and now - since > self._bounds.quiet:
                    transport.close()

"""Limits the number of open connections, and closes idle ones."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from vgpu_scheduler.apiclient import TaskSet

_BACKLOG: Final = 128
_HANDSHAKE: Final = 10.0
"""The longest time of a TLS handshake (seconds)."""
_EVERY: Final = 5.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors of a process or a machine that can take no connection now."""
_ACCEPT_AGAIN: Final = 1.0
"""Seconds to wait after a connection could not be accepted, for example for want of file descriptors."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of connections.

    Attributes
    ----------
    most
        The most connections, including TLS handshakes in progress; further ones are closed at once.
    quiet
        Seconds without a request after which a connection is closed.
    """

    most: int = 512
    quiet: float = 75.0


class BoundedSite(web.BaseSite):
    """Listens on an address.

    It accepts connections itself, because asyncio's server does not report a connection before its TLS handshake.
    """

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
        self._opening: set[web.RequestHandler] = set()
        """Handlers of accepted connections that may still be in their handshake."""
        self._tasks = TaskSet()

    @property
    def name(self) -> str:
        """The address of the site."""
        host, port = self._address
        return f"{'http' if self._context is None else 'https'}://{host}:{port}"

    async def start(self) -> None:
        """Start listening.

        Raises
        ------
        OSError
            If the address cannot be bound.
        """
        await super().start()
        host, port = self._address
        self._server = server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, host, port, backlog=_BACKLOG, start_serving=False
        )
        for bound in server.sockets:
            listening = socket.socket(fileno=os.dup(bound.fileno()))
            listening.settimeout(0.0)
            listening.listen(_BACKLOG)
            self._tasks.start(self._accept(listening), f"accept-{self.name}")
        self._tasks.start(self._watch(), f"watch-{self.name}")

    async def stop(self) -> None:
        """Stop listening."""
        await self._tasks.stop()
        await super().stop()

    def asked(self, transport: asyncio.BaseTransport | None, more: int) -> None:
        """Note that a request began on a connection (1) or ended (-1)."""
        if transport is not None:
            self._busy[transport] = self._busy.get(transport, 0) + more
            self._since[transport] = time.monotonic()

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled; those over the limit are closed before any data is exchanged."""
        server, loop = self._runner.server, asyncio.get_running_loop()
        assert server is not None
        with listening:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:  # most are errors of the connection alone
                    await asyncio.sleep(_ACCEPT_AGAIN if error.errno in _EXHAUSTED else 0.0)
                    continue
                shaking_hands = sum(handler.transport is None for handler in self._opening)
                if len(server.connections) + shaking_hands >= self._bounds.most:
                    connection.close()
                else:
                    handler = server()
                    self._opening.add(handler)
                    self._tasks.start(self._open(connection, handler), f"open-{self.name}")
                await asyncio.sleep(0)  # give other tasks a turn, however many connections arrive

    async def _open(self, connection: socket.socket, handler: web.RequestHandler) -> None:
        """Serve a connection after its TLS handshake."""
        try:
            with suppress(OSError):  # a client that speaks no TLS, or says nothing
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: handler,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=None if self._context is None else _HANDSHAKE,
                )
        finally:
            self._opening.discard(handler)

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

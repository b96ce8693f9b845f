"""A proxy between the operator and the API server that does to requests and watches what networks and servers do.

A :class:`Rule` says which requests it hits and what happens to them: before they take effect, or after. Watches are
treated all at once, by methods of the proxy. What was done is counted in :attr:`FaultProxy.injected`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

import aiohttp
from aiohttp import web

GIVEN_UP = 60.0
"""Seconds for which a request without an answer is kept open, if its client waits that long."""
_KEPT_BACK = frozenset(("host", "content-length", "transfer-encoding", "connection", "keep-alive"))
_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}


class What(Enum):
    """Kinds of requests."""

    NODE = "node patch"
    BINDING = "Binding"
    CONDITION = "condition"
    EVENT = "event"
    LEASE = "lease"
    VOLUME = "claim or volume"
    EVICTION = "eviction"
    RECORD = "record of an eviction"
    CLEARING = "clearing of a nomination"
    WATCH = "watch"
    CONTINUED = "list continuation"
    READ = "read"
    OTHER = "other"


class Do(Enum):
    """What happens to a request."""

    REFUSE = "refused"
    HANG = "not carried out, and not answered"
    CUT = "not carried out, and the connection cut"
    REFUSE_AFTER = "carried out, but answered with an error"
    CUT_AFTER = "carried out, but the connection cut"
    HOLD = "delivered late"
    HOLD_ANSWER = "carried out, but answered late"


_AFTER = frozenset((Do.REFUSE_AFTER, Do.CUT_AFTER, Do.HOLD_ANSWER))


@dataclass(eq=False, slots=True)
class Rule:
    """Which requests are hit, and what is done to them.

    Attributes
    ----------
    what
        Their kind.
    do
        What is done.
    status, retry_after
        The answer, where there is one.
    name
        A text that their path has to have.
    times, every, first
        How many are hit at most, and which ones: the one after so many (``first``), and each one so many later.
    held
        Set when a request is kept back.
    go_on
        Set to let go what is kept back.
    seen, hits
        Requests of the kind, and those that were hit.
    """

    what: What
    do: Do
    status: int = 0
    name: str = ""
    times: int = 1
    every: int = 1
    first: int = 0
    retry_after: float = 0.0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    seen: int = 0
    hits: int = 0
    path: str = ""
    """That of the last request that was hit."""
    message: str = "a fault on order"
    """What a refusal says."""

    def hit(self, what: What, path: str) -> bool:
        """Tell whether a request is hit, and count it."""
        if what is not self.what or self.name not in path or self.hits >= self.times:
            return False
        self.seen += 1
        if self.seen <= self.first or (self.seen - 1 - self.first) % self.every:
            return False
        self.hits += 1
        self.path = path
        return True


@dataclass(eq=False, slots=True)
class _Watch:
    """One open watch: what becomes of what comes next."""

    request: web.BaseRequest
    answer: aiohttp.ClientResponse
    cut: bool = False
    truncated: bool = False

    def end(self) -> None:
        """Cut both of its connections."""
        self.cut = True
        self.answer.close()
        _cut(self.request)


class FaultProxy:
    """Serves plain HTTP on a free port of the loopback address and hands everything on; an async context manager.

    Parameters
    ----------
    upstream
        The API server.
    tls
        How it is trusted.

    Attributes
    ----------
    delay
        Seconds before each answer, watches excepted.
    pace
        Seconds between two pieces of a watch.
    page
        How many objects a page of a list has at most; 0 leaves that to the client.
    injected
        How often each thing was done.
    under_way
        Requests that a rule has hit and that are not over.
    """

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        self.delay = 0.0
        self.pace = 0.0
        self.page = 0
        self.injected: Counter[str] = Counter()
        self.under_way = 0
        self._upstream = upstream
        self._tls = tls
        self._rules: list[Rule] = []
        self._watches: set[_Watch] = set()
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=timeout)
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.heal()
        for watch in list(self._watches):
            watch.end()
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    # Faults ----------------------------------------------------------------------------------------------------------

    def add(self, rule: Rule) -> Rule:
        """Put a rule into force."""
        self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Do nothing any more; what is kept back goes on."""
        for rule in self._rules:
            rule.go_on.set()
        self._rules.clear()
        self.delay, self.pace, self.page = 0.0, 0.0, 0
        self._speaks.set()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Hand nothing of any watch on for the time of the block; the connections stay open."""
        self._speaks.clear()
        self.injected["watch silent"] += len(self._watches)
        try:
            yield
        finally:
            self._speaks.set()

    def cut_watches(self) -> None:
        """Cut the connections of all watches."""
        for watch in list(self._watches):
            self.injected["watch cut"] += 1
            watch.end()

    def truncate_watches(self) -> None:
        """End each watch in the middle of its next line."""
        for watch in self._watches:
            watch.truncated = True

    # Requests --------------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        what = kind_of(request, body)
        rule = next((rule for rule in self._rules if rule.hit(what, request.path_qs)), None)
        if rule is not None:
            self.injected[f"{what.value}: {rule.do.value}{f' ({rule.status})' if rule.status else ''}"] += 1
        if rule is None:
            return await (self._relay(request) if what is What.WATCH else self._answer(request, body))
        self.under_way += 1
        try:
            return await self._faulty(rule, request, body)
        finally:
            self.under_way -= 1

    async def _answer(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Answer as the API server does, if late."""
        if self.delay:
            self.injected["slow answer"] += 1
            await asyncio.sleep(self.delay)
        return await self._forward(request, body) or _cut(request)

    async def _faulty(self, rule: Rule, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Do to a request what a rule says."""
        if rule.do not in _AFTER:
            early = await self._before(rule, request)
            if early is not None:
                return early
        answer = await self._forward(request, body)
        if answer is None or rule.do is Do.CUT_AFTER:
            return _cut(request)
        if rule.do is Do.HOLD_ANSWER:
            rule.held.set()
            await rule.go_on.wait()
        return _refusal(rule) if rule.do is Do.REFUSE_AFTER else answer

    async def _before(self, rule: Rule, request: web.BaseRequest) -> web.StreamResponse | None:
        """Do what comes before a request takes effect; None if it goes on then."""
        if rule.do is Do.REFUSE:
            return _refusal(rule)
        if rule.do is Do.HANG:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GIVEN_UP):
                    await rule.go_on.wait()
        if rule.do is Do.HOLD:
            rule.held.set()
            await rule.go_on.wait()
            return None
        return _cut(request)

    async def _forward(self, request: web.BaseRequest, body: bytes) -> web.Response | None:
        """Hand a request on; None if the API server does not answer."""
        assert self._session is not None
        try:
            async with self._session.request(
                request.method, self._target(request), data=body or None, headers=_headers(request.headers)
            ) as answer:
                return web.Response(status=answer.status, body=await answer.read(), headers=_headers(answer.headers))
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    def _target(self, request: web.BaseRequest) -> str:
        path = request.path_qs
        if self.page and "limit=500" in path:
            self.injected["small page"] += 1
            path = path.replace("limit=500", f"limit={self.page}")
        return self._upstream + path

    # Watches ---------------------------------------------------------------------------------------------------------

    async def _relay(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        headers = {**_headers(request.headers), "Accept-Encoding": "identity"}
        try:
            async with self._session.get(self._target(request), headers=headers) as answer:
                watch = _Watch(request, answer)
                self._watches.add(watch)
                try:
                    return await self._pass_on(watch)
                finally:
                    self._watches.discard(watch)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return _cut(request)

    async def _pass_on(self, watch: _Watch) -> web.StreamResponse:
        """Hand on what comes on a watch until it ends or is cut."""
        response = web.StreamResponse(status=watch.answer.status, headers=_headers(watch.answer.headers))
        response.enable_chunked_encoding()
        await response.prepare(watch.request)
        while piece := await watch.answer.content.readany():
            if self.pace:
                self.injected["watch slow"] += 1
                await asyncio.sleep(self.pace)
            await self._speaks.wait()
            if watch.truncated:
                self.injected["watch truncated"] += 1
                await response.write(piece[: len(piece) // 2])
            if watch.truncated or watch.cut:
                return _cut(watch.request)
            await response.write(piece)
        await response.write_eof()
        return response


def kind_of(request: web.BaseRequest, body: bytes = b"") -> What:
    """Tell what kind of request it is."""
    parts = request.path.strip("/").split("/")
    if request.query.get("watch") in {"1", "true"}:
        return What.WATCH
    if request.method == "GET":
        return What.CONTINUED if request.query.get("continue") else What.READ
    for word, what in _WRITES.items():
        if word in parts:
            return what
    if request.method == "PATCH" and "clustervgpupolicies" in parts and b'"evictions"' in body:
        return What.RECORD
    if request.method == "PATCH" and "pods" in parts and parts[-1] == "status":
        return What.CLEARING if b'"nominatedNodeName":null' in body else What.CONDITION
    return What.OTHER


_WRITES = {
    "binding": What.BINDING,
    "eviction": What.EVICTION,
    "events": What.EVENT,
    "leases": What.LEASE,
    "persistentvolumeclaims": What.VOLUME,
    "persistentvolumes": What.VOLUME,
    "nodes": What.NODE,
}


def _headers(found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if name.lower() not in _KEPT_BACK}


def _refusal(rule: Rule) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": rule.message,
        "reason": _REASONS.get(rule.status, ""),
        "code": rule.status,
    }
    headers = {"Retry-After": f"{rule.retry_after:g}"} if rule.retry_after else {}
    return web.Response(status=rule.status, text=json.dumps(status), content_type="application/json", headers=headers)


def _cut(request: web.BaseRequest) -> web.Response:
    """Cut the connection; what is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()

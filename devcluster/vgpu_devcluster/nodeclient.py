"""The node side's HTTP: requests that survive a restart of the server, and a list-watch that never loses an object."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import msgspec

from vgpu_scheduler.kube import decode_json

from . import patches

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator, Mapping

Object = dict[str, Any]
USER_AGENT = "nodeside"

_MAX_BACKOFF = 1.0
_LINE_LIMIT = 16 * 1024 * 1024
_encode = msgspec.json.Encoder().encode
_decode = decode_json


class RequestError(Exception):
    """The API server refused a request."""

    def __init__(self, method: str, path: str, code: int, message: str) -> None:
        super().__init__(f"{method} {path}: {code} {message}")
        self.code = code


@contextmanager
def unless_gone(*, or_replaced: bool = False) -> Iterator[None]:
    """Skip the rest of the block if the object of a request is gone.

    Parameters
    ----------
    or_replaced
        For requests that name a UID: also skip it if another object has the name now.
    """
    try:
        yield
    except RequestError as error:
        if error.code != 404 and not (or_replaced and error.code == 409):
            raise


class NodeClient:
    """Requests to one API server; use it as an async context manager."""

    def __init__(
        self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None, retry_for: float = 30.0
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": USER_AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._tls = tls
        self._retry_for = retry_for
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=128, ssl=self._tls if self._tls is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0),
            read_bufsize=_LINE_LIMIT,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", query: str = ""
    ) -> Object:
        """Send a request and return the answer; failed connections are retried for ``retry_for`` seconds.

        Raises
        ------
        RequestError
            The server answered with an error.
        """
        data = None if body is None else _encode(body)
        url = f"{self._url}{path}{query}"
        deadline = asyncio.get_running_loop().time() + self._retry_for
        backoff = 0.05
        while True:
            try:
                headers = {"Content-Type": content_type}
                async with self._open().request(method, url, data=data, headers=headers) as response:
                    answer: Object = _decode(await response.read())
                    if response.status >= 400:
                        raise RequestError(method, path, response.status, answer.get("message", ""))
                    return answer
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _MAX_BACKOFF)

    async def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """Send a merge patch."""
        return await self.request("PATCH", path, body, content_type=patches.MERGE)

    async def strategic(self, path: str, body: Mapping[str, Any]) -> Object:
        """Send a strategic merge patch."""
        return await self.request("PATCH", path, body, content_type=patches.STRATEGIC)

    async def json_patch(self, path: str, operations: list[Object]) -> Object:
        """Send a JSON patch."""
        return await self.request("PATCH", path, operations, content_type=patches.JSON)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session

    async def follow(self, path: str, query: str = "") -> AsyncIterator[tuple[str, Object]]:
        """List and watch forever.

        Yields
        ------
        tuple[str, dict]
            ``ADDED``, ``MODIFIED`` or ``DELETED`` with the object, and ``SYNCED`` with an empty one after each list.
            Objects deleted while the server was away are yielded as ``DELETED`` with their last known state.
        """
        known: dict[str, Object] = {}
        while True:
            listed = await self._list(path, query)
            found = {item["metadata"]["uid"]: item for item in listed["items"]}
            for uid in known.keys() - found.keys():
                yield "DELETED", known[uid]
            for uid, item in found.items():
                yield ("MODIFIED" if uid in known else "ADDED"), item
            known = found
            yield "SYNCED", {}
            async for kind, obj in self._watch(path, query, listed["metadata"]["resourceVersion"]):
                uid = obj["metadata"]["uid"]
                if kind == "DELETED":
                    known.pop(uid, None)
                else:
                    known[uid] = obj
                yield kind, obj

    async def _list(self, path: str, query: str) -> Object:
        while True:
            try:
                return await self.request("GET", path, query=f"?{query}")
            except RequestError as error:
                if error.code < 500:
                    raise
                await asyncio.sleep(_MAX_BACKOFF)

    async def _watch(self, path: str, query: str, revision: str) -> AsyncIterator[tuple[str, Object]]:
        """Watch from a revision, and resume from the last one seen until the server has dropped it."""
        while True:
            url = f"{self._url}{path}?watch=1&allowWatchBookmarks=true&resourceVersion={revision}&{query}"
            try:
                async with self._open().get(url) as response:
                    if response.status != 200:
                        return
                    async for line in response.content:
                        event = _decode(line)
                        if event["type"] == "ERROR":
                            return
                        revision = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event["type"], event["object"]
            except (aiohttp.ClientError, msgspec.DecodeError, TimeoutError):
                await asyncio.sleep(0.05)

"""WATCH: sends the initial state or missed changes, then events and bookmarks, until the client or a timeout ends."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .objects import render
from .status import ApiError, expired
from .store import Watcher, encode, event_pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from .resources import Resource
    from .selectors import Selector
    from .store import Store

_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The parameters of a watch.

    Attributes
    ----------
    revision
        The revision to continue from; None starts with the current state as ADDED events.
    end_of_state
        Whether a bookmark marks the end of the current state (``sendInitialEvents``).
    convert
        Converts lines to the form that the client asked for.
    """

    revision: int | None
    end_of_state: bool
    bookmarks: bool
    timeout: float
    bookmark_interval: float = 30.0
    convert: Callable[[bytes], bytes] | None = None


def subscribe(store: Store, resource: Resource, selector: Selector, options: WatchOptions, limit: int) -> Watcher:
    """Register a watcher, with the events in its queue that it has to see first.

    Its queue has room for ``limit`` more events. If the revision was dropped, the watcher is closed with a 410 inside
    the stream, as on the API server.
    """
    table = store.table(resource)
    watcher = Watcher(resource, selector, limit, options.revision or 0)
    first: list[bytes] = []
    if options.revision is None:
        for entry in store.select(resource, selector):
            first += event_pieces("ADDED", render(resource, entry))
        if options.end_of_state and options.bookmarks:
            first += event_pieces("BOOKMARK", bookmark(resource, store.revision, _INITIAL_EVENTS_END))
    else:
        try:
            for change in table.since(options.revision):
                first += watcher.pieces(change)
        except ApiError as error:
            first += event_pieces("ERROR", encode(error.status()))
            watcher.close()
    watcher.start(first)
    if not watcher.closed:
        table.watchers.add(watcher)
    return watcher


async def stream(request: web.BaseRequest, store: Store, watcher: Watcher, options: WatchOptions) -> web.StreamResponse:
    """Send a watcher's events until the client goes away, the timeout is over or the watcher is closed."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    loop = asyncio.get_running_loop()
    end = loop.time() + options.timeout
    next_bookmark = loop.time() + options.bookmark_interval if options.bookmarks else float("inf")
    convert = options.convert or bytes
    try:
        await response.prepare(request)
        while True:
            if data := watcher.take():
                await response.write(convert(data))
                continue  # more may have been queued while the client was reading
            if watcher.closed or loop.time() >= end:
                break
            if loop.time() >= next_bookmark:
                next_bookmark = loop.time() + options.bookmark_interval
                # nothing is queued, so the client has seen everything up to this revision
                await response.write(convert(_line("BOOKMARK", bookmark(watcher.resource, store.revision))))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(end, next_bookmark)):
                    await watcher.wake.wait()
        if watcher.expired:
            await response.write(_line("ERROR", encode(expired(0, store.revision).status())))
        await response.write_eof()
    except ConnectionError:
        pass  # the client has gone away
    finally:
        store.table(watcher.resource).watchers.discard(watcher)
    return response


def _line(kind: str, raw: bytes) -> bytes:
    return b"".join(event_pieces(kind, raw))


def bookmark(resource: Resource, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    """Return an object of the kind that contains only a revision."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    return encode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})

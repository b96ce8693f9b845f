"""Serves the pages to one browser of this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from aiohttp import web

from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading import ClusterView, view_warnings
from vgpu_scheduler.ui.current import CurrentWorld
from vgpu_scheduler.ui.errors import RefusedError
from vgpu_scheduler.ui.guard import HEADERS, Guard
from vgpu_scheduler.ui.pages import CardsView, card_page, cards_page, now_page, pod_page, waiting_page
from vgpu_scheduler.ui.pages.cards import PARAMETERS
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.streams import Streams
from vgpu_scheduler.ui.templating import render
from vgpu_scheduler.whatif import World

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_LONGEST_LINE: Final = 4096
_MOST_KEPT: Final = 64
_KEPT_FOR: Final = 5.0
"""Answers that are kept for as long as nothing changes, and for how many seconds."""
_STATIC: Final = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_TITLES: Final = {"now": "Now", "cards": "Cards", "waiting": "Waiting"}
Deletable = Callable[[Collection[str]], Awaitable[Collection[str]]]
_Make = Callable[[World, ClusterView], Any]


@dataclass(frozen=True, slots=True)
class Window:
    """What is served.

    Attributes
    ----------
    current
        The world that pages are made from.
    deletable
        Returns in which of some namespaces the user may delete pods; None where it makes no difference.
    """

    current: CurrentWorld
    deletable: Deletable | None = None


@dataclass(frozen=True, slots=True)
class _Page:
    """How a page is made.

    Attributes
    ----------
    name
        Of its template.
    parameters
        What its address may say.
    """

    name: str
    make: Callable[[web.Request, Query], _Make]
    parameters: tuple[str, ...] = ()


def _now(_: web.Request, __: Query) -> _Make:
    return lambda world, view: now_page(world, view.read_at)


def _cards(_: web.Request, query: Query) -> _Make:
    shown = CardsView.of(query)
    return lambda world, _: cards_page(world, shown)


def _card(request: web.Request, _: Query) -> _Make:
    node, name = request.match_info["node"], request.match_info["card"]
    return lambda world, _: card_page(world, node, name)


def _waiting(_: web.Request, query: Query) -> _Make:
    return lambda world, view: waiting_page(world, view.read_at, query.get("namespace"))


def _pod(request: web.Request, query: Query) -> _Make:
    key = f"{request.match_info['namespace']}/{request.match_info['name']}"
    return lambda world, view: pod_page(world, view, key, query.get("node"))


_PAGES: Final = {
    "/": _Page("now", _now),
    "/cards": _Page("cards", _cards, PARAMETERS),
    "/cards/{node:[^/]+}/{card:.+}": _Page("card", _card),
    "/waiting": _Page("waiting", _waiting, ("namespace",)),
    "/pods/{namespace:[^/]+}/{name:[^/]+}": _Page("pod", _pod, ("node",)),
}


async def serve(window: Window, port: int) -> tuple[web.AppRunner, str]:
    """Serve the pages on the loopback address.

    Parameters
    ----------
    port
        0 takes a free one.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the address that lets a browser in.

    Raises
    ------
    OSError
        If the port is taken.
    """
    answering = _Answering(window)
    runner = web.AppRunner(
        answering.app,
        access_log=None,
        handler_cancellation=True,  # a stream whose browser is gone ends
        shutdown_timeout=1.0,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    )
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    answering.guard = Guard(int(runner.addresses[0][1]))
    return runner, answering.guard.address


class _Answering:
    """Answers requests."""

    guard: Guard

    def __init__(self, window: Window) -> None:
        self._window = window
        self._streams = Streams(window.current)
        self._kept: dict[str, web.Response] = {}
        self._kept_of = (0, 0)
        self.app = web.Application(middlewares=[self._answer], client_max_size=0)
        self.app.on_response_prepare.append(_add_headers)
        self.app.on_shutdown.append(self._close)
        for path, page in _PAGES.items():
            self.app.router.add_get(path, self._handler(page))
        self.app.router.add_get("/events", self._streams.follow)
        for name, kind in _STATIC.items():
            self.app.router.add_get(f"/static/{name}", _static(name, kind))

    async def _close(self, _: web.Application) -> None:
        await self._streams.close()

    @web.middleware
    async def _answer(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """Answer a request, or say why not: never with a traceback."""
        try:
            self.guard.check(request)
            welcome = self.guard.let_in(request)
            answer: web.StreamResponse = await handler(request) if welcome is None else welcome
        except RefusedError as error:
            return _refused(error.status, str(error))
        except web.HTTPException as error:
            missing = error.status == HTTPStatus.NOT_FOUND
            told = f"there is no page {quoted(request.path)}" if missing else error.reason
            return _refused(HTTPStatus(error.status), told)
        except Exception:
            log.exception("%s", quoted(request.path))
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "this page could not be made; the log says why")
        return answer

    def _handler(self, page: _Page) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            query = Query.read(request.query.items(), page.parameters)
            asked_of = self._age()
            if self._kept_of != asked_of:
                self._kept, self._kept_of = {}, asked_of
            found = self._kept.get(request.path_qs)
            if found is None:
                found = await self._made(page, request, query)
                if asked_of == self._kept_of == self._age() and len(self._kept) < _MOST_KEPT:
                    self._kept[request.path_qs] = found
            return _again(found)

        return handle

    def _age(self) -> tuple[int, int]:
        """Return what answers are kept for: as long as nothing changes, and not so long that ages are wrong."""
        return self._window.current.generation, int(time.monotonic() / _KEPT_FOR)

    async def _made(self, page: _Page, request: web.Request, query: Query) -> web.Response:
        make = page.make(request, query)

        def ask(world: World, view: ClusterView) -> tuple[Any, list[str]]:
            return make(world, view), list(view_warnings(world, view))

        current, generation = self._window.current, self._window.current.generation
        shown, warnings = await current.ask(ask)
        if page.name == "pod" and current.view.live and self._window.deletable is not None:
            mine = await self._window.deletable(shown.told.namespaces)
            shown = shown.without_others(mine)
        if query.wants_json:
            text = await asyncio.to_thread(json.dumps, shown.as_json(), indent=2)
            return web.Response(text=f"{text}\n", content_type="application/json")
        values = {"page": page.name, "titles": _TITLES, "shown": shown, "query": query, "generation": generation}
        values |= {"trouble": current.trouble, "warnings": warnings, "origin": current.view.origin or "the cluster"}
        text = await asyncio.to_thread(render, f"{page.name}.html", values)
        return web.Response(text=text, content_type="text/html", charset="utf-8")


def _again(answer: web.Response) -> web.Response:
    """Return an answer that can be sent: each is sent once."""
    return web.Response(body=answer.body, content_type=answer.content_type, charset="utf-8")


def _refused(status: HTTPStatus, message: str) -> web.Response:
    values = {"page": "", "titles": {}, "status": status, "message": message}
    return web.Response(text=render("message.html", values), status=status, content_type="text/html", charset="utf-8")


def _static(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    content = (files("vgpu_scheduler.ui") / "static" / name).read_text()

    async def handle(_: web.Request) -> web.Response:
        return web.Response(text=content, content_type=kind, charset="utf-8")

    return handle


async def _add_headers(_: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(HEADERS)
    answer.headers["Server"] = "vgpu-scheduler"

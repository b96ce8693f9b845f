"""Serves the pages to one browser of this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web

from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading import ClusterView, make_world, view_warnings
from vgpu_scheduler.ui.checkup import Checkup
from vgpu_scheduler.ui.current import Question
from vgpu_scheduler.ui.errors import BadQueryError, RefusedError
from vgpu_scheduler.ui.guard import HEADERS, Guard
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.routes import PAGES, TITLES, Page
from vgpu_scheduler.ui.streams import Streams
from vgpu_scheduler.ui.supposing import Supposing
from vgpu_scheduler.ui.templating import render
from vgpu_scheduler.ui.window import BESIDE, Beside, Window
from vgpu_scheduler.whatif import World

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_LONGEST_LINE: Final = 8190
_MOST_KEPT: Final = 64
_KEPT_FOR: Final = 5.0
"""Answers that are kept for as long as nothing changes, and for how many seconds."""
_LARGEST: Final = 1024 * 1024
"""Bytes of a form."""
_LONGEST_ADDRESS: Final = 6000
"""Characters of an address that a form is turned into, so that it can be sent."""
_TOO_LARGE: Final = f"this is larger than {_LARGEST // 1024} KiB"
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100
_STATIC: Final = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_Shown = TypeVar("_Shown")


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
        self._supposing = Supposing()
        self._checkup = Checkup(window.look, window.current.tell) if window.look is not None else None
        self._kept: dict[str, web.Response] = {}
        self._kept_of = (0, 0)
        self.app = web.Application(middlewares=[self._answer], client_max_size=_LARGEST)
        self.app[BESIDE] = Beside(window.current, self._checkup)
        self.app.on_response_prepare.append(_add_headers)
        self.app.on_shutdown.append(self._close)
        for path, page in PAGES.items():
            self.app.router.add_get(path, self._handler(page))
            if page.texts:
                self.app.router.add_post(path, self._form_handler(page))
        self.app.router.add_get("/events", self._streams.follow)
        for name, kind in _STATIC.items():
            self.app.router.add_get(f"/static/{name}", _static(name, kind))

    async def _close(self, _: web.Application) -> None:
        await self._streams.close()
        self._supposing.close()
        if self._checkup is not None:
            self._checkup.close()

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
            missing = f"there is no page {quoted(request.path)}"
            told = {HTTPStatus.NOT_FOUND: missing, HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _TOO_LARGE}
            return _refused(HTTPStatus(error.status), told.get(HTTPStatus(error.status), error.reason))
        except Exception:
            log.exception("%s", quoted(request.path))
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "this page could not be made; the log says why")
        return answer

    def _form_handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            query = Query.read(await _fields(request), page.parameters, page.texts, page.prefix, page.formats)
            address = f"{request.rel_url.raw_path}{query.with_values()}"
            if len(address) > _LONGEST_ADDRESS:
                return await self._made(page, request, query)
            return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})

        return handle

    def _handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            query = Query.read(request.query.items(), page.parameters, page.texts, page.prefix, page.formats)
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

    async def _made(self, page: Page, request: web.Request, query: Query) -> web.Response:
        make = page.make(request, query)

        def ask(world: World, view: ClusterView) -> tuple[Any, list[str]]:
            return make(world, view), list(view_warnings(world, view))

        current, generation = self._window.current, self._window.current.generation
        is_alone = page.is_alone(query)
        shown, warnings = await (self._alone(ask) if is_alone else current.ask(ask))
        if page.name == "pod" and current.view.live and self._window.deletable is not None:
            mine = await self._window.deletable(shown.told.namespaces)
            shown = shown.without_others(mine)
        if query.wants_json:
            text = await asyncio.to_thread(json.dumps, shown.as_json(), indent=2)
            return web.Response(text=f"{text}\n", content_type="application/json")
        if query.wants_csv:
            return web.Response(text=shown.as_csv(), content_type="text/csv")
        values = {"page": page.name, "titles": TITLES, "shown": shown, "query": query, "generation": generation}
        values |= {"still": is_alone, "posted": request.method == "POST"}
        values |= {"trouble": current.trouble, "warnings": warnings, "origin": current.view.origin or "the cluster"}
        text = await asyncio.to_thread(render, f"{page.name}.html", values)
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def _alone(self, ask: Question[_Shown]) -> _Shown:
        """Ask something of a world of its own."""
        view = self._window.fresh()
        return await self._supposing.ask(lambda: ask(make_world(view), view))


async def _fields(request: web.Request) -> list[tuple[str, str]]:
    """Return the fields of a form.

    Raises
    ------
    BadQueryError
        If it is none.
    """
    if request.content_type != _FORM:
        raise BadQueryError(f"a form comes as {_FORM}")
    try:
        body = (await request.read()).decode()
        return parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadQueryError("the form cannot be understood") from None


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

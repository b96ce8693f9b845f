"""The web server of the pages: for one browser on this machine, or for users admitted by a guard."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, TypeVar

from aiohttp import web

from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading import ClusterView, make_world, view_warnings
from vgpu_scheduler.ui.access import JSON, BoundedSite, Bounds, Guard, LocalKeyGuard, Visitor, wants_json
from vgpu_scheduler.ui.concurrency_limit import ConcurrencyLimit
from vgpu_scheduler.ui.current import Question
from vgpu_scheduler.ui.doctor_polling import DoctorPoller
from vgpu_scheduler.ui.errors import HttpStatusError
from vgpu_scheduler.ui.forms import LARGEST, fields_of
from vgpu_scheduler.ui.name_redaction import NameRedactor
from vgpu_scheduler.ui.page_setup import PAGE_SOURCES, PageSetup, PageSources
from vgpu_scheduler.ui.prometheus_polling import PrometheusPoller
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.routes import PAGES, Page, titles_for
from vgpu_scheduler.ui.streams import Streams
from vgpu_scheduler.ui.templating import render
from vgpu_scheduler.ui.what_if_thread import WhatIfThread
from vgpu_scheduler.whatif import World

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_LONGEST_LINE: Final = 8190
_MOST_KEPT: Final = 64
_KEPT_FOR: Final = 5.0
"""The most answers to cache, and for how many seconds at most."""
_MOST_MADE, _MOST_MADE_OF_ONE = 128, 16
"""The most pages to make at a time, in total and for one user: as many as may be open."""
_LONGEST_ADDRESS: Final = 6000
"""The longest address (characters) to which a submitted form is redirected."""
_TOO_LARGE: Final = f"this is larger than {LARGEST // 1024} KiB"
_STATIC: Final = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_VISITOR: Final = web.RequestKey("visitor", Visitor)
_OWN: Final = web.RequestKey("own", list[str])
_FIELDS: Final = web.RequestKey("fields", list[str])
"""The texts of the request's form, which its sender knows already."""
_ABOUT_ALL: Final = (
    "this page is about the whole cluster: it is shown only to users who may list all of its pods and nodes"
)
_OUT_OF_DATE: Final = "What is shown may be out of date: the page cannot follow the cluster at the moment."
_Shown = TypeVar("_Shown")
_Kept = tuple[Visitor, str]
"""The key of a cached answer: the visitor, as far as the answer depends on them, and the address."""


async def serve(setup: PageSetup, port: int) -> tuple[web.AppRunner, str]:
    """Serve the pages on the loopback address.

    Parameters
    ----------
    port
        The port; 0 takes a free one.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the address with the key for the browser.

    Raises
    ------
    OSError
        If the port is taken.
    """
    answering = _Answering(setup)
    runner = answering.runner()
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    deletable = setup.deletable if setup.current.view.live else None
    guard = LocalKeyGuard(int(runner.addresses[0][1]), deletable)
    answering.guard = guard
    return runner, guard.address


async def serve_guarded(
    setup: PageSetup,
    guard: Guard,
    address: tuple[str, int],
    context: ssl.SSLContext | None,
    bounds: Bounds | None = None,
) -> web.AppRunner:
    """Serve the pages to users admitted by a guard.

    Parameters
    ----------
    address
        Host and port to listen on; port 0 takes a free one.
    context
        The TLS context; None for plain HTTP.
    bounds
        The limits of connections; None for the defaults.

    Returns
    -------
    aiohttp.web.AppRunner
        The runner, to be cleaned up at the end.

    Raises
    ------
    OSError
        If the server cannot listen there.
    """
    answering = _Answering(setup, guard)
    runner = answering.runner()
    await runner.setup()
    site = BoundedSite(runner, address, context, bounds or Bounds())
    answering.asked = site.asked
    await site.start()
    return runner


class _Answering:
    """Answers requests."""

    guard: Guard

    def __init__(self, setup: PageSetup, guard: Guard | None = None) -> None:
        self._setup = setup
        if guard is not None:
            self.guard = guard
        self.asked: Callable[[asyncio.BaseTransport | None, int], None] = lambda _, __: None
        self._streams = Streams(setup.current, guard.stream_lasts if guard is not None else None)
        self._supposing = WhatIfThread()
        self._doctor_poller = (
            DoctorPoller(setup.look, setup.current.start_generation) if setup.look is not None else None
        )
        self._prometheus_poller = (
            PrometheusPoller(setup.held, setup.current.start_generation) if setup.held is not None else None
        )
        self._kept: dict[_Kept, web.Response] = {}
        self._making: dict[_Kept, asyncio.Task[web.Response]] = {}
        self._kept_of = (0, 0)
        self._limit = ConcurrencyLimit(
            _MOST_MADE,
            _MOST_MADE_OF_ONE,
            "{} pages are being rendered: try again soon",
            "{} pages of yours are being rendered: try again soon",
        )
        self.app = web.Application(middlewares=[self._answer], client_max_size=LARGEST)
        self.app[PAGE_SOURCES] = PageSources(setup.current, self._doctor_poller, self._prometheus_poller)
        self.app.on_response_prepare.append(self._add_headers)
        self.app.on_shutdown.append(self._close)
        for path, page in PAGES.items():
            self.app.router.add_get(path, self._handler(page))
            if page.texts:
                self.app.router.add_post(path, self._form_handler(page))
        self.app.router.add_get("/events", self._follow)
        self.app.router.add_routes(guard.routes() if guard is not None else ())
        for name, kind in _STATIC.items():
            self.app.router.add_get(f"/static/{name}", _static(name, kind))

    def runner(self) -> web.AppRunner:
        """Return the runner of the server."""
        return web.AppRunner(
            self.app,
            access_log=None,
            handler_cancellation=True,  # ends a stream whose browser is gone
            shutdown_timeout=1.0,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )

    async def _close(self, _: web.Application) -> None:
        await self._streams.close()
        self._supposing.close()
        for each in (self._doctor_poller, self._prometheus_poller):
            if each is not None:
                each.close()

    @web.middleware
    async def _answer(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """Answer a request; every error becomes a message, never a traceback."""
        transport = request.transport
        self.asked(transport, 1)
        try:
            self.guard.check(request)
            found = await self.guard.let_in(request)
            if isinstance(found, web.Response):
                return found
            request[_VISITOR] = found
            answer: web.StreamResponse = await handler(request)
        except HttpStatusError as error:
            return self._refused(request, error.status, str(error))
        except web.HTTPException as error:
            missing = f"there is no page {quoted(request.path)}"
            told = {HTTPStatus.NOT_FOUND: missing, HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _TOO_LARGE}
            return self._refused(request, HTTPStatus(error.status), told.get(HTTPStatus(error.status), error.reason))
        except Exception:
            log.exception("%s", quoted(request.path))
            message = "this page could not be rendered; the log says why"
            return self._refused(request, HTTPStatus.INTERNAL_SERVER_ERROR, message)
        finally:
            self.asked(transport, -1)
        return answer

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.follow(request, _visitor(request))

    def _form_handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            fields = await fields_of(request)
            request[_FIELDS] = [text for _, text in fields]
            query = Query.read(fields, page.parameters, page.texts, page.prefix, page.formats)
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
                self._kept, self._making, self._kept_of = {}, {}, asked_of
            key = (page.seen_by(_visitor(request)), request.path_qs)
            found = self._kept.get(key)
            if found is None:
                found = await self._made_once(key, page, request, query)
                if asked_of == self._kept_of == self._age() and len(self._kept) < _MOST_KEPT:
                    self._kept[key] = found
            return _again(found)

        return handle

    async def _made_once(self, key: _Kept, page: Page, request: web.Request, query: Query) -> web.Response:
        """Make a page; requests for the same page share it while it is being made."""
        if page.is_alone(query):
            return await self._made(page, request, query)
        pages = self._making
        making = pages.get(key)
        if making is None:
            user = _visitor(request).user_name
            self._limit.begin(user)

            def forget(made: asyncio.Task[web.Response]) -> None:
                self._limit.end(user)
                pages.pop(key, None)
                _ = made.cancelled() or made.exception()  # retrieve the error, although maybe nobody waits for it

            making = pages[key] = asyncio.create_task(self._made(page, request, query))
            making.add_done_callback(forget)
        return await asyncio.shield(making)  # one cancelled request must not cancel the others

    def _age(self) -> tuple[int, int]:
        """Return a value that changes when cached answers expire: with each generation, and every few seconds."""
        return self._setup.current.generation, int(time.monotonic() / _KEPT_FOR)

    async def _made(self, page: Page, request: web.Request, query: Query) -> web.Response:
        visitor = _visitor(request)
        sees_all = visitor.visibility.is_whole
        if page.is_whole and not sees_all:
            raise HttpStatusError(HTTPStatus.FORBIDDEN, _ABOUT_ALL)
        make = page.make(request, query, visitor)

        def ask(world: World, view: ClusterView) -> tuple[Any, list[str]]:
            return make(world, view), list(view_warnings(world, view)) if sees_all else []

        current, generation = self._setup.current, self._setup.current.generation
        is_alone = page.is_alone(query)
        shown, warnings = await (self._alone(ask, visitor) if is_alone else current.ask(ask))
        if page.name == "pod":
            shown = shown.without_others(await self.guard.deletable(visitor, shown.told.namespaces))
            request[_OWN] = [shown.own]
        redactor = self._redactor(request)
        if query.wants_json:
            text = await asyncio.to_thread(lambda: json.dumps(_redacted(_plain(shown, query), redactor), indent=2))
            return web.Response(text=f"{text}\n", content_type=JSON)
        if query.wants_csv:
            return web.Response(text=_redacted(shown.as_csv(), redactor), content_type="text/csv")
        if query.wants_text:
            return web.Response(text=_redacted(shown.as_text(), redactor), content_type="text/plain", charset="utf-8")
        values = {"page": page.name, "titles": titles_for(visitor), "shown": shown, "query": query}
        values |= {"generation": generation, "still": is_alone, "posted": request.method == "POST"}
        values |= {"warnings": warnings, "may_leave": visitor.may_leave, "sees_all": sees_all}
        values["trouble"] = current.trouble if sees_all else _OUT_OF_DATE if current.trouble else ""
        values["origin"] = current.view.origin or "the cluster"
        text = await asyncio.to_thread(render, f"{page.name}.html", values, redactor)
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def _alone(self, ask: Question[_Shown], visitor: Visitor) -> _Shown:
        """Answer a question on a new world, in the what-if thread."""
        view = self._setup.fresh()
        return await self._supposing.ask(lambda: ask(make_world(view), view), visitor.user_name)

    def _redactor(self, request: web.Request, *, is_refusal: bool = False) -> NameRedactor | None:
        """Return the redactor of names for a request; None if the visitor sees everything.

        Parameters
        ----------
        is_refusal
            Whether the answer only repeats the request to say what is wrong with it, and shows nothing of the cluster.
        """
        visitor = request.get(_VISITOR)
        if visitor is None or visitor.visibility.is_whole:
            return None
        assert self.guard.names is not None, "nothing is hidden without a key"
        said = [request.path, *request.query.values(), *request.get(_FIELDS, ())]
        return NameRedactor(
            self.guard.names, visitor.visibility, request.get(_OWN, ()), said, said if is_refusal else ()
        )

    def _refused(self, request: web.Request, status: HTTPStatus, message: str) -> web.Response:
        """Return the answer to a refused request."""
        redactor = self._redactor(request, is_refusal=True)
        takes_tokens = status == HTTPStatus.UNAUTHORIZED and self.guard.names is not None
        headers = {"WWW-Authenticate": "Bearer"} if takes_tokens else {}
        if wants_json(request):
            told = {"code": status.value, "message": _redacted(message, redactor)}
            return web.Response(text=f"{json.dumps(told)}\n", status=status, headers=headers, content_type=JSON)
        values = {"page": "", "titles": {}, "status": status, "message": message}
        text = render("message.html", values, redactor)
        return web.Response(text=text, status=status, headers=headers, content_type="text/html", charset="utf-8")

    async def _add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        answer.headers.update(self.guard.headers(request))
        answer.headers["Server"] = "vgpu-scheduler"


def _visitor(request: web.Request) -> Visitor:
    return request[_VISITOR]


def _plain(shown: Any, query: Query) -> Any:
    """Return a page as plain values, with its text if the query wants both."""
    return {**shown.as_json(), "text": shown.as_text()} if query.get("text") else shown.as_json()


def _redacted(value: Any, redactor: NameRedactor | None) -> Any:
    return value if redactor is None else redactor.values(value)


def _again(answer: web.Response) -> web.Response:
    """Return a copy of an answer, because each response can be sent only once."""
    return web.Response(body=answer.body, content_type=answer.content_type, charset="utf-8")


def _static(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    content = (files("vgpu_scheduler.ui") / "static" / name).read_text()

    async def handle(_: web.Request) -> web.Response:
        return web.Response(text=content, content_type=kind, charset="utf-8")

    return handle

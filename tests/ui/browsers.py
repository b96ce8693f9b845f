"""Stands for a browser: a client with cookies, and a page that is served for the time of a test."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from vgpu_scheduler.reading import ClusterView, keep_room, make_world, settings_from_file
from vgpu_scheduler.ui import CurrentWorld, PageSetup, serve

Object = dict[str, Any]
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any = None


class Browser:
    """A browser that was let in, unless it is to come without a key."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.session = session
        self.address = address
        self.home = address.partition("?")[0].rstrip("/")

    async def get(self, path: str, *, method: str = "GET", **more: Any) -> Answer:
        url = URL(f"{self.home}{path}", encoded=True)
        async with self.session.request(method, url, allow_redirects=False, **more) as answer:
            text = await answer.text(errors="replace")
            is_json = answer.content_type == "application/json" and method == "GET"
            return Answer(answer.status, answer.headers, text, await answer.json() if is_json else None)

    async def enter(self) -> Answer:
        return await self.get(self.address[len(self.home) :])


@asynccontextmanager
async def browser_at(address: str, *, entered: bool = True) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        browser = Browser(session, address)
        if entered:
            assert (await browser.enter()).status == 303
        yield browser


def view_of(objects: Iterable[Object], settings: Path | None = None) -> ClusterView:
    listed = copy.deepcopy(list(objects))
    read = settings_from_file(settings)
    return ClusterView(listed, {}, read, origin="a file", read_at=NOW, kinds=frozenset({"Pod"}))


def current_of(objects: Iterable[Object], settings: Path | None = None) -> CurrentWorld:
    view = view_of(objects, settings)
    world = make_world(view)
    keep_room(world, view)
    return CurrentWorld(world, view)


@asynccontextmanager
async def served(
    objects: Iterable[Object], *, entered: bool = True, change: Callable[[PageSetup], PageSetup] = lambda window: window
) -> AsyncIterator[Browser]:
    """Serve the objects of a cluster."""
    current = current_of(objects)
    window = change(PageSetup(current, lambda: current.view))
    runner, address = await serve(window, 0)
    try:
        async with browser_at(address, entered=entered) as browser:
            yield browser
    finally:
        await runner.cleanup()
        window.current.close()

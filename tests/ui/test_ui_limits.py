"""Proxies that name users, and how many streams, connections and questions one user of a deployed page may have."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from tests.apiserver.certificates import Authority
from tests.ui.doors import ADMIN, HOST, deployed
from tests.ui.test_ui_access import OBJECTS, people

from vgpu_scheduler.ui.access import Certificate, Proxies, User
from vgpu_scheduler.ui.errors import HttpStatusError
from vgpu_scheduler.ui.streams import Streams
from vgpu_scheduler.ui.what_if_thread import WhatIfThread

# Proxies --------------------------------------------------------------------------------------------------------------

SECRET = "s" * 32
FROM_PROXY = {"X-Vgpu-Scheduler-Proxy-Secret": SECRET, "X-Remote-User": "tenant"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (FROM_PROXY, 200),
        ({"X-Remote-User": "tenant"}, 401),
        ({**FROM_PROXY, "X-Vgpu-Scheduler-Proxy-Secret": "s" * 31}, 403),
        ({**FROM_PROXY, "X-Vgpu-Scheduler-Proxy-Secret": ""}, 403),
        ({**FROM_PROXY, "X-Remote-User": ""}, 401),
        ({**FROM_PROXY, "X-Remote-User": "system:admin"}, 403),
        ({**FROM_PROXY, "X-Remote-Group": "a, system:masters"}, 403),
        ({**FROM_PROXY, "X-Remote-Group": ",".join(map(str, range(300)))}, 403),
        ({"X-Vgpu-Scheduler-Proxy-Secret": SECRET}, 401),
    ],
)
async def test_a_proxy_names_users_where_it_proves_that_it_is_one(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    async with deployed(OBJECTS, people(), proxies=Proxies("X-Remote-User", "X-Remote-Group", file)) as page:
        answer = await page.browser.get("/cards?format=json", headers=headers)
        assert answer.status == status
        assert ("default/x" in answer.text) is (status == 200)


async def test_a_user_of_a_proxy_has_the_groups_that_it_names_and_its_secret_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    known = people()
    async with deployed(OBJECTS, known, proxies=Proxies("X-Remote-User", "X-Remote-Group", file)) as page:
        await page.browser.get("/", headers={**FROM_PROXY, "X-Remote-Group": "a, b"})
        assert known.asked["token"] == 0
        assert known.specs[0]["groups"] == ["a", "b", "system:authenticated"]
        file.write_text("t" * 40)
        assert (await page.browser.get("/", headers=FROM_PROXY)).status == 403
        assert (
            await page.browser.get("/", headers={**FROM_PROXY, "X-Vgpu-Scheduler-Proxy-Secret": "t" * 40})
        ).status == 200
        file.unlink()
        assert (await page.browser.get("/", headers=FROM_PROXY)).status == 503
        two = [*FROM_PROXY.items(), ("X-Remote-User", ADMIN)]
        file.write_text(SECRET)
        async with page.browser.session.get(f"{page.browser.home}/", headers=two) as answer:
            assert answer.status == 401


# Streams and connections ----------------------------------------------------------------------------------------------


async def test_a_stream_says_that_something_has_changed_and_ends_so_that_its_user_is_asked_about_anew() -> None:
    async with deployed(OBJECTS, people(), lasts=0.5) as page:
        headers = page.headers("token-of-tenant")
        async with (
            asyncio.timeout(30),
            page.browser.session.get(f"{page.browser.home}/events", headers=headers) as events,
        ):
            told = await events.text()
        assert told == "retry: 1000\n\ndata: 1\n\n"


@pytest.mark.parametrize("later", range(6))
async def test_a_stream_ends_when_it_is_told_to_whatever_happens_just_then(
    later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation that comes right after another generation is not lost."""
    changed = asyncio.Event()
    generations = iter([1, 2])

    class Current:
        async def wait_for_generation_after(self, _: int) -> int:
            found = next(generations, None)
            if found is None:
                await asyncio.Event().wait()
            if found == 2:
                await changed.wait()
            return found or 0

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr("vgpu_scheduler.ui.streams._PAUSE", 0.0)
    answer = cast("Any", SimpleNamespace(prepare=nothing, write=nothing))
    task = asyncio.create_task(Streams(cast("Any", Current()), None)._send(cast("Any", None), answer))
    await asyncio.sleep(0.01)
    changed.set()
    for _ in range(later):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=30.0)
    assert task.cancelled()


async def test_streams_of_one_user_leave_room_for_others() -> None:
    async with deployed(OBJECTS, people()) as page:
        session, home = page.browser.session, page.browser.home
        mine, others = page.headers("token-of-tenant"), page.headers(f"token-of-{ADMIN}")
        streams = [await session.get(f"{home}/events", headers=mine) for _ in range(16)]
        assert {stream.status for stream in streams} == {200}
        more = await page.browser.get("/events", headers=mine)
        assert (more.status, "you have 16 pages open" in more.text) == (503, True)
        async with session.get(f"{home}/events", headers=others) as other:
            assert other.status == 200
        for stream in streams:
            stream.close()


async def test_a_form_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.forms._SECONDS", 0.2)
    async with deployed(OBJECTS, people()) as page:
        host, port = page.browser.home.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = ["POST /login HTTP/1.1", f"Host: {HOST}", f"Origin: https://{HOST}", "Content-Length: 50"]
        writer.write("\r\n".join([*head, "Content-Type: application/x-www-form-urlencoded", "", "token="]).encode())
        async with asyncio.timeout(30):
            assert b" 408 " in await reader.readline()
        writer.close()


async def test_connections_are_bounded_and_quiet_ones_end() -> None:
    async with deployed(OBJECTS, people(), most=4, quiet=0.3) as page:
        host, port = page.browser.home.removeprefix("http://").split(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(aiohttp.ClientError):
            async with page.browser.session.get(f"{page.browser.home}/livez"):
                pass
        async with asyncio.timeout(30):
            for reader, _ in held:
                assert await reader.read() == b""
        assert (await page.browser.get("/livez")).status == 200
        for _, writer in held:
            writer.close()


async def test_connections_on_which_no_tls_is_spoken_are_bounded_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign(tmp_path / "tls.crt", tmp_path / "tls.key")
    served = Certificate(tmp_path / "tls.crt", tmp_path / "tls.key").context
    async with deployed(OBJECTS, people(), tls=served, most=4) as page:
        host, port = page.browser.home.removeprefix("https://").split(":")
        trusting = ssl.create_default_context(cafile=authority.file)
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        one_more, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(5):  # which is less than a handshake may take
            assert await one_more.read() == b""
        writer.close()
        for _, writer in silent:
            writer.close()
        async with asyncio.timeout(30):
            while True:
                with suppress(aiohttp.ClientError):
                    async with page.browser.session.get(f"{page.browser.home}/livez", ssl=trusting) as answer:
                        assert answer.status == 200
                        break
                await asyncio.sleep(0.01)


async def test_questions_of_one_user_leave_turns_for_others() -> None:
    rolled_back, gate = WhatIfThread(), threading.Event()
    blue, green = User("blue"), User("green")
    try:
        mine = [asyncio.create_task(rolled_back.ask(gate.wait, blue)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HttpStatusError, match="2 questions of yours"):
            await rolled_back.ask(gate.wait, blue)
        others = asyncio.create_task(rolled_back.ask(gate.wait, green))
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*mine, others) == [True, True, True]
        await asyncio.sleep(0)
        assert await rolled_back.ask(gate.wait, blue)
    finally:
        gate.set()
        rolled_back.close()

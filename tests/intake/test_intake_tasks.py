"""How tasks and clients end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, Credentials, TaskSet, end_tasks
from vgpu_scheduler.intake import FinalStateReader


async def test_tasks_are_waited_for_whatever_they_end_with() -> None:
    ended = []

    async def works(name: str, error: Exception | None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it tidies up
            ended.append(name)
            if error is not None:
                raise error

    tasks = [asyncio.create_task(works(name, error)) for name, error in (("a", None), ("b", ValueError()))]
    await asyncio.sleep(0)
    await end_tasks(task for task in tasks)
    assert (ended, [task.done() for task in tasks]) == (["a", "b"], [True, True])
    await end_tasks([])


async def test_pods_that_left_their_selection_are_looked_at_again_whatever_a_look_raised() -> None:
    looks: list[str] = []

    class Looking(FinalStateReader):
        async def reconcile(self) -> None:
            looks.append("once more")
            raise (ApiUnreachableError("no answer"), ZeroDivisionError("odd"))[len(looks) % 2]

    task = asyncio.create_task(Looking(cast("Any", None), cast("Any", None), every=0.001).run())
    try:
        async with asyncio.timeout(30):
            while len(looks) < 4 and not task.done():
                await asyncio.sleep(0.001)
        assert not task.done()
    finally:
        await end_tasks([task])


async def test_a_client_is_closed_whatever_is_done_with_it() -> None:
    with pytest.raises(ValueError, match="odd"):
        async with ApiClient(Credentials(Configuration(host="http://localhost")), "test") as api:
            raise ValueError("odd")
    assert api._session.closed


async def test_a_task_that_an_error_ends_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def works(error: Exception | None) -> None:
        if error is not None:
            raise error

    tasks = TaskSet()
    tasks.start(works(ValueError("odd")), "lane-node-a")
    tasks.start(works(None), "lane-node-b")
    tasks.start(asyncio.Event().wait(), "lane-node-c")  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    await tasks.stop()
    (record,) = caplog.records
    assert record.getMessage() == "task lane-node-a was ended by an error"
    assert record.exc_info is not None
    assert not tasks


@pytest.mark.parametrize(
    ("said", "kept"),
    [("7", 7.0), ("0.5", 0.5), ("86400", 30.0), ("inf", None), ("nan", None), ("-5", 0.0), ("soon", None)],
)
async def test_no_server_makes_us_wait_for_long(said: str, kept: float | None) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": said})

    app = web.Application()
    app.router.add_get("/", refuse)
    async with TestServer(app) as server:
        credentials = Credentials(Configuration(host=str(server.make_url(""))))
        async with ApiClient(credentials, "test") as api:
            assert (await api.request("GET", "/")).retry_after == kept

"""kopf reads objects of any depth, in lists and in watches."""

from __future__ import annotations

import aiohttp
from aiohttp import web
from kopf._cogs.clients import api
from tests.kube.test_kube_nesting import deep

from vgpu_scheduler.intake.supervised import read_any_depth


async def test_kopf_reads_any_depth() -> None:
    read_any_depth()
    text = deep("a", 9000)
    assert api.json.loads(text)["metadata"]["name"] == "a"
    app = web.Application()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{runner.addresses[0][1]}") as found,
        ):
            assert (await found.json())["metadata"]["name"] == "a"
    finally:
        await runner.cleanup()

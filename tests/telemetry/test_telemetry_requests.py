"""Answers of the API server are counted by method and status code, and so are requests that got none."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, Credentials


async def test_answers_are_counted() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["code"]), text="{}")

    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(1.0)
        return response

    app = web.Application()
    app.add_routes([web.get("/broken", hang)])
    app.add_routes([web.route("*", "/{code}", answer)])
    server = TestServer(app)
    await server.start_server()
    api = ApiClient(Credentials(Configuration(host=str(server.make_url("/")))), "test")
    try:
        for code in (200, 200, 409):
            await api.request("PATCH", f"/{code}")
        async with api.stream("/200", {}, 1.0) as lines:
            assert [line async for line in lines] == []  # no whole line came
        with pytest.raises(ApiError):
            async with api.stream("/410", {}, 1.0):
                pass
        with pytest.raises(ApiUnreachableError):  # an answer that breaks off is one
            async with api.stream("/broken", {}, 0.1) as lines:
                assert [line async for line in lines] == []
        await server.close()
        with pytest.raises(ApiUnreachableError):
            async with api.stream("/200", {}, 1.0):
                pass
        with pytest.raises(ApiUnreachableError):
            await api.request("GET", "/200", timeout=1.0)
    finally:
        await api.close()
    assert api.answers == {
        ("PATCH", "200"): 2, ("PATCH", "409"): 1, ("WATCH", "200"): 2, ("WATCH", "410"): 1,
        ("WATCH", "<error>"): 1, ("GET", "<error>"): 1,
    }  # fmt: skip

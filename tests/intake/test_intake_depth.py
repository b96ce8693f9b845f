"""kopf reads objects of any depth, in lists and in watches, and skips what is known."""

from __future__ import annotations

import json
from contextvars import copy_context
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kopf._cogs.clients import api
from tests.kube.test_kube_nesting import deep

from vgpu_scheduler.intake.kopf_json import read_any_depth, skip_known


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


def line(how: str, version: int, kind: str = "Node", **more: object) -> str:
    metadata = {"name": "a", "uid": "u", "resourceVersion": str(version), "labels": {"x": "y"}}
    return json.dumps({"type": how, "object": {"kind": kind, "metadata": metadata, **more}}, separators=(",", ":"))


def test_kopf_skips_changes_that_are_known() -> None:
    """What it is told instead has the version to go on from; what is new, is gone or cannot be read it gets whole."""
    read_any_depth()

    def read(text: str) -> Any:
        skip_known(lambda kind, identity: kind == "Node" and identity.resource_version <= 5)
        return api.json.loads(text)

    def apart(text: str) -> Any:
        return copy_context().run(read, text)

    metadata = {"resourceVersion": "5"}
    assert apart(line("MODIFIED", 5)) == {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": metadata}}
    for text in (
        line("MODIFIED", 6),
        line("MODIFIED", 5, kind="Pod"),
        line("ADDED", 5),
        line("DELETED", 5),
        line("BOOKMARK", 5),
        '{"type":"MODIFIED","object":{"kind":"Node","metadata":{"name":7}}}',
        '{"type":"MODIFIED","object":{"kind":"Node"}}',
        line("MODIFIED", 10**30),
        '{"type":"MODIFIED","object":null}',
    ):
        assert apart(text) == json.loads(text), text
    assert api.json.loads(line("MODIFIED", 5)) == json.loads(line("MODIFIED", 5)), "another operator's are its own"
    with pytest.raises(ValueError, match="Expecting"):
        apart('{"type":"MODIFIED"')

"""Health, metrics and configuration over HTTP.

Anybody who reaches the port can read health and metrics. Other pages say more, and are served to the same machine only;
``kubectl port-forward``, which needs a right of its own, counts as that.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from vgpu_scheduler.telemetry.metrics import Metrics

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Health:
    """The probes of the operator.

    Attributes
    ----------
    alive
        Returns why the process should be restarted, or an empty text.
    ready
        Returns why the process is not ready, or an empty text.
    """

    alive: Callable[[], str]
    ready: Callable[[], str]


Page = Callable[[], Awaitable[object]]
"""Returns the content of a page, which is sent as JSON."""


async def serve(
    addresses: Sequence[tuple[str, int]],
    health: Health,
    metrics: Metrics,
    pages: Mapping[str, Page],
    more_metrics: Callable[[], Iterator[str]] = lambda: iter(()),
) -> tuple[web.AppRunner, int]:
    """Serve ``/livez``, ``/readyz``, ``/metrics`` (``?name[]=`` selects some) and pages of JSON.

    Parameters
    ----------
    addresses
        Hosts and ports to listen on.
    pages
        The pages by path, made for each request and served to the same machine only.
    more_metrics
        Returns more metrics text, in pieces; other tasks run between two pieces.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the port of the first address.
    """

    def answer(problem: str) -> web.Response:
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")

    async def livez(_: web.Request) -> web.Response:
        return answer(health.alive())

    async def readyz(_: web.Request) -> web.Response:
        return answer(health.ready())

    async def render_metrics(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": _METRICS_TYPE})
        await response.prepare(request)
        names = request.query.getall("name[]", [])
        await response.write(metrics.render(names))
        for piece in () if names else more_metrics():
            await response.write(piece.encode())
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def page(request: web.Request) -> web.Response:
        if not is_local(request.remote):
            return web.Response(status=403, text="this page is shown only to the same machine: kubectl port-forward\n")
        shown = await pages[request.path]()
        # In a thread: a page may be large, and must not block the loop.
        text = await asyncio.to_thread(json.dumps, shown, indent=2, sort_keys=True)
        return web.Response(text=text, content_type="application/json")

    app = web.Application()
    app.add_routes(
        [
            web.get("/livez", livez),
            web.get("/healthz", livez),
            web.get("/readyz", readyz),
            web.get("/metrics", render_metrics),
            *(web.get(path, page) for path in pages),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for host, port in addresses:
        await web.TCPSite(runner, host, port).start()
    return runner, int(runner.addresses[0][1])


def is_local(address: str | None) -> bool:
    """Tell whether a caller is on this machine; False without an address."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback

"""A collector of OpenTelemetry traces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Span = dict[str, Any]


class Collector:
    """Takes traces as OTLP over HTTP.

    Attributes
    ----------
    spans
        Those of all requests, by the path that they came to.
    """

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = {}
        self.services: set[str] = set()

    async def take(self, request: web.Request) -> web.Response:
        content = ExportTraceServiceRequest()
        content.ParseFromString(await request.read())
        for resource in content.resource_spans:
            self.services |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
            for scope in resource.scope_spans:
                self.spans.setdefault(request.path, []).extend(
                    {
                        "name": span.name,
                        "trace": span.trace_id,
                        "id": span.span_id,
                        "parent": span.parent_span_id,
                        "seconds": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        "began": span.start_time_unix_nano / 1e9,
                        "error": span.status.message,
                        **{a.key: a.value.string_value or a.value.int_value for a in span.attributes},
                    }
                    for span in scope.spans
                )
        return web.Response()


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/{path:.*}", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield collector, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

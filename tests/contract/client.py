"""A thin HTTP client for the contract tests: it shows status codes and bodies as they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import aiohttp

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"


@dataclass(frozen=True, slots=True)
class Server:
    """One of the two servers under test."""

    name: str
    url: str
    token: str
    tls: ssl.SSLContext | None
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A status code and a decoded body."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def revision(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    def created(self) -> Object:
        assert self.code == 201, self
        return self.object()

    def ok(self) -> Object:
        assert self.code == 200, self
        return self.object()

    def object(self) -> Object:
        assert isinstance(self.body, dict)
        return self.body


class Events:
    """The events of an open watch, one at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, Object]:
        """Return the next event."""
        async with asyncio.timeout(10):
            line = await self._response.content.readline()
        assert line, "the stream has ended"
        event = json.loads(line)
        return event["type"], event["object"]

    async def named(self) -> tuple[str, str]:
        """Return type and name of the next event."""
        kind, obj = await self.next()
        return kind, obj["metadata"]["name"]

    async def rest(self) -> list[tuple[str, Object]]:
        """Return all events until the stream ends by itself."""
        async with asyncio.timeout(20):
            data = await self._response.content.read()
        events = [json.loads(line) for line in data.splitlines()]
        return [(event["type"], event["object"]) for event in events]


@dataclass
class Api:
    """A client of one server that works in one namespace."""

    server: Server
    namespace: str
    session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self.server.tls if self.server.tls is not None else True, limit=64)
        headers = {"Authorization": f"Bearer {self.server.token}", "User-Agent": "contract"}
        self.session = aiohttp.ClientSession(self.server.url, connector=connector, headers=headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", **query: str
    ) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        async with self.session.request(method, path, data=data, params=query, headers=headers) as response:
            text = await response.text()
        warnings = tuple(response.headers.getall("Warning", ()))
        try:
            return Answer(response.status, json.loads(text), warnings)
        except ValueError:
            return Answer(response.status, text, warnings)

    async def table(self, path: str, **query: str) -> Answer:
        """Get what kubectl gets."""
        async with self.session.get(path, params=query, headers={"Accept": TABLE}) as response:
            return Answer(response.status, await response.json())

    async def get(self, path: str, **query: str) -> Answer:
        return await self.request("GET", path, **query)

    async def post(self, path: str, body: object, **query: str) -> Answer:
        return await self.request("POST", path, body, **query)

    async def put(self, path: str, body: object, **query: str) -> Answer:
        return await self.request("PUT", path, body, **query)

    async def merge(self, path: str, body: object, **query: str) -> Answer:
        return await self.request("PATCH", path, body, MERGE, **query)

    async def json_patch(self, path: str, *operations: Object, **query: str) -> Answer:
        return await self.request("PATCH", path, list(operations), JSON, **query)

    async def apply(self, path: str, body: object, manager: str, **query: str) -> Answer:
        return await self.request("PATCH", path, body, APPLY, fieldManager=manager, **query)

    async def strategic(self, path: str, body: object, **query: str) -> Answer:
        return await self.request("PATCH", path, body, STRATEGIC, **query)

    async def delete(self, path: str, body: object = None, **query: str) -> Answer:
        return await self.request("DELETE", path, body, **query)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json", **query: str) -> AsyncIterator[Events]:
        timeout, headers = aiohttp.ClientTimeout(total=None), {"Accept": accept}
        parameters = {"watch": "true", **query}
        async with self.session.get(path, params=parameters, timeout=timeout, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield Events(response)

    # ------------------------------------------------------------------------------------------------ short forms

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def maps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def leases(self) -> str:
        return LEASES.format(ns=self.namespace)

    async def pod(self, name: str, metadata: Object | None = None, **spec: object) -> Object:
        """Create a pod."""
        return (await self.post(self.pods, pod(name, metadata, **spec))).created()

    async def node(self, name: str, metadata: Object | None = None, **body: object) -> Object:
        """Create a node, whose name is made unique by the namespace's."""
        full = {"metadata": {"name": f"{self.namespace}-{name}", **(metadata or {})}, **body}
        return (await self.post("/api/v1/nodes", full)).created()

    async def bind(self, name: str, node: str = "n1", metadata: Object | None = None, **query: str) -> Answer:
        """Post a Binding."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, **(metadata or {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.post(f"{self.pods}/{name}/binding", body, **query)


def pod(name: str, metadata: Object | None = None, **spec: object) -> Object:
    """Return a pod manifest with one container."""
    containers = [{"name": "main", "image": "example.com/image:1"}]
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": containers, **spec}}


def container(name: str = "main", limits: Object | None = None, requests: Object | None = None) -> Object:
    """Return a container with resources."""
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    return {"name": name, "image": "example.com/image:1", "resources": resources}

"""Both servers, one at a time, and a client in a namespace of its own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tests.contract.client import Api, Server

from vgpu_scheduler.devcluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.apiserver.control_plane import ControlPlane


@pytest.fixture(scope="session")
def devcluster() -> Iterator[DevCluster]:
    """One devcluster in a thread for all contract tests."""
    with DevCluster.thread() as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["devcluster", pytest.param("kube-apiserver", marks=pytest.mark.apiserver)])
def server(request: pytest.FixtureRequest) -> Server:
    """The server under test."""
    if request.param == "devcluster":
        cluster: DevCluster = request.getfixturevalue("devcluster")
        return Server(request.param, cluster.url, "unchecked", None)
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return Server(request.param, plane.url, plane.token, plane.ssl_context())


@pytest_asyncio.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    """A client in a fresh namespace; its pods and nodes are gone afterwards."""
    async with Api(server, f"t-{uuid.uuid4().hex[:10]}") as client:
        (await client.post("/api/v1/namespaces", {"metadata": {"name": client.namespace}})).created()
        yield client
        nodes = await client.get("/api/v1/nodes")
        for item in nodes.body["items"]:
            if item["metadata"]["name"].startswith(client.namespace):
                await client.delete(f"/api/v1/nodes/{item['metadata']['name']}")
        await client.delete(client.pods, {"gracePeriodSeconds": 0})

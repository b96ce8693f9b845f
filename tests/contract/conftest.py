"""Both servers, one at a time, and a client in a namespace of its own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tests.apiserver.binaries import AssetsUnavailableError, assets
from tests.conftest import unavailable
from tests.contract.client import Api, Server
from tests.contract.definitions import define
from tests.contract.kubectl import Kubectl

from vgpu_devcluster import DevCluster
from vgpu_scheduler.policy import crds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.apiserver.control_plane import ControlPlane


@pytest.fixture(scope="session")
def devcluster() -> Iterator[DevCluster]:
    """One devcluster in a thread for all contract tests, without controllers, as the real API server is."""
    with DevCluster.thread(disruption_controller=False) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["devcluster", pytest.param("kube-apiserver", marks=pytest.mark.apiserver)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The server under test."""
    if request.param == "devcluster":
        cluster: DevCluster = request.getfixturevalue("devcluster")
        kubeconfig = cluster.kubeconfig(tmp_path_factory.mktemp("devcluster") / "kubeconfig")
        return Server(request.param, cluster.url, "unchecked", None, kubeconfig)
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return Server(request.param, plane.url, plane.token, plane.ssl_context(), plane.kubeconfig())


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The kubectl that is built for the tests, and a folder for its caches."""
    try:
        return assets() / "kubectl", tmp_path_factory.mktemp("kubectl")
    except AssetsUnavailableError as error:
        unavailable(str(error))


@pytest.fixture
def kubectl(server: Server, kubectl_home: tuple[Path, Path]) -> Iterator[Kubectl]:
    """A kubectl on the server under test, in a namespace of its own; what it made is gone afterwards."""
    binary, home = kubectl_home
    kubectl = Kubectl(binary, home / server.name, server.kubeconfig, f"t-{uuid.uuid4().hex[:10]}")
    kubectl("create", "namespace", kubectl.namespace)
    yield kubectl
    kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--ignore-not-found")
    kubectl("delete", "nodes", "--selector", f"made-by={kubectl.namespace}", "--ignore-not-found")


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


@pytest.fixture(scope="module")
def both_servers(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """The embedded server, a new one, and the real one; policies that were defined there are gone afterwards."""
    with DevCluster.thread() as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path_factory.mktemp("both") / "kubeconfig")
        plane = control_plane
        yield [
            Server("devcluster", cluster.url, "", None, kubeconfig),
            Server("kube-apiserver", plane.url, plane.token, plane.ssl_context(), plane.kubeconfig()),
        ]
    for definition in crds():
        control_plane.kubectl("delete", "crd", definition["metadata"]["name"], "--ignore-not-found")


@pytest_asyncio.fixture
async def both(both_servers: list[Server]) -> AsyncIterator[tuple[Api, Api]]:
    """Clients of both servers in the namespace ``default``, with the policies defined."""
    ours, theirs = (Api(server, "default") for server in both_servers)
    async with ours, theirs:
        for api in (ours, theirs):
            await define(api)
        yield ours, theirs

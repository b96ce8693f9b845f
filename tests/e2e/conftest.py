"""A control plane with the shipped manifests applied, and the operator on it under its own service account."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import aiohttp
import pytest
from tests.apiserver.audit import AuditRecord
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.rights import REQUESTS, note_requests
from tests.conftest import running

from vgpu_devcluster import NodeSide
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.kube import loads

HERE = Path(__file__).parent
MANIFESTS = HERE.parents[1] / "manifests"
OPERATOR = "system:serviceaccount:vgpu-system:vgpu-scheduler"
PLUGIN = "system:serviceaccount:kube-system:hami-device-plugin"
OTHER_PLUGIN = "system:serviceaccount:gpu-system:device-plugin"
"""One that no manifest knows."""
TENANT = "tenant"
AGENTS = ("vgpu-scheduler/", "kopf/")
"""Of the operator; tests that play its account have another one."""
OLDER = os.environ.get("APISERVER") == "older"
"""Whether the tests run on the API server that does less than the newest one."""


LAST = "test_rights_used.py"
"""What looks back at all other tests of this folder."""
USERS = {
    OPERATOR: ["system:serviceaccounts", "system:serviceaccounts:vgpu-system", "system:authenticated"],
    PLUGIN: ["system:masters"],
    TENANT: [],
    OTHER_PLUGIN: [],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder, so that ``-m e2e`` runs all of it, and have the one that looks back run last."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.path == HERE / LAST)


class Administrator:
    """What an administrator sees of a cluster and does in its namespace ``default``.

    Attributes
    ----------
    http
        A session of the administrator.
    """

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def create(self, *pods: dict[str, Any]) -> None:
        """Create pods, a few at a time."""
        gate = asyncio.Semaphore(16)

        async def one(pod: dict[str, Any]) -> None:
            async with gate, self.http.post("/api/v1/namespaces/default/pods", json=pod) as answer:
                assert answer.status == 201, await answer.text()

        await asyncio.gather(*(one(pod) for pod in pods))

    async def pod(self, name: str) -> dict[str, Any]:
        """Return one pod."""
        async with self.http.get(f"/api/v1/namespaces/default/pods/{name}") as answer:
            return dict(await answer.json(loads=loads))

    async def pods(self) -> list[dict[str, Any]]:
        """Return all pods."""
        async with self.http.get("/api/v1/namespaces/default/pods") as answer:
            return list((await answer.json(loads=loads))["items"])

    async def node(self, name: str) -> dict[str, Any]:
        """Return one node."""
        async with self.http.get(f"/api/v1/nodes/{name}") as answer:
            return dict(await answer.json(loads=loads))

    async def message(self, name: str) -> str:
        """Return the message of the pod's PodScheduled=False condition, empty without one."""
        conditions = (await self.pod(name))["status"].get("conditions", [])
        found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
        return str(found[0]["message"]) if found else ""

    async def bound(self, name: str) -> str:
        """Return the node of a pod, empty while it is not bound."""
        return str((await self.pod(name))["spec"].get("nodeName", ""))

    async def until(self, condition: Callable[[], Awaitable[object]], what: str, within: float = 60.0) -> None:
        """Wait for a condition."""
        deadline = asyncio.get_running_loop().time() + within
        while not await condition():
            assert asyncio.get_running_loop().time() < deadline, f"waited {within:.0f} s for {what}"
            await asyncio.sleep(0.05)

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and note of the events about a pod."""
        async with self.http.get("/apis/events.k8s.io/v1/namespaces/default/events") as answer:
            items = (await answer.json())["items"]
        return [(event["reason"], event["note"]) for event in items if event["regarding"]["name"] == name]


class Cluster(Administrator):
    """What a test sees of the cluster.

    Attributes
    ----------
    plane
        The control plane.
    nodes
        The node side.
    """

    def __init__(self, plane: ControlPlane, nodes: NodeSide, http: aiohttp.ClientSession, folder: Path) -> None:
        super().__init__(http)
        self.plane = plane
        self.nodes = nodes
        self._folder = folder

    def operator(self, *command: str, log: str = "operator.log", **environment: str) -> OperatorProcess:
        """Return an operator that runs as its service account; not started yet."""
        kubeconfig = self._folder / "kubeconfig"  # the name of the user has colons, which separate kubeconfig files
        shutil.copy(self.plane.kubeconfig(OPERATOR, "vgpu-system"), kubeconfig)
        return OperatorProcess(kubeconfig, self._folder / log, environment, *([command] if command else []))


def slice_pod(name: str, **asks: int) -> dict[str, Any]:
    """Return a pod that asks for a slice: keywords gpu, gpumem, gpucores."""
    asks = asks or {"gpu": 1, "gpumem": 4096, "gpucores": 10}
    limits = {f"nvidia.com/{resource}": str(amount) for resource, amount in asks.items()}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "main", "image": "example", "resources": {"limits": limits}}],
        },
    }


def kustomized(plane: ControlPlane, *components: str) -> str:
    """Return the manifests with some components, as kubectl renders them."""
    with TemporaryDirectory() as folder:
        base = os.path.relpath(MANIFESTS, Path(folder).resolve())
        lines = ["resources:", f"  - {base}", "components:", *(f"  - {base}/{component}" for component in components)]
        (Path(folder) / "kustomization.yaml").write_text("\n".join(lines))
        return str(plane.kubectl("kustomize", folder).stdout)


@pytest.fixture(scope="session")
def installed_plane() -> Iterator[ControlPlane]:
    """A control plane with ServiceAccount admission on, the manifests applied, and the users that the tests play."""
    for plane in running(ControlPlane(service_accounts=True, users=USERS, older=OLDER)):
        install(plane)
        yield plane
        if not OLDER:  # what is tested differs there
            note_requests(done_by_operator(plane), REQUESTS / f"{os.getpid()}.json")


def done_by_operator(plane: ControlPlane) -> list[AuditRecord]:
    """Return what the operator asked of an API server under its account, and got: one request of each kind."""
    kinds = {
        (r.group, r.resource, r.subresource, r.verb, r.namespace, r.name): r
        for r in plane.audit()
        if r.user == OPERATOR and r.code < 400 and r.resource and r.user_agent.startswith(AGENTS)
    }
    return list(kinds.values())


def install(plane: ControlPlane) -> None:
    """Apply the manifests, and give the users that the tests play their rights."""
    if plane.older:
        plane.kubectl("apply", "-f", "-", stdin=kustomized(plane, "before-1.35"))
    else:
        plane.kubectl("apply", "-f", str(MANIFESTS / "install.yaml"))
    plane.create_namespace("default", exist_ok=True)
    plane.create_namespace("kube-system", exist_ok=True)
    for number, user in enumerate((TENANT, OTHER_PLUGIN)):
        role = "--clusterrole=system:aggregate-to-edit"  # nobody aggregates it to edit here
        plane.kubectl("create", "rolebinding", f"edits-{number}", "-n", "default", role, f"--user={user}")


@asynccontextmanager
async def opened(plane: ControlPlane, folder: Path) -> AsyncIterator[Cluster]:
    """An empty cluster with a node side; what is registered and created in it goes away again."""
    plane.clear()
    tls = plane.ssl_context()
    headers = {"Authorization": f"Bearer {plane.token}"}
    connector = aiohttp.TCPConnector(ssl=tls)
    nodes = NodeSide(plane.url, token=plane.tokens[PLUGIN], tls=tls)
    async with aiohttp.ClientSession(plane.url, headers=headers, connector=connector) as http, nodes:
        yield Cluster(plane, nodes, http, folder)
    plane.clear()


Told = TypeVar("Told")


def played(plane: ControlPlane, folder: Path, story: Callable[[Cluster], Coroutine[Any, Any, Told]]) -> Told:
    """Play a story in a cluster of its own, for tests that ask about what was seen, and return that."""

    async def play() -> Told:
        async with opened(plane, folder) as cluster:
            return await story(cluster)

    return asyncio.run(play())


@pytest.fixture
async def cluster(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster of the test's own."""
    async with opened(installed_plane, tmp_path) as found:
        yield found


@pytest.fixture
async def operator(cluster: Cluster) -> AsyncIterator[OperatorProcess]:
    """An operator that leads."""
    process = cluster.operator()
    process.start()
    try:
        await process.until_leading()
        yield process
    finally:
        process.stop()


def allocations(pods: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Decode what the annotations of bound pods say, in plain Python: node to UUID to slots, memory, cores."""
    booked: dict[str, dict[str, list[int]]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        value = pod["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated", "")
        for device in value.replace(";", "").split(":") if node else []:
            if device:
                uuid, _, memory, cores = device.split(",")
                amounts = booked.setdefault(node, {}).setdefault(uuid, [0, 0, 0])
                for position, amount in enumerate((1, int(memory), int(cores))):
                    amounts[position] += amount
    return booked


def dump(value: object) -> str:
    """Show a value in an assertion."""
    return json.dumps(value, indent=1, sort_keys=True)

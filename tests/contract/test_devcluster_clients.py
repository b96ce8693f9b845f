"""The devcluster under the clients that it is made for: kopf, kubernetes-asyncio and itself as a process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Any

import kopf
import pytest
from kubernetes_asyncio import client, config
from kubernetes_asyncio.client import ApiClient, CoordinationV1Api, CoreV1Api
from tests.contract.client import Api, Server, container, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from vgpu_devcluster import DevCluster


class Operator:
    """A kopf operator in a thread that notes which pods of one scheduler it sees."""

    def __init__(self, url: str, namespace: str) -> None:
        self.seen: list[tuple[str | None, str, str]] = []
        self._changed = threading.Condition()
        self._ready, self._stop = threading.Event(), threading.Event()
        self._url, self._namespace = url, namespace
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Operator:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def wait_for(self, event: tuple[str | None, str, str]) -> None:
        """Wait until an event was seen."""
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.seen, 15), f"{event} not among {self.seen}"

    async def _run(self) -> None:
        registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
        settings.scanning.disabled = True
        settings.posting.enabled = False
        settings.watching.field_selectors["v1", "pods"] = "spec.schedulerName=mine"

        @kopf.on.login(registry=registry)
        def login(**_: object) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=self._url)

        @kopf.on.event("pods", registry=registry)
        async def observe(type: str | None, body: kopf.Body, **_: object) -> None:  # noqa: A002 - kopf's name
            with self._changed:
                node = str(body["spec"].get("nodeName", ""))
                self.seen.append((type, str(body["metadata"]["name"]), node))
                self._changed.notify_all()

        await kopf.operator(
            registry=registry,
            settings=settings,
            namespaces=[self._namespace],
            standalone=True,
            ready_flag=self._ready,
            stop_flag=self._stop,
        )


async def test_kopf_sees_the_pods_of_its_scheduler(devcluster: DevCluster) -> None:
    async with _api(devcluster) as api:
        before = await api.pod("before", schedulerName="mine")
        with Operator(devcluster.url, api.namespace) as operator:
            await asyncio.to_thread(operator.wait_for, (None, "before", ""))
            await api.pod("other")
            await api.pod("a", schedulerName="mine")
            await asyncio.to_thread(operator.wait_for, ("ADDED", "a", ""))
            await api.bind("a", "n1")
            await asyncio.to_thread(operator.wait_for, ("MODIFIED", "a", "n1"))
            devcluster.end_watches()
            await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 0})
            await asyncio.to_thread(operator.wait_for, ("DELETED", "a", "n1"))
            devcluster.end_watches(expired=True)
            await api.pod("late", schedulerName="mine")
            await asyncio.to_thread(operator.wait_for, (None, "late", ""))
        assert not any(name == "other" for _, name, _ in operator.seen)
        assert (await api.get(f"{api.pods}/before")).ok() == before  # kopf writes nothing


async def test_kubernetes_asyncio_lists_creates_and_binds(devcluster: DevCluster, tmp_path: Path) -> None:
    configuration = client.Configuration()
    path = devcluster.kubeconfig(tmp_path / "kubeconfig")
    await config.load_kube_config(str(path), client_configuration=configuration)
    async with ApiClient(configuration) as connection:
        # plain dicts are accepted where the annotations ask for models
        core: Any = CoreV1Api(connection)
        leases: Any = CoordinationV1Api(connection)
        await core.create_namespace({"metadata": {"name": "generated"}})
        limits = {"nvidia.com/gpu": 1}
        made = await core.create_namespaced_pod("generated", pod("a", containers=[container(limits=limits)]))
        assert made.spec.containers[0].resources.requests == {"nvidia.com/gpu": "1"}
        listed = await core.list_namespaced_pod("generated", field_selector="spec.nodeName=")
        assert [item.metadata.name for item in listed.items] == ["a"]
        patched = await core.patch_namespaced_pod("a", "generated", {"metadata": {"labels": {"k": "v"}}})
        assert patched.metadata.labels == {"k": "v"}
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
        await core.create_namespaced_pod_binding("a", "generated", binding, _preload_content=False)
        assert (await core.read_namespaced_pod("a", "generated")).spec.node_name == "n1"
        lease = await leases.create_namespaced_lease("generated", {"metadata": {"name": "l"}, "spec": {}})
        lease.spec.holder_identity = "me"
        assert (await leases.replace_namespaced_lease("l", "generated", lease)).spec.holder_identity == "me"
        with pytest.raises(client.ApiException) as conflict:
            await leases.replace_namespaced_lease("l", "generated", lease)
        assert conflict.value.status == 409
    assert devcluster.requests.total(user_agent="OpenAPI-Generator", verb="create", resource="pods/binding") == 1


async def test_as_a_process(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    command = (sys.executable, "-m", "vgpu_devcluster", "--kubeconfig", str(kubeconfig))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("devcluster serves at http://127.0.0.1:")
    url = line.split()[-1]
    async with Api(Server("process", url, "", None), "default") as api:
        assert (await api.get("/version")).ok()["gitVersion"].startswith("v1.36.")
        assert (await api.get("/readyz")).body == "ok"
        configuration = client.Configuration()
        await config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        assert configuration.host == url
        async with api.watch(api.pods) as events:  # an open watch does not hold the end up
            process.send_signal(signal.SIGTERM)
            assert await events.rest() == []
    async with asyncio.timeout(10):
        assert await process.wait() == 0


@contextlib.asynccontextmanager
async def _api(cluster: DevCluster) -> AsyncIterator[Api]:
    """Yield a client in a namespace that the test does not share."""
    async with Api(Server("devcluster", cluster.url, "", None), f"k-{uuid.uuid4().hex[:10]}") as api:
        (await api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}})).created()
        yield api

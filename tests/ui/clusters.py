"""A live cluster with a page on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.runtime.test_runtime_explained import fresh
from tests.ui.browsers import Browser, browser_at

from vgpu_devcluster import DevCluster
from vgpu_scheduler.apiclient import ApiClient, connect
from vgpu_scheduler.policy import crds
from vgpu_scheduler.reading import ClusterOptions, make_world, read_live_cluster
from vgpu_scheduler.ui import LiveCluster, PageSetup, serve
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import as_json

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Lived:
    """A cluster, the page on it, and what happens there.

    Attributes
    ----------
    devcluster
        The embedded cluster, if it is one.
    """

    devcluster: DevCluster

    def __init__(self, api: ApiClient, options: ClusterOptions) -> None:
        self.api = api
        self.options = options
        self.live: LiveCluster
        self.browser: Browser

    async def write(self, method: str, path: str, body: Object, **more: Any) -> Object:
        answer = await self.api.request(method, path, body, **more)
        assert answer.ok, f"{method} {path}: {answer.message}"
        return dict(answer.json())

    async def create(self, *objects: Object) -> None:
        for obj in objects:
            wanted = fresh(obj)
            if obj["kind"] == "Node":
                await self.write("POST", NODES, wanted)  # a new one has a taint until its kubelet is there
                await self.write("PUT", f"{NODES}/{obj['metadata']['name']}", wanted)
            else:
                await self.write("POST", PODS, wanted)

    async def bind(self, name: str, held: Object) -> None:
        """Bind a pod with the allocation of another one."""
        target = {"kind": "Node", "name": held["spec"]["nodeName"]}
        metadata = {"name": name, "annotations": held["metadata"]["annotations"]}
        await self.write("POST", f"{PODS}/{name}/binding", {"metadata": metadata, "target": target})

    async def cards(self) -> list[Object]:
        """Return what the page shows of cards."""
        return list((await self.browser.get("/cards?format=json")).body)

    async def top(self) -> list[Object]:
        """Return what ``top cards -o json`` would print now."""
        world = make_world(await read_live_cluster(self.api, self.options))
        return [as_json(card) for card in usage.cards(world)]

    async def until(
        self, shown: Callable[[Any], bool], path: str = "/cards?format=json", seconds: float = 60.0
    ) -> float:
        """Wait until a page shows something, and return how long that took."""
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while True:
                seen = self.live.current.generation
                answer = await self.browser.get(path)
                if shown(answer.text if answer.body is None else answer.body):
                    return time.monotonic() - began
                await self.live.current.wait_for_generation_after(seen)


async def define(cluster: Lived) -> None:
    """Install the definitions of our policies."""
    for definition in crds():
        await cluster.write("POST", DEFINITIONS, definition)


Prepare = Callable[[Lived], Awaitable[None]]


@asynccontextmanager
async def lived(
    folder: Path, *objects: Object, prepare: Prepare | None = None, settle: Callable[[], None] = lambda: None
) -> AsyncIterator[Lived]:
    """Serve the page of an embedded cluster with some objects; see :func:`followed`."""
    with DevCluster.thread() as devcluster:

        async def prepared(cluster: Lived) -> None:
            cluster.devcluster = devcluster
            if prepare is not None:
                await prepare(cluster)

        kubeconfig = str(devcluster.kubeconfig(folder / "kubeconfig"))
        async with followed(kubeconfig, *objects, prepare=prepared, settle=settle) as found:
            yield found


@asynccontextmanager
async def followed(
    kubeconfig: str, *objects: Object, prepare: Prepare | None = None, settle: Callable[[], None] = lambda: None
) -> AsyncIterator[Lived]:
    """Serve the page of a cluster in which some objects are made.

    Parameters
    ----------
    prepare
        Is awaited with the cluster before it is read.
    settle
        As for the page.
    """
    options = ClusterOptions(kubeconfig, None, "vgpu-system", None)
    api, own = await connect(kubeconfig, None, "test"), await connect(kubeconfig, None, "page")
    found = Lived(api, options)
    await found.create(*objects)
    if prepare is not None:
        await prepare(found)
    found.live = LiveCluster(own, options, settle=settle)
    current = await found.live.open()
    following = asyncio.create_task(found.live.run())
    runner, address = await serve(PageSetup(current, found.live.view, found.live.deletable, found.live.doctor_input), 0)
    try:
        async with browser_at(address) as found.browser:
            yield found
            assert not following.done()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await runner.cleanup()
        current.close()
        await api.close()
        await own.close()

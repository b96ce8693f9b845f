"""Where the stories play: the real API server, operators behind proxies, nodes with cards, and bursts of pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import OPERATOR, PLUGIN, Administrator
from tests.e2e.preempting import install_preemption
from tests.e2e.volumes import CONTROLLERS, ZONE
from tests.faults.plane import Plane
from tests.faults.pods import CARDS, NODES, burst
from tests.faults.proxy import FaultProxy

from vgpu_devcluster import Card, NodeSide, Vendor
from vgpu_devcluster.kubelet import pod_status, running
from vgpu_devcluster.process import COMMAND, OperatorProcess

Object = dict[str, Any]

_ROOT = Path(__file__).parents[2]
_PODS = "/api/v1/namespaces/default/pods"
_MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True)
class Cast:
    """Which operators play: how many, with which settings, run by which command."""

    number: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = COMMAND


@dataclass(eq=False)
class Replica:
    """An operator behind a proxy of its own, which is started again whenever it ends.

    Attributes
    ----------
    deaths
        How often it has ended.
    """

    process: OperatorProcess
    proxy: FaultProxy
    deaths: int = 0
    _watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.process.start()
        self._watch = asyncio.create_task(self._keep_running())

    async def _keep_running(self) -> None:
        while True:
            if self.process.exit_code is not None:
                self.deaths += 1
                self.process.start()
            await asyncio.sleep(0.05)

    async def leads(self) -> bool:
        return await self.process.metric("vgpu_scheduler_leader") == 1.0

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        with suppress(ProcessLookupError):
            self.process.thaw()
        await asyncio.to_thread(self.process.stop)
        await self.proxy.__aexit__()


class Stage(Administrator):
    """One cluster for many stories, each with nodes and pods of its own.

    Attributes
    ----------
    plane
        The control plane.
    nodes
        The node side.
    replicas
        The operators.
    vendors
        Whose cards each node has.
    fitted
        All cards that each node was registered with, by UUID.
    waiting
        Pods for which there is no place.
    counted
        What stories did besides what the proxies count.
    crash_file, clock_file
        What operators obey that act up.
    """

    def __init__(self, plane: Plane, nodes: NodeSide, http: aiohttp.ClientSession, folder: Path) -> None:
        super().__init__(http)
        self.plane = plane
        self.nodes = nodes
        self.replicas: list[Replica] = []
        self.vendors: dict[str, tuple[Vendor, ...]] = {}
        self.fitted: dict[str, dict[str, Card]] = {}
        self.waiting: set[str] = set()
        self.counted: dict[str, int] = {}
        self.crash_file = folder / "crash"
        self.clock_file = folder / "clock"
        self._folder = folder
        self._further = ExitStack()
        self._controlled = False
        self._may_evict = False
        self._number = 0
        self._cast: Cast | None = None

    # Operators -------------------------------------------------------------------------------------------------------

    async def perform(self, cast: Cast) -> None:
        """Have these operators play; those that play already go on."""
        if cast != self._cast:
            await self.dismiss()
            self.replicas = [await self._replica(cast) for _ in range(cast.number)]
            self._cast = cast
            for replica in self.replicas:
                replica.start()
        for replica in self.replicas:
            replica.proxy.heal()
            replica.proxy.injected.clear()
            replica.deaths = 0
            await self.until(partial(_is_ready, replica), "a replica to be ready", within=150)
        await self.leader()

    async def controllers(self) -> None:
        """Run Kubernetes' controllers that pods with volumes need, from now on."""
        if not self._controlled:
            self._controlled = True
            await asyncio.to_thread(self._further.enter_context, self.plane.controllers(*CONTROLLERS))

    async def rights_to_evict(self) -> None:
        """Let operators evict pods from now on, and have classes of priority."""
        if not self._may_evict:
            self._may_evict = True
            assert isinstance(self.plane, ControlPlane)
            await asyncio.to_thread(install_preemption, self.plane)

    def installed_anew(self) -> None:
        """Take in that the manifests were applied anew, which narrow again what operators may do."""
        self._may_evict = False

    async def dismiss(self) -> None:
        """End all operators."""
        await asyncio.gather(*(replica.stop() for replica in self.replicas))
        self.replicas, self._cast = [], None

    async def _replica(self, cast: Cast) -> Replica:
        self._number += 1
        proxy = await FaultProxy(self.plane.url, self.plane.ssl_context()).__aenter__()
        kubeconfig = self._folder / f"kubeconfig-{self._number}"
        text = self.plane.kubeconfig(OPERATOR, "vgpu-system").read_text()
        kubeconfig.write_text(text.replace(self.plane.url, proxy.url))
        environment = {
            "PYTHONPATH": f"{_ROOT / 'operator'}:{_ROOT}",
            "VGPU_BIND__POLL_INTERVAL": "1",
            "CRASH_FILE": str(self.crash_file),
            "CLOCK_FILE": str(self.clock_file),
            **cast.settings,
        }
        log = self._folder / f"operator-{self._number}.log"
        return Replica(OperatorProcess(kubeconfig, log, environment, cast.command), proxy)

    async def leader(self, within: float = 60.0) -> Replica:
        """Return the replica that leads."""
        found: list[Replica] = []

        async def one_leads() -> bool:
            found[:] = [replica for replica in self.replicas if await _answers(replica) and await replica.leads()]
            return len(found) == 1

        await self.until(one_leads, "one replica to lead", within=within)
        return found[0]

    @property
    def proxy(self) -> FaultProxy:
        """The proxy of the only operator."""
        return self.replicas[0].proxy

    @property
    def process(self) -> OperatorProcess:
        """The only operator."""
        return self.replicas[0].process

    def count(self, what: str, times: int = 1) -> None:
        """Note what was done."""
        self.counted[what] = self.counted.get(what, 0) + times

    @property
    def injected(self) -> dict[str, int]:
        """What was done, and how often."""
        found = dict(self.counted)
        for replica in self.replicas:
            for what, times in replica.proxy.injected.items():
                found[what] = found.get(what, 0) + times
        return found

    # Nodes and pods --------------------------------------------------------------------------------------------------

    async def register(self, nodes: Mapping[str, tuple[Vendor, ...]] = NODES) -> None:
        """Register nodes with the cards of these vendors."""
        self.vendors |= nodes
        self.fitted |= {
            node: {card.uuid: card for vendor in made for card in CARDS[vendor](node)} for node, made in nodes.items()
        }
        await asyncio.gather(
            *(
                self.nodes.register([node], {vendor: CARDS[vendor] for vendor in made}, labels={ZONE: "a"})
                for node, made in nodes.items()
            )
        )

    def cards(self, node: str) -> list[Card]:
        """Return the cards that a node registers now."""
        return self.nodes.cards(node)

    async def come(self, *pods: Object) -> None:
        """Have pods come: a burst, unless others are named."""
        await self.create(*(pods or burst()))

    async def some_run(self, number: int) -> None:
        """Wait until so many pods have run."""
        await self.nodes.until(lambda: self.nodes.counts["running"] >= number, within=60)

    async def one_is_allocating(self) -> None:
        """Wait until the plugin of a pod waits to be let go."""

        async def held() -> bool:
            return bool(self.nodes.held)

        await self.until(held, "a pod to be allocating")

    async def patch_node(self, name: str, **fields: Any) -> None:
        """Change a node by a merge patch."""
        async with self.http.patch(f"/api/v1/nodes/{name}", json=fields, headers=_MERGE) as answer:
            assert answer.status == 200, await answer.text()

    async def run(self, pod: Object) -> None:
        """Say that a pod runs, as its kubelet does."""
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        body = {"status": pod_status(pod, "Running", running())}
        async with self.http.patch(f"{_PODS}/{pod['metadata']['name']}/status", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def delete(self, name: str, **options: Any) -> None:
        """Delete a pod; one that is gone is gone."""
        async with self.http.delete(f"{_PODS}/{name}", json=options) as answer:
            assert answer.status in {200, 202, 404}, await answer.text()

    async def delete_some(self, random: Random, number: int) -> None:
        """Delete pods that run, without grace: plugins must not be surprised in the middle of an Allocate."""
        running = [pod["metadata"]["name"] for pod in await self.pods() if pod["status"].get("phase") == "Running"]
        for name in random.sample(running, min(number, len(running))):
            await self.delete(name, gracePeriodSeconds=0)

    async def evict(self, name: str) -> None:
        """Evict a pod."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        async with self.http.post(f"{_PODS}/{name}/eviction", json=body) as answer:
            assert answer.status in {201, 404}, await answer.text()

    async def clear(self) -> None:
        """Delete all pods and nodes."""
        for path in (_PODS, "/api/v1/nodes"):
            async with self.http.delete(path, json={"gracePeriodSeconds": 0}) as answer:
                assert answer.status == 200, await answer.text()

    @asynccontextmanager
    async def story(self, cast: Cast, nodes: Mapping[str, tuple[Vendor, ...]] = NODES) -> AsyncIterator[None]:
        """Set the nodes of a story up, with operators that are ready for it, and take all away again."""
        tls = self.plane.ssl_context()
        self.vendors, self.waiting, self.counted = {}, set(), {}
        async with NodeSide(self.plane.url, token=self.plane.tokens[PLUGIN], tls=tls) as side:
            self.nodes = side
            await self.clear()
            await self.register(nodes)
            await side.start()
            await self.perform(cast)
            try:
                yield
            finally:
                for replica in self.replicas:
                    replica.proxy.heal()
                await side.stop()
                await self.clear()

    def close(self) -> None:
        """End what ran besides."""
        self._further.close()

    def log(self, lines: int = 40) -> str:
        """Return the ends of the operators' logs."""
        return "\n".join("\n".join(replica.process.log.splitlines()[-lines:]) for replica in self.replicas)


async def _is_ready(replica: Replica) -> bool:
    return (await replica.process.get("/readyz"))[0] == 200


async def _answers(replica: Replica) -> bool:
    """Tell whether a replica is asked at all: one that is frozen does not answer."""
    try:
        async with asyncio.timeout(1.0):
            return (await replica.process.get("/healthz"))[0] != 0
    except TimeoutError:
        return False


@asynccontextmanager
async def opened(plane: Plane, folder: Path) -> AsyncIterator[Stage]:
    """Open a stage on a control plane that runs."""
    headers = {"Authorization": f"Bearer {plane.token}"}
    tls = plane.ssl_context()
    connector = aiohttp.TCPConnector(ssl=True if tls is None else tls)
    side = NodeSide(plane.url, token=plane.tokens[PLUGIN], tls=tls)
    async with aiohttp.ClientSession(plane.url, headers=headers, connector=connector) as http:
        stage = Stage(plane, side, http, folder)
        try:
            yield stage
        finally:
            await stage.dismiss()
            stage.close()

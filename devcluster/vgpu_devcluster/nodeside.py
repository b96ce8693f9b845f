"""A test double of what runs on GPU nodes: the vendors' device plugins under HAMi and the kubelet around them.

It registers nodes with cards and admits the pods that are bound to them. Like each plugin, it finds "its" pod
(NVIDIA's through the node lock), removes entries from ``hami.io/vgpu-devices-to-allocate`` one container at a time,
reports success and releases the lock; then it runs the pods. Meanwhile it checks what a scheduler must never get wrong,
and collects mistakes in :attr:`NodeSide.violations`.

One list-watch each for nodes and pods serves all nodes. A suspected violation is confirmed by reading the node before
it is recorded. The docstring of :mod:`.plugin` lists what is not simulated.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from .allocation import Amount
from .books import GpuNode, racks_of
from .finding import AllocateError
from .kubelet import CAPACITY, pod_status, ready, running
from .nodeclient import NodeClient, unless_gone
from .nodes import NOT_READY
from .plugin import BEHAVIOUR, Behaviour, DevicePlugin, pod_path
from .vendors import NVIDIA, Vendor

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from .books import Fitting, Rack
    from .cards import Card

Object = dict[str, Any]

_TERMINAL = ("Succeeded", "Failed")


class NodeSide:
    """The nodes of a cluster; use it as an async context manager.

    Parameters
    ----------
    url, token, tls
        The API server, a devcluster or a real one.
    delay
        Seconds that an Allocate takes.
    behave
        Chooses how a pod is treated; the pod's annotation :data:`BEHAVIOUR` takes precedence.
    seed
        The seed of everything random: the order of cards in rewritten registrations, and whose heartbeat is next.

    Attributes
    ----------
    counts
        Numbers of pods so far: ``allocated``, ``failed``, ``running``, ``deleted``, ``unanswered``.
    dead
        The nodes whose kubelets ignore changes of their pods.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        delay: float = 0.02,
        behave: Callable[[Object], Behaviour | None] | None = None,
        seed: int = 0,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.dead: set[str] = set()
        self._client = NodeClient(url, token=token, tls=tls)
        self._plugin = DevicePlugin(self._client, delay)
        self._nodes = self._plugin.nodes
        self._behave = behave
        self._random = random.Random(seed)  # noqa: S311 - noise, not secrets
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by pod UID: its admission or termination
        self._seen: set[str] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._synced = 0
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._client.__aexit__()

    # ------------------------------------------------------------------------------------------------ nodes

    async def register(
        self,
        names: Iterable[str],
        cards: Fitting = ("A100-80G",) * 8,
        *,
        count: int = 10,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        capacity: Mapping[str, str] | None = None,
        vendor: Vendor = NVIDIA,
    ) -> None:
        """Create ready nodes with registered cards.

        Parameters
        ----------
        cards
            Keys of the catalogue, one per card; or a function that returns the cards of a node; or such a function for
            each of several vendors. A node without cards is a plain one.
        count
            The most pods that may share a card.
        capacity
            Amounts other than cards; 64 CPUs, 512 GiB and 110 pods by default.
        vendor
            The vendor of the cards and the plugin, if there is only one.
        """
        gate = asyncio.Semaphore(32)

        async def one(name: str) -> None:
            async with gate:
                racks = racks_of(name, cards, vendor, count=count)
                await self._create(name, racks, labels or {}, taints, capacity or CAPACITY)

        await asyncio.gather(*(one(name) for name in names))

    async def _create(
        self,
        name: str,
        racks: list[Rack],
        labels: Mapping[str, str],
        taints: Sequence[Mapping[str, str]],
        capacity: Mapping[str, str],
    ) -> None:
        self._nodes[name] = GpuNode(racks)
        metadata: Object = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        if annotations := self._nodes[name].annotations():
            metadata["annotations"] = annotations
        await self._client.request("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"taints": list(taints)}})
        amounts = {**capacity, **self._nodes[name].capacity()}
        body = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready()]}}
        await self._client.strategic(f"/api/v1/nodes/{name}/status", body)
        # no node lifecycle controller runs that would remove the taint which admission put on the new node
        kept = [dict(taint) for taint in taints if taint.get("key") != NOT_READY]
        await self._client.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": kept or None}})

    def cards(self, node: str) -> list[Card]:
        """Return the cards of a node."""
        return list(self._nodes[node].cards.values())

    async def set_cards(self, node: str, cards: Sequence[Card]) -> None:
        """Register other cards of a node's first vendor, for instance with one unhealthy."""
        mine = self._nodes[node]
        mine.racks[0].cards = {card.uuid: card for card in cards}
        await self._client.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": mine.annotations()}})
        await self._set_amounts(node, mine.capacity(), "allocatable")

    async def set_health(self, node: str, uuid: str, *, healthy: bool) -> None:
        """Register a card of a node's first vendor as healthy or not."""
        cards = self._nodes[node].racks[0].cards
        await self.set_cards(node, [replace(c, healthy=healthy) if c.uuid == uuid else c for c in cards.values()])

    async def kill_plugin(self, node: str, *, forgotten: bool = False) -> None:
        """Stop the plugins of a node: the kubelet withdraws their devices, and their registration stays.

        With ``forgotten``, as some minutes later, the node also reports no capacity of such devices.
        """
        gone = dict.fromkeys(self._nodes[node].capacity(), "0")
        await self._set_amounts(node, gone, "allocatable", *(["capacity"] if forgotten else []))

    async def revive_plugin(self, node: str) -> None:
        """Start the plugins of a node again."""
        mine = self._nodes[node]
        await self._client.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": mine.annotations()}})
        await self._set_amounts(node, mine.capacity(), "allocatable", "capacity")

    async def _set_amounts(self, node: str, amounts: Mapping[str, str], *where: str) -> None:
        status = {section: dict(amounts) for section in where}
        await self._client.merge(f"/api/v1/nodes/{node}/status", {"status": status})

    async def heartbeat(self, node: str) -> None:
        """Write what a node writes periodically: its Ready condition, and its cards in a random order."""
        annotations = self._nodes[node].annotations(self._random.shuffle)
        await self._client.strategic(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [ready()]}})
        await self._client.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})

    async def heartbeats(self, interval: float) -> None:
        """Write heartbeats of random nodes forever, so that each node has one per ``interval`` seconds on average."""
        while True:
            await asyncio.sleep(interval / max(len(self._nodes), 1))
            if self._nodes:
                await self.heartbeat(self._random.choice(sorted(self._nodes)))

    async def remove(self, node: str) -> None:
        """Delete a node; its amounts stay charged until its pods are gone."""
        await self._client.request("DELETE", f"/api/v1/nodes/{node}")

    # ------------------------------------------------------------------------------------------------ playing

    @property
    def busy(self) -> bool:
        """Whether a pod is being admitted or terminated."""
        return bool(self._tasks)

    @property
    def violations(self) -> list[str]:
        """The scheduler's mistakes, in words."""
        return self._plugin.violations

    @property
    def held(self) -> set[str]:
        """The pods (``namespace/name``) whose plugins wait for :meth:`let_go`."""
        return self._plugin.held

    def let_go(self) -> None:
        """Let the waiting plugins answer."""
        self._plugin.gate.set()

    async def start(self) -> None:
        """Start in the background; return when the existing nodes and pods have been seen."""
        self._loops = [asyncio.create_task(self._follow_nodes()), asyncio.create_task(self._follow_pods())]
        await self.until(lambda: self._synced >= len(self._loops))

    async def run(self) -> None:
        """Run until cancelled, or until an error occurs."""
        await self.start()
        try:
            await asyncio.gather(*self._loops)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop; pods keep their state, and a later start counts what they hold again."""
        tasks = [*self._loops, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()
        self._tasks.clear()
        self._synced = 0
        self._seen.clear()
        self._plugin.books.forget()

    async def until(self, condition: Callable[[], bool], within: float = 30.0) -> None:
        """Wait until a condition holds; it is checked after each event on the node side.

        Parameters
        ----------
        within
            Seconds.

        Raises
        ------
        TimeoutError
            It did not hold in time.
        """
        async with asyncio.timeout(within):
            while not condition():
                for task in self._loops:
                    if task.done():
                        task.result()
                self._changed.clear()
                if not condition():
                    await self._changed.wait()

    def used(self, node: str) -> dict[str, Amount]:
        """Return the amounts that pods hold, by card."""
        return {card: amount for card, amount in self._nodes[node].used.items() if amount != Amount()}

    def slices(self, node: str) -> dict[str, list[int]]:
        """Return the slices of MIG cards, or the instances of their templates, that pods hold."""
        return self._nodes[node].slices()

    async def finish(self, namespace: str, name: str, phase: str = "Succeeded") -> None:
        """End a bound pod after its admission: no kubelet ends a pod that it is about to start."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        pod = await self._client.request("GET", path)
        uid = pod["metadata"]["uid"]
        if self._loops and pod["spec"].get("nodeName") in self._nodes:
            await self.until(lambda: uid in self._seen)
        await self._admitted(uid)
        code = 0 if phase == "Succeeded" else 1
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        await self._client.strategic(f"{path}/status", {"status": pod_status(pod, phase, ended)})
        self._release(uid)

    async def delete(self, namespace: str, name: str, uid: str = "") -> None:
        """Delete a pod without grace, as the kubelet does after its containers end; with ``uid``, only that pod."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid} if uid else {}}
        with unless_gone(or_replaced=bool(uid)):
            pod = await self._client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)
            self._release(pod["metadata"]["uid"])

    async def _follow_nodes(self) -> None:
        async for kind, node in self._client.follow("/api/v1/nodes"):
            if kind == "SYNCED":
                self._synced += 1
            else:
                mine = self._nodes.get(node["metadata"]["name"])
                if mine is not None:
                    mine.follow({} if kind == "DELETED" else node["metadata"].get("annotations") or {})
            self._changed.set()

    async def _follow_pods(self) -> None:
        async for kind, pod in self._client.follow("/api/v1/pods", "fieldSelector=spec.nodeName!="):
            if kind == "SYNCED":
                self._synced += 1
                self._changed.set()
            elif pod["spec"]["nodeName"] in self._nodes.keys() - self.dead:
                self._observe(kind, pod)

    def _observe(self, kind: str, pod: Object) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase", "Pending")
        self._changed.set()
        if kind == "DELETED":
            self._forget(uid)
            return
        if phase in _TERMINAL:
            self._release(uid)
        if "deletionTimestamp" in pod["metadata"]:
            self._begin(uid + "/end", self._terminate(pod))
        elif uid not in self._seen and phase not in _TERMINAL:
            self._seen.add(uid)
            if phase == "Running" or pod["status"].get("initContainerStatuses"):
                self._plugin.charge(pod)  # it was running before this node side started
            else:
                self._begin(uid, self._admit(pod))

    def _forget(self, uid: str) -> None:
        """Forget a deleted pod, and cancel its admission."""
        admission = self._tasks.get(uid)
        if admission is not None:
            admission.cancel()
        self._seen.discard(uid)
        self._release(uid)

    def _begin(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        if key in self._tasks:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks[key] = task

        def done(ended: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            self._changed.set()
            if not ended.cancelled() and (error := ended.exception()) is not None:
                self.violations.append(f"the node side failed: {error!r}")

        task.add_done_callback(done)

    async def _terminate(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await self._admitted(metadata["uid"])
        await self.delete(metadata["namespace"], metadata["name"], metadata["uid"])
        self.counts["deleted"] += 1

    async def _admitted(self, uid: str) -> None:
        """Wait for a pod's admission: the kubelet finishes it before it terminates the pod."""
        admission = self._tasks.get(uid)
        if admission is not None:
            await asyncio.wait([admission])

    async def _admit(self, pod: Object) -> None:
        """Admit a pod as the kubelet does: allocate its devices, then run it."""
        asking = self._nodes[pod["spec"]["nodeName"]].asked(pod)
        behaviour = self._behaviour(pod)
        with unless_gone():
            try:
                if asking:
                    if behaviour.never:
                        self.counts["unanswered"] += 1
                        return
                    await self._plugin.allocate(pod, behaviour)
                    self.counts["allocated"] += 1
                if not behaviour.quiet:
                    path = pod_path(pod)
                    await self._client.strategic(f"{path}/status", {"status": pod_status(pod, "Running", running())})
                self.counts["running"] += 1
            except AllocateError as error:
                await self._refuse(pod, str(error))

    def _release(self, uid: str) -> None:
        self._plugin.books.release(uid)
        self._changed.set()

    def _behaviour(self, pod: Object) -> Behaviour:
        text = (pod["metadata"].get("annotations") or {}).get(BEHAVIOUR, "")
        return Behaviour.parse(text) if text else (self._behave and self._behave(pod)) or Behaviour()

    async def _refuse(self, pod: Object, message: str) -> None:
        self.counts["failed"] += 1
        text = f"Allocate failed due to {message}, which is unexpected"
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": text}
        with unless_gone():
            await self._client.strategic(f"{pod_path(pod)}/status", {"status": status})

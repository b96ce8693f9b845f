"""A test double of what runs on GPU nodes: HAMi's NVIDIA device plugin and the kubelet around it.

It registers nodes with cards, admits the pods that are bound to them, finds "its" pod through the node lock as the
plugin does, takes the entries out of ``hami.io/vgpu-devices-to-allocate`` one container at a time, reports success and
releases the lock, and runs the pods. While it plays it checks what a scheduler must never get wrong and keeps what it
found in :attr:`NodeSide.violations`.

One list-watch each for nodes and pods serves all nodes; what they show decides, and a read of the node confirms before
a violation is recorded. What is not played is listed in :mod:`.plugin`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from . import allocation
from .allocation import Amount
from .cards import Card, equip
from .kubelet import CAPACITY, pod_status, ready, running
from .makers import NVIDIA, Maker
from .nodeclient import NodeClient, RequestError
from .nodes import NOT_READY
from .plugin import BEHAVIOUR, AllocateError, Behaviour, DevicePlugin, GpuNode, pod_path

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

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
        Chooses a pod's treatment; the pod's annotation :data:`BEHAVIOUR` wins.
    seed
        Of everything random: the order of cards in rewritten registrations, which node's heartbeat is next.

    Attributes
    ----------
    counts
        ``allocated``, ``failed``, ``running``, ``deleted``, ``unanswered``: pods so far.
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
        cards: Sequence[str] | Callable[[str], list[Card]] = ("A100-80G",) * 8,
        *,
        count: int = 10,
        numa_domains: int = 2,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        capacity: Mapping[str, str] | None = None,
        maker: Maker = NVIDIA,
    ) -> None:
        """Create ready nodes with registered cards.

        Parameters
        ----------
        cards
            Keys of the catalogue, one per card, or a function that returns the cards of a node. Without cards a node
            is a plain one.
        count
            Sharers per card.
        capacity
            Amounts besides those of cards; 64 CPUs, 512 GiB and 110 pods when absent.
        maker
            Whose cards, and whose plugin.
        """
        gate = asyncio.Semaphore(32)

        async def one(name: str) -> None:
            async with gate:
                found = cards(name) if callable(cards) else equip(name, cards, count=count, numa_domains=numa_domains)
                await self._create(name, found, labels or {}, taints, capacity or CAPACITY, maker)

        await asyncio.gather(*(one(name) for name in names))

    async def _create(
        self,
        name: str,
        cards: list[Card],
        labels: Mapping[str, str],
        taints: Sequence[Mapping[str, str]],
        capacity: Mapping[str, str],
        maker: Maker,
    ) -> None:
        self._nodes[name] = GpuNode({card.uuid: card for card in cards}, maker)
        metadata: Object = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        if annotations := maker.annotations(cards):
            metadata["annotations"] = dict(annotations)
        await self._client.request("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"taints": list(taints)}})
        amounts = {**capacity, **maker.capacity(cards)}
        body = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready()]}}
        await self._client.strategic(f"/api/v1/nodes/{name}/status", body)
        # the node lifecycle controller would take the taint away that admission put on the new node
        kept = [dict(taint) for taint in taints if taint.get("key") != NOT_READY]
        await self._client.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": kept or None}})

    def cards(self, node: str) -> list[Card]:
        """Return the cards of a node."""
        return list(self._nodes[node].cards.values())

    async def set_cards(self, node: str, cards: Sequence[Card]) -> None:
        """Register other cards on a node, for instance with one unhealthy, and adapt what the kubelet can hand out."""
        maker = self._nodes[node].maker
        self._nodes[node].cards = {card.uuid: card for card in cards}
        await self._client.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict(maker.annotations(cards))}})
        status = {"allocatable": dict(maker.capacity(cards))}
        await self._client.merge(f"/api/v1/nodes/{node}/status", {"status": status})

    async def set_health(self, node: str, uuid: str, *, healthy: bool) -> None:
        """Register a card of a node as healthy or not."""
        cards = [replace(card, healthy=healthy) if card.uuid == uuid else card for card in self.cards(node)]
        await self.set_cards(node, cards)

    async def kill_plugin(self, node: str) -> None:
        """Let the plugin of a node die: the kubelet takes its devices back, what it registered stays."""
        gone = dict.fromkeys(self._nodes[node].maker.capacity(self.cards(node)), "0")
        await self._client.merge(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": gone}})

    async def revive_plugin(self, node: str) -> None:
        """Let the plugin of a node come back."""
        await self.set_cards(node, self.cards(node))

    async def heartbeat(self, node: str) -> None:
        """Write what a node writes again and again: its Ready condition, and its cards in another order."""
        cards = self.cards(node)
        self._random.shuffle(cards)
        annotations = dict(self._nodes[node].maker.annotations(cards))
        await self._client.strategic(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [ready()]}})
        await self._client.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})

    async def heartbeats(self, interval: float) -> None:
        """Write heartbeats of random nodes for ever, so that each node has one per ``interval`` seconds on average."""
        while True:
            await asyncio.sleep(interval / max(len(self._nodes), 1))
            if self._nodes:
                await self.heartbeat(self._random.choice(sorted(self._nodes)))

    async def remove(self, node: str) -> None:
        """Delete a node; what ran there stays charged until its pods are gone."""
        await self._client.request("DELETE", f"/api/v1/nodes/{node}")

    # ------------------------------------------------------------------------------------------------ playing

    @property
    def busy(self) -> bool:
        """Whether a pod is being admitted or ended."""
        return bool(self._tasks)

    @property
    def violations(self) -> list[str]:
        """What a scheduler got wrong, in words."""
        return self._plugin.violations

    async def start(self) -> None:
        """Play in the background; return when the nodes and pods that are there have been seen."""
        self._loops = [asyncio.create_task(self._follow_nodes()), asyncio.create_task(self._follow_pods())]
        await self.until(lambda: self._synced >= len(self._loops))

    async def run(self) -> None:
        """Play until cancelled, or until something breaks."""
        await self.start()
        try:
            await asyncio.gather(*self._loops)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop to play; pods keep their state, and a later start counts again what they hold."""
        tasks = [*self._loops, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()
        self._tasks.clear()
        self._synced = 0
        self._seen.clear()
        self._plugin.forget()

    async def until(self, condition: Callable[[], bool], within: float = 30.0) -> None:
        """Wait until a condition holds; it is looked at whenever something happened on the node side.

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
        """Return what is handed out and still held, by card."""
        return {card: amount for card, amount in self._nodes[node].used.items() if amount != Amount()}

    async def finish(self, namespace: str, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        pod = await self._client.request("GET", path)
        code = 0 if phase == "Succeeded" else 1
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        await self._client.strategic(f"{path}/status", {"status": pod_status(pod, phase, ended)})
        self._release(pod["metadata"]["uid"])

    async def delete(self, namespace: str, name: str) -> None:
        """Delete a pod without grace, as the kubelet does when its containers have ended."""
        body = {"gracePeriodSeconds": 0}
        try:
            pod = await self._client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)
        except RequestError as error:
            if error.code != 404:
                raise
        else:
            self._release(pod["metadata"]["uid"])

    async def _follow_nodes(self) -> None:
        async for kind, node in self._client.follow("/api/v1/nodes"):
            if kind == "SYNCED":
                self._synced += 1
            else:
                mine = self._nodes.get(node["metadata"]["name"])
                if mine is not None:
                    gone = kind == "DELETED"
                    mine.lock = "" if gone else (node["metadata"].get("annotations") or {}).get(mine.maker.lock, "")
            self._changed.set()

    async def _follow_pods(self) -> None:
        async for kind, pod in self._client.follow("/api/v1/pods", "fieldSelector=spec.nodeName!="):
            if kind == "SYNCED":
                self._synced += 1
                self._changed.set()
            elif pod["spec"]["nodeName"] in self._nodes:
                self._observe(kind, pod)

    def _observe(self, kind: str, pod: Object) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase", "Pending")
        self._changed.set()
        if kind == "DELETED" or phase in _TERMINAL:
            self._release(uid)
            if kind == "DELETED":
                self._seen.discard(uid)
        if kind == "DELETED":
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._begin(uid + "/end", self._terminate(pod))
        elif uid not in self._seen and phase not in _TERMINAL:
            self._seen.add(uid)
            if phase == "Running":
                self._plugin.charge(pod)  # it ran before this node side started to watch
            else:
                self._begin(uid, self._admit(pod))

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
                self.violations.append(f"the node side broke: {error!r}")

        task.add_done_callback(done)

    async def _terminate(self, pod: Object) -> None:
        metadata = pod["metadata"]
        admission = self._tasks.get(metadata["uid"])
        if admission is not None:  # the kubelet ends what it began before it ends the pod
            await asyncio.wait([admission])
        await self.delete(metadata["namespace"], metadata["name"])
        self.counts["deleted"] += 1

    # ------------------------------------------------------------------------------------------------ one pod

    async def _admit(self, pod: Object) -> None:
        """Admit a pod as the kubelet does: devices first, then it runs."""
        maker = self._nodes[pod["spec"]["nodeName"]].maker
        asking = [container for container in allocation.containers(pod, maker) if container.cards]
        behaviour = self._behaviour(pod)
        try:
            if asking:
                if behaviour.never:
                    self.counts["unanswered"] += 1
                    return
                await self._plugin.allocate(pod, asking, behaviour)
                self.counts["allocated"] += 1
            if not behaviour.quiet:
                path = pod_path(pod)
                await self._client.strategic(f"{path}/status", {"status": pod_status(pod, "Running", running())})
            self.counts["running"] += 1
        except AllocateError as error:
            await self._refuse(pod, str(error))
        except RequestError as error:
            if error.code != 404:  # gone meanwhile is nobody's fault
                raise

    def _release(self, uid: str) -> None:
        self._plugin.release(uid)
        self._changed.set()

    def _behaviour(self, pod: Object) -> Behaviour:
        text = (pod["metadata"].get("annotations") or {}).get(BEHAVIOUR, "")
        if text:
            return Behaviour.parse(text)
        return (self._behave(pod) if self._behave else None) or Behaviour()

    async def _refuse(self, pod: Object, message: str) -> None:
        self.counts["failed"] += 1
        text = f"Allocate failed due to {message}, which is unexpected"
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": text}
        try:
            await self._client.strategic(f"{pod_path(pod)}/status", {"status": status})
        except RequestError as error:
            if error.code != 404:
                raise


__all__ = ["BEHAVIOUR", "Behaviour", "NodeSide"]

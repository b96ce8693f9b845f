"""Test doubles of the node sides of Volcano and Koordinator, and the kubelet around them.

Each registers nodes, starts the pods that are bound to them and hands out devices as its ecosystem does. Whatever a
scheduler must never get wrong is kept in :attr:`Ecosystem.violations`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from .kubelet import CAPACITY, pod_status, ready, running
from .nodeclient import NodeClient, RequestError
from .plugin import BEHAVIOUR
from .quantities import parse

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]
_Amounts = tuple[int, ...]

_WHOLE = 100
_TERMINAL = ("Succeeded", "Failed")
_REJECTED = {
    "phase": "Failed",
    "reason": "OutOfcpu",
    "message": "Pod was rejected: Node didn't have enough resource: cpu",
}


class Ecosystem(ABC):
    """The nodes of one ecosystem; use it as an async context manager.

    A pod whose annotation :data:`BEHAVIOUR` is ``reject`` is rejected by its kubelet before a plugin is asked.

    Parameters
    ----------
    url, token, tls
        The API server, a devcluster or a real one.
    delay
        Seconds between the kubelet's call and what the plugin does.

    Attributes
    ----------
    violations
        What a scheduler did that it must not do.
    started
        ``namespace/name`` of the pods that run, in order.
    """

    def __init__(self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None, delay: float = 0.02) -> None:
        self.violations: list[str] = []
        self.started: list[str] = []
        self._client = NodeClient(url, token=token, tls=tls)
        self._delay = delay
        self._totals: dict[str, dict[str, _Amounts]] = {}
        self._held: dict[str, dict[str, dict[str, _Amounts]]] = {}
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[str, asyncio.Lock] = {}
        self._loop: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._loop = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._loop, *self._tasks):
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, (self._loop, *self._tasks)), return_exceptions=True)
        await self._client.__aexit__()

    async def _register(self, name: str, annotations: Mapping[str, str], amounts: Mapping[str, str]) -> None:
        """Create a ready node."""
        self._held[name], self._calls[name] = {}, asyncio.Lock()
        metadata = {"name": name, "annotations": dict(annotations)}
        await self._client.request("POST", "/api/v1/nodes", {"metadata": metadata})
        offered = {**CAPACITY, **amounts}
        status = {"capacity": offered, "allocatable": offered, "conditions": [ready()]}
        await self._client.strategic(f"/api/v1/nodes/{name}/status", {"status": status})
        await self._client.json_patch(f"/api/v1/nodes/{name}", [{"op": "add", "path": "/spec/taints", "value": []}])

    async def _follow(self) -> None:
        async for kind, pod in self._client.follow("/api/v1/pods", "fieldSelector=spec.nodeName!="):
            if kind == "SYNCED" or pod["spec"]["nodeName"] not in self._held:
                continue
            uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
            if kind == "DELETED" or pod["status"].get("phase") in _TERMINAL:
                self._held[node].pop(uid, None)
            elif uid not in self._seen:
                self._seen.add(uid)
                task = asyncio.create_task(self._start(pod))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _start(self, pod: Object) -> None:
        """Start a pod as the kubelet does: one after the other on each node, devices first."""
        metadata = pod["metadata"]
        path, key = _path(pod), f"{metadata['namespace']}/{metadata['name']}"
        try:
            async with self._calls[pod["spec"]["nodeName"]]:
                await asyncio.sleep(self._delay)
                if (metadata.get("annotations") or {}).get(BEHAVIOUR) == "reject":
                    await self._client.strategic(f"{path}/status", {"status": _REJECTED})
                    return
                problem = await self._allocate(pod)
            if problem:
                self.violations.append(f"{key}: {problem}")
                failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": problem}
                await self._client.strategic(f"{path}/status", {"status": failed})
                return
            await self._client.strategic(f"{path}/status", {"status": pod_status(pod, "Running", running())})
            self.started.append(key)
        except RequestError as error:
            if error.code != 404:  # it was deleted meanwhile
                self.violations.append(f"{key}: {error}")

    @abstractmethod
    async def _allocate(self, pod: Object) -> str:
        """Hand out the devices of a pod; return what is wrong, if anything."""

    def handed_out(self, node: str) -> dict[str, _Amounts]:
        """Return what the pods of a node hold of each device."""
        held = [devices for devices in self._held[node].values() if devices]
        names = sorted({name for devices in held for name in devices})
        return {name: _sum([devices[name] for devices in held if name in devices]) for name in names}

    def _book(self, pod: Object, devices: Mapping[str, _Amounts]) -> str:
        """Book devices for a pod; return what is wrong with them."""
        node = pod["spec"]["nodeName"]
        totals, held = self._totals[node], self._held[node]
        held[pod["metadata"]["uid"]] = dict(devices)
        for name in devices:
            if name not in totals:
                return f"device {name} is not one of node {node}"
            sums = _sum([d[name] for d in held.values() if name in d])
            if any(used > total for used, total in zip(sums, totals[name], strict=True)):
                return f"device {name} has {list(sums)} of {list(totals[name])} handed out"
        return ""


class VolcanoPlugin(Ecosystem):
    """Volcano's vGPU device plugin, which is told of a number of cards by the kubelet and never of a pod.

    Of all pods that name its node, whatever has become of them, it takes the oldest one that has as many cards left to
    allocate, those of all containers together; then the next entry of that pod. It is not asked for a container that
    names memory or cores without a number of cards: that one runs with whatever its image can see, and the entry of
    its pod is left to be taken.

    Parameters
    ----------
    by_number
        Versions before 1.12 take the oldest pod, however many cards it has left to allocate.
    """

    _NUMBER, _MEMORY, _CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
    _LEFT, _TIME, _PHASE = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/bind-phase"
    _NEVER = 2**64 - 1

    def __init__(self, url: str, *, by_number: bool = True, **options: Any) -> None:
        super().__init__(url, **options)
        self._by_number = by_number

    async def register(
        self,
        name: str,
        cards: int = 2,
        memory: int = 24576,
        shares: int = 10,
        groups: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Create a ready node with cards of so many MiB, in MIG mode where groups of instances are given, by MiB."""
        ids = [f"GPU-{name}-{index}" for index in range(cards)]
        self._totals[name] = {
            f"{uuid}[{group}-{position}]": (1, size, _WHOLE)
            for uuid in ids
            for group, sizes in groups.items()
            for position, size in enumerate(sizes)
        } or dict.fromkeys(ids, (shares, memory, _WHOLE))
        card = f"{shares},{memory},NVIDIA-NVIDIA {'A30,true,mig' if groups else 'A10,true,hami-core'}"
        listed = "".join(f"{uuid},{card}:" for uuid in ids)
        amounts = {self._NUMBER: cards * shares, self._MEMORY: cards * memory, self._CORES: cards * _WHOLE}
        texts = {resource: str(amount) for resource, amount in amounts.items()}
        await self._register(name, {"volcano.sh/node-vgpu-register": listed}, texts)

    async def _allocate(self, pod: Object) -> str:
        devices: dict[str, _Amounts] = {}
        for container in pod["spec"]["containers"]:
            limits = (container.get("resources") or {}).get("limits") or {}
            number = int(parse(limits.get(self._NUMBER, "0")))
            if not number:
                self._notice_unlimited(pod, container["name"], limits)
                continue
            found, cards = await self._take(pod["spec"]["nodeName"], number)
            if found != pod["metadata"]["uid"]:
                return f"the plugin took the devices of pod {found or 'nobody'}"
            if len(cards) != number:
                return f"container {container['name']} asks for {number} cards and would get {len(cards)}"
            for card in cards:
                uuid, _, memory, cores = card.split(",")
                devices[uuid] = _sum([devices.get(uuid, (0, 0, 0)), (1, int(memory), int(cores))])
        return self._book(pod, devices) or self._of_two_groups(pod["spec"]["nodeName"])

    def _of_two_groups(self, node: str) -> str:
        """Return what is wrong where a card would have to follow two groups of instances at a time."""
        names = {name for devices in self._held[node].values() for name in devices if name.endswith("]")}
        followed = {(name.partition("[")[0], name.partition("[")[2].rpartition("-")[0]) for name in names}
        cards = [card for card, _ in followed]
        twice = next((card for card in cards if cards.count(card) > 1), None)
        return "" if twice is None else f"card {twice} has instances of two groups handed out"

    def _notice_unlimited(self, pod: Object, container: str, limits: Mapping[str, str]) -> None:
        named = next((name for name in (self._MEMORY, self._CORES) if parse(limits.get(name, "0"))), "")
        if named:
            metadata = pod["metadata"]
            self.violations.append(
                f"{metadata['namespace']}/{metadata['name']}: container {container} may see all cards: it has {named} "
                f"without {self._NUMBER}"
            )

    async def _take(self, node: str, number: int) -> tuple[str, list[str]]:
        """Take the next entry of the pod that the plugin takes for the right one; return its UID and those cards."""
        waiting = []
        for pod in (await self._client.request("GET", "/api/v1/pods"))["items"]:
            notes = pod["metadata"].get("annotations") or {}
            entries = [_cards(entry) for entry in notes.get(self._LEFT, "").split(";")]
            if notes.get("volcano.sh/vgpu-node") != node:
                continue
            if not self._by_number or sum(map(len, entries)) == number:
                waiting.append((self._time_of(notes), pod, entries))
        if not waiting:
            return "", []
        # Of several that are equally old it takes the last one of its list if that is among them, else the first one.
        _, pod, entries = min((waiting[-1], *waiting), key=lambda found: found[0])
        found = next((index for index, cards in enumerate(entries) if cards), None)
        cards = [] if found is None else entries[found]
        changes = {self._TIME: str(self._NEVER), self._PHASE: "failed"}
        if found is not None and len(cards) == number:
            left = [*entries[:found], [], *entries[found + 1 :]]
            done = {} if any(left) else {self._TIME: str(self._NEVER), self._PHASE: "success"}
            changes = {self._LEFT: ";".join("".join(f"{card}:" for card in entry) for entry in left), **done}
        await self._client.merge(_path(pod), {"metadata": {"annotations": changes}})
        return pod["metadata"]["uid"], cards

    def _time_of(self, notes: Mapping[str, str]) -> int:
        """Return the time by which pods are ordered; one that is missing or unreadable is the last."""
        text = notes.get(self._TIME, "")
        return int(text) if text.isdecimal() and int(text) <= self._NEVER else self._NEVER


class Koordlet(Ecosystem):
    """Koordinator's agent: it lists devices in an object beside the node and reads the allocations of pods."""

    DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    _CORE, _MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"
    _RATIO = "koordinator.sh/gpu-memory-ratio"
    _NAMES = (_CORE, _MEMORY, _RATIO)

    async def register(self, name: str, cards: int = 2, memory: int = 16) -> None:
        """Create a ready node with cards of so many GiB, not listed yet."""
        size = memory * 2**30
        self._totals[name] = {f"{minor}/GPU-{name}-{minor}": (_WHOLE, size, _WHOLE) for minor in range(cards)}
        amounts = {self._CORE: f"{cards}00", self._MEMORY: f"{cards * memory}Gi", self._RATIO: f"{cards}00"}
        await self._register(name, {}, amounts)

    async def list_devices(self, name: str) -> None:
        """Create the object that lists the cards of a node."""
        listed = []
        for device, total in self._totals[name].items():
            minor, _, uuid = device.partition("/")
            amounts = {resource: str(amount) for resource, amount in zip(self._NAMES, total, strict=True)}
            listed.append({"type": "gpu", "minor": int(minor), "id": uuid, "health": True, "resources": amounts})
        await self._client.request(
            "POST",
            self.DEVICES,
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Device",
                "metadata": {"name": name},
                "spec": {"devices": listed},
            },
        )

    async def _allocate(self, pod: Object) -> str:
        if not any(
            name in ((container.get("resources") or {}).get("requests") or {})
            for container in pod["spec"]["containers"]
            for name in self._NAMES
        ):
            return ""
        value = (pod["metadata"].get("annotations") or {}).get("scheduling.koordinator.sh/device-allocated")
        if value is None:
            return "there is no allocation to be read"
        devices = {
            f"{card['minor']}/{card['id']}": tuple(int(parse(card["resources"][name])) for name in self._NAMES)
            for card in json.loads(value).get("gpu", [])
        }
        return self._book(pod, devices) if devices else "the allocation has no GPU"


def _sum(amounts: list[_Amounts]) -> _Amounts:
    return tuple(sum(column) for column in zip(*amounts, strict=True))


def _cards(entry: str) -> list[str]:
    return [card for card in entry.split(":") if "," in card]


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

"""The device plugin's part of the node side: find the pod, hand its cards out, report, unlock.

What a scheduler must never get wrong is checked on the way. The fallback of HAMi's plugin without a lock (guessing by
bind time) is not played: a device pod that arrives without the lock is a violation. Preferred allocation is not played
either.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from . import allocation
from .allocation import Amount, Container, devices
from .makers import NVIDIA, Find, Maker
from .migs import check_instances, physical
from .nodeclient import NodeClient, RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cards import Card

Object = dict[str, Any]

BEHAVIOUR = "nodeside/behaviour"  # annotation on a pod: "fail", "never" or "slow=<seconds>"
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the node side treats a pod.

    Attributes
    ----------
    delay
        Seconds until Allocate answers; ``None`` is the default of the node side.
    fail
        Allocate fails: ``bind-phase`` failed, the lock released, the pod Failed.
    never
        Allocate never answers.
    quiet
        The release of the lock is all that is written: for benchmarks, where the node side's writes would be measured.
    """

    delay: float | None = None
    fail: bool = False
    never: bool = False
    quiet: bool = False

    @classmethod
    def parse(cls, text: str) -> Behaviour:
        """Read the annotation."""
        word, _, value = text.partition("=")
        return cls(delay=float(value) if word == "slow" else None, fail=word == "fail", never=word == "never")


@dataclass(slots=True)
class GpuNode:
    """One node as its plugin sees it: its cards, what of them is handed out, and the values of the node locks."""

    cards: dict[str, Card]
    maker: Maker = NVIDIA
    mutex: asyncio.Lock = field(default_factory=asyncio.Lock)
    lock: str = ""
    used: dict[str, Amount] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)


class AllocateError(Exception):
    """Allocate failed; the text ends up in the pod's status."""


class DevicePlugin:
    """The plugins of all nodes."""

    def __init__(self, client: NodeClient, delay: float) -> None:
        self.nodes: dict[str, GpuNode] = {}
        self.violations: list[str] = []
        self._client = client
        self._delay = delay
        self._charged: dict[str, tuple[str, dict[str, Amount]]] = {}  # by pod UID: its node and what it holds

    async def allocate(self, pod: Object, asking: list[Container], behaviour: Behaviour) -> None:
        """Serve a pod's Allocate calls, one per container; pods of one node wait for each other.

        Raises
        ------
        AllocateError
            The kubelet is told no.
        """
        node = self.nodes[pod["spec"]["nodeName"]]
        async with node.mutex:
            lock = await self._find(pod, node, asking)
            await asyncio.sleep(self._delay if behaviour.delay is None else behaviour.delay)
            try:
                if behaviour.fail:
                    _refuse("the node side was asked to fail")
                await self._hand_out(pod, node, asking, behaviour)
            except AllocateError:
                await self._annotate(pod, {allocation.PHASE: "failed"})
                await self._unlock(pod, node, lock)
                raise
            node.served.add(pod["metadata"]["uid"])
            if not behaviour.quiet:
                await self._report(pod, node.maker)
            await self._unlock(pod, node, lock)

    async def _report(self, pod: Object, maker: Maker) -> None:
        if maker.find is Find.FLAG:
            await self._annotate(pod, {maker.flag: "true"})
        elif maker.find is not Find.OLDEST:
            await self._annotate(pod, {allocation.PHASE: "success"})

    async def _hand_out(self, pod: Object, node: GpuNode, asking: list[Container], behaviour: Behaviour) -> None:
        annotations = pod["metadata"].get("annotations") or {}
        maker = node.maker
        self._check_assignment(pod, maker, annotations)
        value = annotations[maker.to_allocate or maker.allocated]
        for container in asking:
            entry, value = allocation.blank_first(value)
            self._check_entry(pod, node, container, entry)
            if maker.to_allocate and not behaviour.quiet:
                await self._annotate(pod, {maker.to_allocate: value})
        await self._make_instances(pod, node)
        self.charge(pod)

    async def _make_instances(self, pod: Object, node: GpuNode) -> None:
        """Make the MIG instances of a pod, and note them on it as the plugin does: only if nobody touched the pod."""
        problems, noted = check_instances(pod, node.maker, node.cards)
        for problem in problems:
            self._violation(pod, problem)
        if problems:
            raise AllocateError(problems[0])
        if noted:
            current = await self._client.request("GET", pod_path(pod))
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            await self._client.merge(pod_path(pod), {"metadata": {**version, "annotations": noted}})

    async def _find(self, pod: Object, node: GpuNode, asking: list[Container]) -> str:
        """Return the lock that has to be released for this pod.

        Raises
        ------
        AllocateError
            The plugin would take another pod's devices.
        """
        if node.maker.find is Find.LOCK:
            return await self._find_by_lock(pod, node, asking)
        listed = await self._client.request("GET", "/api/v1/pods", query=f"?fieldSelector=spec.nodeName={_node(pod)}")
        found = self._candidates(node, [one for one in listed["items"] if one["status"].get("phase") not in _TERMINAL])
        if not found or pod_name(found[0]) != pod_name(pod):
            self._violation(pod, f"the plugin takes {[pod_name(one) for one in found]}")
            raise AllocateError("the plugin finds another pod")
        await self._read_lock(pod, node)
        if node.maker.find is Find.FLAG and not node.lock:
            self._violation(pod, "bound without the node lock")
        return "" if node.maker.find is Find.OLDEST else node.lock

    def _candidates(self, node: GpuNode, pods: list[Object]) -> list[Object]:
        """Return the pods that a plugin without a name to go by may take, the one it takes first."""
        maker = node.maker
        noted = [(one, one["metadata"].get("annotations") or {}) for one in pods]
        if maker.find is Find.SCAN:
            return [one for one, notes in noted if notes.get(allocation.PHASE) == "allocating"]
        if maker.find is Find.FLAG:
            return [one for one, notes in noted if notes.get(maker.flag) == "false"]
        waiting = [
            (int(notes[maker.time]), one)
            for one, notes in noted
            if maker.time in notes and one["metadata"]["uid"] not in node.served and one["status"]["phase"] == "Pending"
        ]
        return [one for _, one in sorted(waiting, key=lambda pair: pair[0])]

    async def _find_by_lock(self, pod: Object, node: GpuNode, asking: list[Container]) -> str:
        if _owner(node.lock) != pod_name(pod):
            await self._read_lock(pod, node)
        owner = _owner(node.lock)
        if owner == pod_name(pod):
            return node.lock
        if owner:
            self._violation(pod, f"the node lock leads to {owner}")
            raise AllocateError("the lock belongs to another pod")
        if any(not container.init for container in asking):
            self._violation(pod, f"bound without the node lock (found {node.lock!r})")
        return ""

    async def _read_lock(self, pod: Object, node: GpuNode) -> None:
        try:
            current = await self._client.request("GET", f"/api/v1/nodes/{_node(pod)}")
        except RequestError as error:
            raise AllocateError(f"the node cannot be read: {error}") from error
        node.lock = (current["metadata"].get("annotations") or {}).get(node.maker.lock, "")

    def _check_assignment(self, pod: Object, maker: Maker, annotations: Mapping[str, str]) -> None:
        key = maker.to_allocate or maker.allocated
        if annotations.get(key) is None:
            self._violation(pod, "bound without devices to allocate")
            raise AllocateError("no devices to allocate")
        if annotations.get(allocation.PHASE) != "allocating":
            self._violation(pod, f"bind-phase is {annotations.get(allocation.PHASE)!r}")
        if annotations.get(maker.allocated) != annotations[key]:
            self._violation(pod, "devices-allocated and devices-to-allocate differ")
        if annotations.get(allocation.NODE) != _node(pod):
            self._violation(pod, f"vgpu-node is {annotations.get(allocation.NODE)!r}")
        missing = [name for name in maker.told if not annotations.get(name)]
        if missing:
            self._violation(pod, f"annotations are missing: {', '.join(missing)}")
        expected, found = len(allocation.containers(pod, maker)), annotations[key].count(";")
        if found != expected:
            self._violation(pod, f"{found} entries for {expected} containers")

    def _check_entry(self, pod: Object, node: GpuNode, container: Container, entry: str) -> None:
        try:
            found = devices(entry)
        except ValueError as error:
            self._violation(pod, str(error))
            raise AllocateError(str(error)) from error
        if len(found) != container.cards:
            self._violation(pod, f"container {container.name} asks for {container.cards} cards and gets {len(found)}")
            raise AllocateError("device number not matched")
        for name, _ in found:
            uuid = physical(name)
            if uuid not in node.cards:
                self._violation(pod, f"unknown card {uuid}")
                raise AllocateError(f"unknown device {uuid}")
            if not node.cards[uuid].healthy:
                self._violation(pod, f"unhealthy card {uuid}")

    def charge(self, pod: Object) -> None:
        """Count what a pod holds, and look whether a card has more handed out than it has."""
        uid, name = pod["metadata"]["uid"], _node(pod)
        node = self.nodes[name]
        held = allocation.usage(pod, node.maker)
        self.release(uid)
        self._charged[uid] = (name, held)
        for uuid, amount in held.items():
            used = node.used[uuid] = node.used.get(uuid, Amount()) + amount
            card = node.cards.get(uuid)
            if card is None or card.mode == "mig":  # of these the instances are counted
                continue
            for what, have, limit in (
                ("slots", used.slots, card.count),
                ("memory", used.memory, card.memory),
                ("cores", used.cores, card.cores),
            ):
                if have > limit:
                    self._violation(pod, f"card {uuid} has {have} of {limit} {what} handed out")

    def release(self, uid: str) -> None:
        """Take back what a pod held."""
        name, held = self._charged.pop(uid, ("", {}))
        for uuid, amount in held.items():
            self.nodes[name].used[uuid] -= amount

    def forget(self) -> None:
        """Forget what all pods hold."""
        self._charged.clear()
        for node in self.nodes.values():
            node.used.clear()

    async def _annotate(self, pod: Object, annotations: Mapping[str, str]) -> None:
        await self._client.merge(pod_path(pod), {"metadata": {"annotations": dict(annotations)}})

    async def _unlock(self, pod: Object, node: GpuNode, lock: str) -> None:
        if not lock:
            return
        path = f"/api/v1/nodes/{_node(pod)}"
        if node.maker.find is not Find.LOCK:  # these plugins do not look whose it is
            await self._client.merge(path, {"metadata": {"annotations": {node.maker.lock: None}}})
            return
        pointer = "/metadata/annotations/" + node.maker.lock.replace("/", "~1")
        operations = [{"op": "test", "path": pointer, "value": lock}, {"op": "remove", "path": pointer}]
        try:
            await self._client.json_patch(path, operations)
        except RequestError as error:
            self._violation(pod, f"the node lock was taken away before Allocate was done ({error.code})")

    def _violation(self, pod: Object, text: str) -> None:
        self.violations.append(f"{pod_name(pod)} on {_node(pod)}: {text}")


def _node(pod: Object) -> str:
    return str(pod["spec"]["nodeName"])


def pod_path(pod: Object) -> str:
    """Return a pod's path on the API server."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def pod_name(pod: Object) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _owner(lock: str) -> str:
    """Return ``namespace/name`` of a lock's owner, empty for no lock, a bare timestamp or a malformed value."""
    parts = lock.split(",")
    return f"{parts[1]}/{parts[2]}" if len(parts) == 3 else ""


def _refuse(message: str) -> NoReturn:
    raise AllocateError(message)

"""The device plugins' part of the node side: finds the pod, hands out its cards, reports, and unlocks the node.

It also checks what a scheduler must never get wrong. HAMi's plugin without a lock falls back to guessing by bind time;
that is simulated only if another vendor's plugin has released the lock of a pod that asks for cards of both. Otherwise
a pod with devices that arrives without the lock is a violation. Preferred allocation is not simulated.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from . import allocation
from .allocation import Container, devices
from .books import Books, GpuNode, Rack
from .finding import AllocateError, Finder, pod_name
from .migs import check_instances, physical
from .nodeclient import NodeClient, RequestError
from .vendors import Find, Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

BEHAVIOUR = "nodeside/behaviour"  # annotation on a pod: "fail", "never", "held" or "slow=<seconds>"

_LINGERS = 0.3


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the node side treats a pod.

    Attributes
    ----------
    delay
        Seconds until an Allocate answers; None for the node side's default.
    fail
        Allocate fails: ``bind-phase`` failed, the lock released, the pod Failed.
    never
        Allocate never answers.
    held
        Allocate waits for :meth:`NodeSide.let_go`, then delays the release of the lock, which nobody may take over.
    quiet
        Only the lock is released, and nothing else written: for benchmarks, which the node side's writes would distort.
    """

    delay: float | None = None
    fail: bool = False
    never: bool = False
    held: bool = False
    quiet: bool = False

    @classmethod
    def parse(cls, text: str) -> Behaviour:
        """Read the annotation."""
        word, _, value = text.partition("=")
        delay = float(value) if word == "slow" else None
        return cls(delay, fail=word == "fail", never=word == "never", held=word == "held")


class DevicePlugin:
    """The plugins of all nodes."""

    def __init__(self, client: NodeClient, delay: float) -> None:
        self.books = Books()
        self.nodes = self.books.nodes
        self.violations: list[str] = []
        self.gate = asyncio.Event()
        self.held: set[str] = set()
        self._client = client
        self._delay = delay
        self._finder = Finder(client, self._violation)

    async def allocate(self, pod: Object, behaviour: Behaviour) -> None:
        """Serve a pod's Allocate calls, one plugin after the other; the pods of a node are served in turn.

        Raises
        ------
        AllocateError
            If an Allocate fails.
        """
        node = self.nodes[pod["spec"]["nodeName"]]
        async with node.mutex:
            try:
                for rack in node.asked(pod):
                    await self._serve(pod, node, rack, behaviour)
            except AllocateError:
                self.books.release(pod["metadata"]["uid"])
                raise

    async def _serve(self, pod: Object, node: GpuNode, rack: Rack, behaviour: Behaviour) -> None:
        lock = await self._finder.find(pod, node, rack)
        if behaviour.held:
            self.held.add(pod_name(pod))
            await self.gate.wait()
        await asyncio.sleep(self._delay if behaviour.delay is None else behaviour.delay)
        try:
            if behaviour.fail:
                _refuse("the node side was asked to fail")
            await self._finder.look_again(pod, node, rack, lock)
            await self._hand_out(pod, node, rack, behaviour)
        except AllocateError:
            await self._annotate(pod, {allocation.PHASE: "failed"})
            await self._unlock(pod, rack.vendor, lock)
            raise
        rack.served.add(pod["metadata"]["uid"])
        if not behaviour.quiet:
            await self._report(pod, rack.vendor)
        if behaviour.held:
            await asyncio.sleep(_LINGERS)
        await self._unlock(pod, rack.vendor, lock)

    async def _report(self, pod: Object, vendor: Vendor) -> None:
        if vendor.find is Find.FLAG:
            await self._annotate(pod, {vendor.flag: "true"})
        elif vendor.find is not Find.OLDEST:
            await self._annotate(pod, {allocation.PHASE: "success"})

    async def _hand_out(self, pod: Object, node: GpuNode, rack: Rack, behaviour: Behaviour) -> None:
        annotations = pod["metadata"].get("annotations") or {}
        vendor = rack.vendor
        asking = [container for container in allocation.containers(pod, vendor) if container.cards]
        self._check_assignment(pod, vendor, annotations)
        value = annotations[vendor.to_allocate or vendor.allocated]
        left = []
        for container in asking:
            entry, value = allocation.blank_first(value)
            self._check_entry(pod, rack, container, entry)
            left.append(value)
        if vendor.cuts:
            await self._make_instances(pod, rack)
        if rack is node.asked(pod)[0]:  # charge all that it holds, of every vendor, once
            self.charge(pod)
        for value in left if vendor.to_allocate and not behaviour.quiet else ():
            await self._annotate(pod, {vendor.to_allocate: value})

    async def _make_instances(self, pod: Object, rack: Rack) -> None:
        """Create the MIG instances of a pod, and note them on the pod unless it was written meanwhile."""
        problems, noted = check_instances(pod, rack.vendor, rack.cards)
        for problem in problems:
            self._violation(pod, problem)
        if problems:
            raise AllocateError(problems[0])
        if noted:
            current = await self._client.request("GET", pod_path(pod))
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            await self._client.merge(pod_path(pod), {"metadata": {**version, "annotations": noted}})

    def _check_assignment(self, pod: Object, vendor: Vendor, annotations: Mapping[str, str]) -> None:
        key = vendor.to_allocate or vendor.allocated
        if annotations.get(key) is None:
            self._violation(pod, "bound without devices to allocate")
            raise AllocateError("no devices to allocate")
        if annotations.get(allocation.PHASE) != "allocating":
            self._violation(pod, f"bind-phase is {annotations.get(allocation.PHASE)!r}")
        if annotations.get(vendor.allocated) != annotations[key]:
            self._violation(pod, "devices-allocated and devices-to-allocate differ")
        if annotations.get(allocation.NODE) != _node(pod):
            self._violation(pod, f"vgpu-node is {annotations.get(allocation.NODE)!r}")
        missing = [name for name in vendor.told if not annotations.get(name)]
        if missing:
            self._violation(pod, f"annotations are missing: {', '.join(missing)}")
        expected, found = len(allocation.containers(pod, vendor)), annotations[key].count(";")
        if found != expected:
            self._violation(pod, f"{found} entries for {expected} containers")

    def _check_entry(self, pod: Object, rack: Rack, container: Container, entry: str) -> None:
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
            if uuid not in rack.cards:
                self._violation(pod, f"unknown card {uuid}")
                raise AllocateError(f"unknown device {uuid}")
            if not rack.cards[uuid].healthy:
                self._violation(pod, f"unhealthy card {uuid}")

    def charge(self, pod: Object) -> None:
        """Count what a pod holds, and report overcommitted cards."""
        for problem in self.books.charge(pod):
            self._violation(pod, problem)

    async def _annotate(self, pod: Object, annotations: Mapping[str, str]) -> None:
        await self._client.merge(pod_path(pod), {"metadata": {"annotations": dict(annotations)}})

    async def _unlock(self, pod: Object, vendor: Vendor, lock: str) -> None:
        if not lock:
            return
        path = f"/api/v1/nodes/{_node(pod)}"
        if vendor.find is not Find.LOCK:  # these plugins do not check who owns the lock
            await self._client.merge(path, {"metadata": {"annotations": {vendor.lock: None}}})
            return
        pointer = "/metadata/annotations/" + vendor.lock.replace("/", "~1")
        operations = [{"op": "test", "path": pointer, "value": lock}, {"op": "remove", "path": pointer}]
        with contextlib.suppress(RequestError):  # if nothing was left to hand out, another pod may have the lock now
            await self._client.json_patch(path, operations)

    def _violation(self, pod: Object, text: str) -> None:
        self.violations.append(f"{pod_name(pod)} on {_node(pod)}: {text}")


def _node(pod: Object) -> str:
    return str(pod["spec"]["nodeName"])


def pod_path(pod: Object) -> str:
    """Return a pod's path on the API server."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _refuse(message: str) -> NoReturn:
    raise AllocateError(message)

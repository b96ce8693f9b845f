"""How a plugin finds the pod whose container the kubelet starts: the kubelet tells it a number of devices, no pod.

A scheduler that binds pods of such plugins one at a time leaves a plugin no choice. If a plugin has a choice, that is a
mistake of the scheduler, whether the plugin happens to choose correctly or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import allocation
from .nodeclient import NodeClient, RequestError
from .vendors import Find

if TYPE_CHECKING:
    from collections.abc import Callable

    from .books import GpuNode, Rack

Object = dict[str, Any]

_TERMINAL = ("Succeeded", "Failed")
_BIND_TIME = "hami.io/bind-time"


class AllocateError(Exception):
    """Allocate failed; the text ends up in the pod's status."""


class Finder:
    """Finds pods as plugins do.

    Parameters
    ----------
    violation
        Called with a pod and the scheduler's mistake about it.
    """

    def __init__(self, client: NodeClient, violation: Callable[[Object, str], None]) -> None:
        self._client = client
        self._violation = violation

    async def find(self, pod: Object, node: GpuNode, rack: Rack) -> str:
        """Return the value of the lock that must be released for a pod.

        Raises
        ------
        AllocateError
            If the plugin would take another pod's devices, or finds no pod.
        """
        vendor = rack.vendor
        if vendor.find is Find.LOCK:
            return await self._by_lock(pod, node, rack)
        await self._look(pod, node, rack)
        if not vendor.lock or vendor.find is Find.OLDEST:
            return ""
        lock = await self._read_lock(pod, node, vendor.lock)
        if vendor.find is Find.FLAG and not lock:
            self._violation(pod, "bound without the node lock")
        return lock

    async def look_again(self, pod: Object, node: GpuNode, rack: Rack, lock: str) -> None:
        """Check again before devices are handed out: no other candidate may have come, and the lock must remain.

        Raises
        ------
        AllocateError
            If the plugin would take another pod's devices.
        """
        if rack.vendor.find is not Find.LOCK:
            await self._look(pod, node, rack)
            return
        key = rack.vendor.lock
        if not lock and _served(pod, node):
            await self._by_lock(pod, node, rack)
        elif lock and node.locks.get(key) != lock and await self._read_lock(pod, node, key) != lock:
            self._violation(pod, "the node lock was taken away before Allocate was done")

    async def _look(self, pod: Object, node: GpuNode, rack: Rack) -> None:
        await self._choose(pod, node, _candidates(rack, await self._others(pod)))

    async def _by_lock(self, pod: Object, node: GpuNode, rack: Rack) -> str:
        key = rack.vendor.lock
        if owner_of(node.locks.get(key, "")) != pod_name(pod) or _served(pod, node):  # the lock may be released by now
            await self._read_lock(pod, node, key)
        lock = node.locks.get(key, "")
        owner = owner_of(lock)
        if owner == pod_name(pod):
            return lock
        if owner:
            self._violation(pod, f"the node lock leads to {owner}")
            raise AllocateError("the lock belongs to another pod")
        if _served(pod, node):  # another vendor's plugin has released the lock, so this plugin guesses
            await self._choose(pod, node, _pending(pod, await self._others(pod)))
        elif any(one.cards and not one.init for one in allocation.containers(pod, rack.vendor)):
            self._violation(pod, f"bound without the node lock (found {lock!r})")
        return ""

    async def _choose(self, pod: Object, node: GpuNode, found: list[Object]) -> None:
        names = [pod_name(one) for one in found]
        if not names and _served(pod, node):
            raise AllocateError("another vendor's plugin has ended the allocation")  # not the scheduler's mistake
        if names != [pod_name(pod)]:
            self._violation(pod, f"the plugin may take any of {names}" if len(names) > 1 else f"it takes {names}")
        if not names or names[0] != pod_name(pod):
            raise AllocateError("the plugin finds another pod")

    async def _others(self, pod: Object) -> list[Object]:
        """Return the pods of the node that have not ended, including the given one."""
        query = f"?fieldSelector=spec.nodeName={pod['spec']['nodeName']}"
        listed = await self._client.request("GET", "/api/v1/pods", query=query)
        return [one for one in listed["items"] if one["status"].get("phase") not in _TERMINAL]

    async def _read_lock(self, pod: Object, node: GpuNode, key: str) -> str:
        try:
            current = await self._client.request("GET", f"/api/v1/nodes/{pod['spec']['nodeName']}")
        except RequestError as error:
            raise AllocateError(f"the node cannot be read: {error}") from error
        node.follow(current["metadata"].get("annotations") or {})
        return node.locks.get(key, "")


def _served(pod: Object, node: GpuNode) -> bool:
    return any(pod["metadata"]["uid"] in rack.served for rack in node.racks)


def _candidates(rack: Rack, pods: list[Object]) -> list[Object]:
    """Return the pods that a plugin may take if no lock names one, starting with the one that it takes."""
    vendor = rack.vendor
    noted = [(one["metadata"].get("annotations") or {}, one) for one in pods]
    if vendor.find is Find.SCAN:
        return [one for notes, one in noted if notes.get(allocation.PHASE) == "allocating"]
    if vendor.find is Find.FLAG:
        waiting = [(notes, one) for notes, one in noted if notes.get(vendor.flag) == "false"]
    else:
        waiting = [
            (notes, one)
            for notes, one in noted
            if vendor.time in notes
            and one["metadata"]["uid"] not in rack.served
            and one["status"].get("phase") == "Pending"
        ]
    return [one for _, one in sorted(waiting, key=lambda found: int(found[0].get(vendor.time, 0)))]


def _pending(pod: Object, pods: list[Object]) -> list[Object]:
    """Return the pods that HAMi's own plugin may take on a node without a lock."""
    noted = [(one["metadata"].get("annotations") or {}, one) for one in pods]
    return [
        one
        for notes, one in noted
        if one["status"].get("phase") == "Pending"
        and notes.get(_BIND_TIME)
        and notes.get(allocation.PHASE) in ("allocating", "success")
        and notes.get(allocation.NODE) == pod["spec"]["nodeName"]
    ]


def pod_name(pod: Object) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def owner_of(lock: str) -> str:
    """Return ``namespace/name`` of a lock's owner, empty for no lock, a bare timestamp or a malformed value."""
    parts = lock.split(",")
    return f"{parts[1]}/{parts[2]}" if len(parts) == 3 else ""

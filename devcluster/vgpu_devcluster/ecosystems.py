"""Shared parts of the test doubles for the node sides of Volcano and Koordinator, with the kubelet around them.

Each registers nodes, starts the pods bound to them, and hands out devices as its ecosystem does. Mistakes that a
scheduler must never make are collected in :attr:`Ecosystem.violations`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from .finding import AllocateError
from .kubelet import CAPACITY, pod_status, ready, running
from .nodeclient import NodeClient, RequestError
from .plugin import BEHAVIOUR

if TYPE_CHECKING:
    import ssl

Object = dict[str, Any]
Amounts = tuple[int, ...]

NONE: Mapping[str, str] = MappingProxyType({})
WHOLE = 100
"""All of a card, in percent."""
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
        Seconds between the kubelet's call and the plugin's action.

    Attributes
    ----------
    violations
        The scheduler's mistakes, in words.
    started
        ``namespace/name`` of the pods that run, in order.
    """

    def __init__(self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None, delay: float = 0.02) -> None:
        self.violations: list[str] = []
        self.started: list[str] = []
        self._client = NodeClient(url, token=token, tls=tls)
        self._delay = delay
        self._totals: dict[str, dict[str, Amounts]] = {}
        self._held: dict[str, dict[str, dict[str, Amounts]]] = {}
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

    async def _register(
        self, name: str, annotations: Mapping[str, str], amounts: Mapping[str, str], labels: Mapping[str, str] = NONE
    ) -> None:
        """Create a ready node."""
        self._held[name], self._calls[name] = {}, asyncio.Lock()
        metadata = {"name": name, "annotations": dict(annotations), "labels": dict(labels)}
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
        """Start a pod as the kubelet does: pods of a node in turn, devices first."""
        metadata = pod["metadata"]
        path, key = path_of(pod), f"{metadata['namespace']}/{metadata['name']}"
        try:
            async with self._calls[pod["spec"]["nodeName"]]:
                await asyncio.sleep(self._delay)
                if (metadata.get("annotations") or {}).get(BEHAVIOUR) == "reject":
                    await self._client.strategic(f"{path}/status", {"status": _REJECTED})
                    return
                self.violations += [f"{key}: {problem}" for problem in await self._allocate(pod)]
            await self._client.strategic(f"{path}/status", {"status": pod_status(pod, "Running", running())})
            self.started.append(key)
        except AllocateError as error:
            self.violations.append(f"{key}: {error}")
            failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(error)}
            await self._client.strategic(f"{path}/status", {"status": failed})
        except RequestError as error:
            if error.code != 404:  # it was deleted meanwhile
                self.violations.append(f"{key}: {error}")

    @abstractmethod
    async def _allocate(self, pod: Object) -> list[str]:
        """Hand out the devices of a pod that is about to run; return problems with them.

        Raises
        ------
        AllocateError
            If the pod must not run, which is a problem, too.
        """

    def handed_out(self, node: str) -> dict[str, Amounts]:
        """Return what the pods of a node hold of each device."""
        held = [devices for devices in self._held[node].values() if devices]
        names = sorted({name for devices in held for name in devices})
        return {name: sums([devices[name] for devices in held if name in devices]) for name in names}

    def _book(self, pod: Object, devices: Mapping[str, Amounts]) -> list[str]:
        """Book devices for a pod; return problems with them."""
        node = pod["spec"]["nodeName"]
        totals, held = self._totals[node], self._held[node]
        held[pod["metadata"]["uid"]] = dict(devices)
        for name in devices:
            if name not in totals:
                return [f"device {name} is not one of node {node}"]
            used = sums([d[name] for d in held.values() if name in d])
            if any(part > total for part, total in zip(used, totals[name], strict=True)):
                return [f"device {name} has {list(used)} of {list(totals[name])} handed out"]
        return []


def sums(amounts: list[Amounts]) -> Amounts:
    """Add up amounts by dimension."""
    return tuple(sum(column) for column in zip(*amounts, strict=True))


def path_of(pod: Object) -> str:
    """Return the path of a pod on the API server."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

"""A test double of koordlet, Koordinator's agent on the nodes, and of what koord-manager says of them.

Function by function they do what ``docs/node-sides.md`` cites; :func:`injected` is compared with koordlet's own code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from .ecosystems import NONE, WHOLE, Amounts, Ecosystem, Object, sums
from .quantities import canonical, parse

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
PROVIDER = "koordinator.sh/gpu-isolation-provider"
_CORE, _MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"
_RATIO = "koordinator.sh/gpu-memory-ratio"
_NAMES = (_CORE, _MEMORY, _RATIO)
_GPUS = "koordinator.sh/gpu"
_LABELS = {"node.koordinator.sh/gpu-vendor": "nvidia", "node.koordinator.sh/gpu-model": "NVIDIA-A10"}
_LIBRARY, _LOCKS = "/usr/local/vgpu/libvgpu.so", "/tmp/vgpulock"  # noqa: S108, a name on nodes
_VISIBLE, _MEMORY_LIMIT, _CORE_LIMIT = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"
_INT32 = 2**31


@dataclass(frozen=True)
class Injection:
    """What each container of a pod gets, whether it asks for a device or not.

    Attributes
    ----------
    env
        Variables of its environment.
    mounts
        Paths of the node, which are mounted where they are.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()


def injected(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Injection:
    """Return what koordlet gives the containers of a pod by what is written on it.

    What it cannot read it leaves out, and the container starts without it. The limits are those of the first GPU, for
    all of them, and there are none where that one is taken with all of its memory.
    """
    try:
        gpus = _allocated(annotations.get(ALLOCATED, "{}"))
    except (ValueError, TypeError, AttributeError):
        return Injection()
    if not gpus:
        return Injection()
    env = {_VISIBLE: ",".join(str(minor) for minor, _ in gpus)}
    amounts = gpus[0][1]
    if labels.get(PROVIDER) != "HAMi-core" or amounts.get(_RATIO, WHOLE) >= WHOLE or _MEMORY not in amounts:
        return Injection(env)
    env[_MEMORY_LIMIT] = str(amounts[_MEMORY])
    if _CORE in amounts:
        env[_CORE_LIMIT] = str(amounts[_CORE])
    return Injection({**env, "LD_PRELOAD": _LIBRARY}, (_LIBRARY, _LOCKS))


def _allocated(text: str) -> list[tuple[int, dict[str, int]]]:
    """Return the minors and amounts of GPUs as koordlet reads them: an error anywhere is one of all of them.

    Raises
    ------
    ValueError, TypeError, AttributeError
        If anything is not what it should be.
    """
    found: dict[str, list[tuple[int, dict[str, int]]]] = {}
    for kind, entries in (json.loads(text) or {}).items():
        found[kind] = []
        for entry in entries or ():
            minor = entry.get("minor", 0)
            if type(minor) is not int or not -_INT32 <= minor < _INT32:
                raise ValueError(f"{minor} is no minor")
            if not isinstance(entry.get("id", ""), str):
                raise TypeError("an id that is none")
            amounts = entry.get("resources") or {}
            found[kind].append((minor, {name: ceil(parse(str(amount))) for name, amount in amounts.items()}))
    return found.get("gpu", [])


class Koordlet(Ecosystem):
    """koordlet, which lists devices in an object beside the node and reads the allocations of the pods that it starts.

    It keeps no pod from running. What it notices is what its user would find: a pod that asks for GPUs and sees none,
    one that sees another GPU than the allocation says or may take more of it, and GPUs given out twice.
    """

    DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"

    async def register(self, name: str, cards: int = 2, memory: int = 16, labels: Mapping[str, str] = NONE) -> None:
        """Create a ready node with cards of so many GiB, not listed yet: so it offers none."""
        size = memory * 2**30
        self._totals[name] = {f"{minor}/GPU-{name}-{minor}": (WHOLE, size, WHOLE) for minor in range(cards)}
        await self._register(name, {}, {}, {**_LABELS, **labels})

    async def list_devices(self, name: str) -> None:
        """Create the object that lists the cards of a node, and have the node offer them."""
        uid = (await self._client.request("GET", f"/api/v1/nodes/{name}"))["metadata"]["uid"]
        listed = device_object(name, self._totals[name], uid)
        await self._client.request("POST", self.DEVICES, listed)
        amounts = dict(zip(_NAMES, sums(list(self._totals[name].values())), strict=True))
        offered = {resource: str(amount) for resource, amount in {**amounts, _GPUS: amounts[_CORE]}.items()}
        status = {"capacity": offered, "allocatable": offered}
        await self._client.strategic(f"/api/v1/nodes/{name}/status", {"status": status})

    async def _allocate(self, pod: Object) -> list[str]:
        metadata, spec = pod["metadata"], pod["spec"]
        annotations = metadata.get("annotations") or {}
        given = injected(metadata.get("labels") or {}, annotations)
        asked = any(
            name in ((container.get("resources") or {}).get("requests") or {})
            for container in spec["containers"]
            for name in (*_NAMES, _GPUS)
        )
        if _VISIBLE not in given.env:
            if not asked:
                return []
            return [
                "no GPU can be read of the allocation"
                if ALLOCATED in annotations
                else "there is no allocation to be read"
            ]
        listed = [
            (f"{card['minor']}/{card['id']}", card["resources"]) for card in json.loads(annotations[ALLOCATED])["gpu"]
        ]
        devices: dict[str, Amounts] = {}
        problems = []
        for name, resources in listed:
            amounts = tuple(ceil(parse(resources.get(resource, "0"))) for resource in _NAMES)
            devices[name] = sums([devices.get(name, (0, 0, 0)), amounts])
            limits = [(limit, given.env[limit]) for limit in (_CORE_LIMIT, _MEMORY_LIMIT) if limit in given.env]
            problems += [
                f"device {name} is limited by {limit} to {text} instead of {amount}"
                for (limit, text), amount in zip(limits, amounts[-1 - len(limits) : -1], strict=True)
                if text != str(amount)
            ]
        return [*problems, *self._book(pod, devices)]


def device_object(name: str, cards: Mapping[str, Amounts], uid: str = "") -> Object:
    """Return the object in which koordlet lists the cards of a node.

    Parameters
    ----------
    cards
        What each has of compute, bytes and percent of memory, by minor and id.
    uid
        The node's.
    """
    listed: list[dict[str, Any]] = []
    for device, (cores, memory, ratio) in cards.items():
        minor, _, uuid = device.partition("/")
        amounts = {_CORE: str(cores), _MEMORY: canonical(f"{memory // 1024}Ki"), _RATIO: str(ratio)}
        place = {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:00", "busID": f"0000:{int(minor) + 1:02x}:00.0"}
        listed.append(
            {"type": "gpu", "id": uuid, "minor": int(minor), "health": True, "resources": amounts, "topology": place}
        )
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name, "labels": _LABELS, "ownerReferences": [owner]},
        "spec": {"devices": listed},
    }

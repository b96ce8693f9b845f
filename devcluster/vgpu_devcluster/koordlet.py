"""A test double of koordlet, Koordinator's node agent, and of what koord-manager reports about nodes.

The functions do what ``docs/node-sides.md`` cites; :func:`injected` is compared with koordlet's own code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

from .ecosystems import NONE, WHOLE, Amounts, Ecosystem, Object, sums
from .quantities import canonical, parse

if TYPE_CHECKING:
    import ssl

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
PROVIDER = "koordinator.sh/gpu-isolation-provider"
_CORE, _MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"
_RATIO, _SHARE = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/rdma"
_GPUS = "koordinator.sh/gpu"
_GPU, _RDMA, _FUNCTIONS = "gpu", "rdma", "rdma-vf"
_NAMES = {_GPU: (_CORE, _MEMORY, _RATIO), _RDMA: (_SHARE,)}
"""The resources of each type of device."""
_ASKING = {_GPU: (_CORE, _MEMORY, _RATIO, _GPUS), _RDMA: (_SHARE,)}
_LABELS = {"node.koordinator.sh/gpu-vendor": "nvidia", "node.koordinator.sh/gpu-model": "NVIDIA-A10"}
_LIBRARY, _LOCKS = "/usr/local/vgpu/libvgpu.so", "/tmp/vgpulock"  # noqa: S108, a name on nodes
_VISIBLE, _MEMORY_LIMIT, _CORE_LIMIT = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"
_VERBS, _MANAGER = "/dev/infiniband", "/dev/infiniband/rdma_cm"
_FIRST_BUS = 0x40
_INT32 = 2**31

_T = TypeVar("_T")


@dataclass(frozen=True)
class Injection:
    """What each container of a pod gets, whether it asks for a device or not.

    Attributes
    ----------
    env
        Environment variables.
    mounts
        Paths on the node, mounted at the same paths.
    devices
        Paths of devices on the node.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """An allocation of one device: its minor and id, the amounts, and the PCI addresses of virtual functions."""

    minor: int
    id: str
    amounts: Mapping[str, int]
    functions: tuple[str, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the devices for containers: the virtual functions, or without any the device itself."""
        return self.functions or (self.id,)


def injected(labels: Mapping[str, str], annotations: Mapping[str, str], verbs: Mapping[str, str] = NONE) -> Injection:
    """Return what koordlet gives the containers of a pod, according to its labels and annotations.

    It skips what it cannot read, and the container starts without it. The limits of the first GPU apply to all GPUs;
    there are none if the pod has all memory of the first GPU.

    Parameters
    ----------
    verbs
        The names of the node's RDMA devices and virtual functions below ``/dev/infiniband``, by PCI address.
    """
    allocated = _readable(annotations)
    given = _of_gpus(labels, allocated.get(_GPU, []))
    return replace(given, devices=_of_rdma(allocated.get(_RDMA, []), verbs))


def _of_gpus(labels: Mapping[str, str], gpus: Sequence[_Entry]) -> Injection:
    if not gpus:
        return Injection()
    env = {_VISIBLE: ",".join(str(gpu.minor) for gpu in gpus)}
    amounts = gpus[0].amounts
    if labels.get(PROVIDER) != "HAMi-core" or amounts.get(_RATIO, WHOLE) >= WHOLE or _MEMORY not in amounts:
        return Injection(env)
    env[_MEMORY_LIMIT] = str(amounts[_MEMORY])
    if _CORE in amounts:
        env[_CORE_LIMIT] = str(amounts[_CORE])
    return Injection({**env, "LD_PRELOAD": _LIBRARY}, (_LIBRARY, _LOCKS))


def _of_rdma(entries: Sequence[_Entry], verbs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the RDMA devices, up to the first one that the node does not have."""
    if not entries or not verbs:
        return ()
    known = takewhile(verbs.__contains__, chain.from_iterable(entry.addresses for entry in entries))
    return (_MANAGER, *(f"{_VERBS}/{verbs[address]}" for address in known))


def _readable(annotations: Mapping[str, str]) -> Mapping[str, list[_Entry]]:
    """Return the allocations of each type; none if they cannot be read."""
    try:
        return _allocated(annotations.get(ALLOCATED, "{}"))
    except (ValueError, TypeError, AttributeError):
        return {}


def _allocated(text: str) -> dict[str, list[_Entry]]:
    """Return the devices of each type as koordlet reads them: an error anywhere makes all of them unreadable.

    Raises
    ------
    ValueError, TypeError, AttributeError
        If any part is malformed.
    """
    return {kind: [_entry(entry) for entry in entries or ()] for kind, entries in (json.loads(text) or {}).items()}


def _entry(entry: Mapping[str, Any]) -> _Entry:
    minor = _field(entry, "minor", 0)
    if not -_INT32 <= minor < _INT32:
        raise ValueError(f"{minor} is no minor")
    nothing: dict[str, Any] = {}
    none: list[Any] = []
    functions = [each or nothing for each in _field(_field(entry, "extension", nothing), "vfs", none)]
    for each in functions:
        _field(each, "minor", 0)
    amounts = {name: ceil(parse(str(amount))) for name, amount in _field(entry, "resources", nothing).items()}
    addresses = tuple(_field(each, "busID", "") for each in functions)
    return _Entry(minor, _field(entry, "id", ""), amounts, addresses)


def _field(fields: Mapping[str, Any], name: str, missing: _T) -> _T:
    """Return a field, or ``missing`` if it is absent; its type must be that of ``missing``."""
    value = fields.get(name)
    if value is None:
        return missing
    if type(value) is not type(missing):
        raise TypeError(f"{name} is not like {missing!r}")
    return value


class Koordlet(Ecosystem):
    """koordlet, which lists a node's devices in an object of their own and reads the allocations of starting pods.

    It keeps no pod from running. It reports what the pod's user would notice: a pod that asks for devices and sees
    none, sees another GPU than allocated, may use more of it, or lacks its RDMA device; and devices and virtual
    functions that are handed out twice.

    Devices are named as in a scheduler's books: by type, minor and id.
    """

    DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"

    def __init__(self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None, delay: float = 0.02) -> None:
        super().__init__(url, token=token, tls=tls, delay=delay)
        self._verbs: dict[str, dict[str, str]] = {}

    async def register(
        self,
        name: str,
        cards: int = 2,
        memory: int = 16,
        labels: Mapping[str, str] = NONE,
        *,
        rdma: int = 0,
        functions: int = 0,
    ) -> None:
        """Create a ready node that offers nothing yet, because its devices are not listed.

        Parameters
        ----------
        cards, memory
            The number of GPUs, and the GiB of each.
        rdma, functions
            The number of RDMA devices, and of the virtual functions of each.
        """
        size = memory * 2**30
        totals: dict[str, Amounts] = {
            f"{_GPU}/{minor}/GPU-{name}-{minor}": (WHOLE, size, WHOLE) for minor in range(cards)
        }
        for minor in range(rdma):
            place = f"0000:{_FIRST_BUS + minor:x}:00"
            totals[f"{_RDMA}/{minor}/{place}.0"] = (WHOLE,)
            totals |= {f"{_FUNCTIONS}/{minor}/{place}.{number + 1}": (WHOLE,) for number in range(functions)}
        self._totals[name] = totals
        addresses = [address for kind, _, address in map(_parts, totals) if kind != _GPU]
        self._verbs[name] = {address: f"uverbs{number}" for number, address in enumerate(addresses)}
        await self._register(name, {}, {}, {**_LABELS, **labels})

    async def list_devices(self, name: str) -> None:
        """Create the object that lists the devices of a node, and make the node offer them."""
        uid = (await self._client.request("GET", f"/api/v1/nodes/{name}"))["metadata"]["uid"]
        totals = self._totals[name]
        await self._client.request("POST", self.DEVICES, device_object(name, totals, uid))
        offered: dict[str, str] = {}
        for kind, names in _NAMES.items():
            there = [amounts for device, amounts in totals.items() if _parts(device)[0] == kind]
            if there:
                offered |= {resource: str(amount) for resource, amount in zip(names, sums(there), strict=True)}
        if _CORE in offered:
            offered[_GPUS] = offered[_CORE]
        status = {"capacity": offered, "allocatable": offered}
        await self._client.strategic(f"/api/v1/nodes/{name}/status", {"status": status})

    async def _allocate(self, pod: Object) -> list[str]:
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        annotations = metadata.get("annotations") or {}
        allocated = _readable(annotations)
        given = injected(metadata.get("labels") or {}, annotations, self._verbs[node])
        without = [kind for kind in _asked(pod) if not allocated.get(kind)]
        if without and ALLOCATED not in annotations:
            return ["there is no allocation to be read"]
        problems = [f"no {kind} can be read of the allocation" for kind in without]
        devices: dict[str, Amounts] = {}
        for kind, names in _NAMES.items():
            for entry in allocated.get(kind, ()):
                device = self._device(node, kind, entry)
                amounts = tuple(entry.amounts.get(name, 0) for name in names)
                devices[device] = sums([*filter(None, [devices.get(device)]), amounts])
                functions = [f"{_FUNCTIONS}/{entry.minor}/{address}" for address in entry.functions]
                for function in functions:
                    devices[function] = sums([*filter(None, [devices.get(function)]), (WHOLE,)])
                if kind == _GPU:
                    problems += _wrong_limits(device, amounts, given.env)
                else:
                    problems += self._unseen(node, functions or [device], entry, given)
        return [*problems, *self._book(pod, devices)]

    def _device(self, node: str, kind: str, entry: _Entry) -> str:
        """Return the name of an entry's device; without an id, as before 1.6, the minor alone identifies it."""
        of_minor = f"{kind}/{entry.minor}/"
        listed = (device for device in self._totals[node] if device.startswith(of_minor))
        return of_minor + entry.id if entry.id else next(listed, of_minor)

    def _unseen(self, node: str, devices: Sequence[str], entry: _Entry, given: Injection) -> list[str]:
        """Return the RDMA devices that the containers should have but are not given, in the order of the addresses."""
        paths = (f"{_VERBS}/{self._verbs[node].get(address)}" for address in entry.addresses)
        return [
            f"it is not given {device}"
            for device, path in zip(devices, paths, strict=True)
            if path not in given.devices
        ]


def _asked(pod: Object) -> list[str]:
    """Return the types of devices that the containers of a pod ask for."""
    requests = [(container.get("resources") or {}).get("requests") or {} for container in pod["spec"]["containers"]]
    return [kind for kind, names in _ASKING.items() if any(name in each for name in names for each in requests)]


def _wrong_limits(device: str, amounts: Amounts, env: Mapping[str, str]) -> list[str]:
    """Return the limits of containers that differ from a GPU's allocation: compute, memory and its ratio."""
    return [
        f"device {device} is limited by {limit} to {env[limit]} instead of {amount}"
        for limit, amount in zip((_CORE_LIMIT, _MEMORY_LIMIT), amounts, strict=False)
        if limit in env and env[limit] != str(amount)
    ]


def _parts(device: str) -> tuple[str, int, str]:
    """Return type, minor and id of a device; a virtual function has the minor of its device."""
    kind, minor, identity = device.split("/", 2)
    return kind, int(minor), identity


def device_object(name: str, devices: Mapping[str, Amounts], uid: str = "") -> Object:
    """Return the object in which koordlet lists the devices of a node.

    Parameters
    ----------
    devices
        The amounts of each device by its name: of a GPU compute, bytes of memory and percent of memory, of an RDMA
        device its share; virtual functions are listed with their device.
    uid
        The UID of the node.
    """
    listed: list[dict[str, Any]] = []
    for device, amounts in devices.items():
        kind, minor, identity = _parts(device)
        if kind == _FUNCTIONS:
            continue
        place = {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:00", "busID": identity}
        if kind == _GPU:
            place["busID"] = f"0000:{minor + 1:02x}:00.0"
        resources = {
            resource: canonical(f"{amount // 1024}Ki") if resource == _MEMORY else str(amount)
            for resource, amount in zip(_NAMES[kind], amounts, strict=True)
        }
        entry = {
            "type": kind,
            "id": identity,
            "minor": minor,
            "health": True,
            "resources": resources,
            "topology": place,
        }
        functions = [each for each in map(_parts, devices) if each[:2] == (_FUNCTIONS, minor)]
        if kind == _RDMA and functions:
            entry["vfGroups"] = [{"vfs": [{"minor": -1, "busID": address} for _, _, address in functions]}]
        listed.append(entry)
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

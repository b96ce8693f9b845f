"""The vendors whose device plugins are simulated: what they register, and how each finds the pod to serve.

The kubelet tells a plugin the container and a number of devices, never the pod. HAMi's own plugins use the node lock,
which names the pod. Hygon's takes the first pod of its node that is allocating, whatever the lock says. Moore Threads'
takes the oldest pod that the scheduler assigned to its node. Cambricon's takes the pod that is not marked as assigned,
and removes a lock that names nobody. Enflame's for slices takes the oldest pod that is not marked as assigned, without
a lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from .cards import REGISTER, Card, registration

LOCK = "hami.io/mutex.lock"


class Find(Enum):
    """How a plugin finds the pod."""

    LOCK = "lock"
    """By the node lock, which names the pod."""
    SCAN = "scan"
    """The first pod of the node whose bind phase is allocating."""
    OLDEST = "oldest"
    """The pod of the node with the earliest decision time that has no devices yet."""
    FLAG = "flag"
    """The pod of the node that is not marked as assigned; a lock, if there is one, may name nobody."""


Registered = Callable[[Sequence[Card]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's plugin.

    Attributes
    ----------
    word
        The name of its devices in entries.
    count
        The resource that the kubelet hands out.
    allocated, to_allocate
        Annotations of a pod; ``to_allocate`` is empty if the plugin does not read it.
    annotations, capacity
        How a node describes its devices.
    find
        How the plugin finds the pod.
    lock, time, flag
        The node's lock, empty for none; the annotations of a pod that :attr:`Find.OLDEST` and :attr:`Find.FLAG` use.
    told
        Further annotations that must be present.
    name, model, shares, cores
        Of each device: its name, its model (``word`` if empty), the most pods that may share it, its compute.
    cuts
        Whether the plugin creates MIG instances.
    slices
        If the resource counts slices of one card: the annotation with the number of slices of each container.
    """

    word: str
    count: str
    allocated: str
    to_allocate: str
    annotations: Registered
    capacity: Registered
    find: Find = Find.LOCK
    lock: str = LOCK
    time: str = ""
    flag: str = ""
    told: tuple[str, ...] = ()
    name: str = "{node}-{index}"
    model: str = ""
    shares: int = 100
    cores: int = 100
    cuts: bool = False
    slices: str = ""


def _shares(resource: str) -> Registered:
    return lambda cards: {resource: str(sum(card.count for card in cards if card.healthy))}


def _nothing(cards: Sequence[Card]) -> Mapping[str, str]:
    del cards
    return {}


def _colons(cards: Sequence[Card]) -> str:
    return "".join(
        f"{c.uuid},{c.count},{c.memory},{c.cores},{c.model},{c.numa},{str(c.healthy).lower()}:" for c in cards
    )


def _slices(cards: Sequence[Card]) -> str:
    """Return how Enflame's plugin describes its cards: the number of slices, and how they may be combined."""
    devices = [{"index": str(card.index), "minor": str(card.index), "capacity": card.count} for card in cards]
    gigabytes = min((card.memory // card.count // 1024 for card in cards if card.count), default=0)
    profiles = {f"{slices}g.{slices * gigabytes}gb": str(number) for number, slices in enumerate((1, 3, 6))}
    return json.dumps({"devices": devices, "profiles": profiles})


NVIDIA = Vendor(
    "NVIDIA",
    "nvidia.com/gpu",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    lambda cards: {REGISTER: registration(cards)} if cards else {},
    lambda cards: _shares("nvidia.com/gpu")(cards) if cards else {},
    cuts=True,
)
ASCEND_910B3 = Vendor(
    "Ascend910B3",
    "huawei.com/Ascend910B3",
    "hami.io/Ascend910B3-devices-allocated",
    "hami.io/Ascend910B3-devices-to-allocate",
    lambda cards: {"hami.io/node-register-Ascend910B3": registration(cards)},
    _shares("huawei.com/Ascend910B3"),
    told=("huawei.com/Ascend910B3", "predicate-time"),
    shares=4,
    cores=20,
)
HYGON = Vendor(
    "DCU",
    "hygon.com/dcunum",
    "hami.io/dcu-devices-allocated",
    "hami.io/dcu-devices-to-allocate",
    lambda cards: {"hami.io/node-dcu-register": _colons(cards)},
    _shares("hygon.com/dcunum"),
    find=Find.SCAN,
    name="DCU-{node}-{index}",
    model="DCU-Z100",
    shares=4,
)
MTHREADS = Vendor(
    "Mthreads",
    "mthreads.com/vgpu",
    "hami.io/mthreads-vgpu-devices-allocated",
    "",
    _nothing,
    lambda cards: {
        "mthreads.com/vgpu": str(100 * len(cards)),
        "mthreads.com/sgpu-core": str(16 * len(cards)),
        "mthreads.com/sgpu-memory": str(sum(card.memory for card in cards) // 512),
    },
    find=Find.OLDEST,
    time="mthreads.com/predicate-time",
    told=("mthreads.com/gpu-index", "mthreads.com/predicate-node"),
    name="{node}-mthreads-{index}",
    cores=16,
)
CAMBRICON = Vendor(
    "MLU",
    "cambricon.com/vmlu",
    "hami.io/cambricon-mlu-devices-allocated",
    "",
    _nothing,
    lambda cards: {
        "cambricon.com/vmlu": str(100 * len(cards)),
        "cambricon.com/mlu.smlu.vcore": str(100 * len(cards)),
        "cambricon.com/mlu.smlu.vmemory": str(sum(card.memory for card in cards) // 256),
    },
    find=Find.FLAG,
    lock="cambricon.com/dsmlu.lock",
    flag="CAMBRICON_DSMLU_ASSIGNED",
    told=("CAMBRICON_DSMLU_PROFILE",),
    name="{node}-cambricon-mlu-{index}",
)
ENFLAME_DRS = Vendor(
    "Enflame",
    "enflame.com/drs-gcu",
    "hami.io/enflame-vgpu-devices-allocated",
    "",
    lambda cards: {"enflame.com/gcu-drs-capacity": _slices(cards)},
    _shares("enflame.com/drs-gcu"),
    find=Find.FLAG,
    lock="",
    time="enflame.com/gcu-assigned-time",
    flag="enflame.com/gcu-assigned",
    told=("enflame.com/gcu-assigned-index", "enflame.com/gcu-assigned-minor", "enflame.com/gcu-request-size"),
    name="{node}-enflame-drs-{index}",
    shares=6,
    slices="assigned-containers",
)


def made_cards(node: str, vendor: Vendor, number: int, memory: int) -> list[Card]:
    """Return devices of a vendor other than NVIDIA, with ``memory`` MiB each, named as the vendor's plugin does."""
    model = vendor.model or vendor.word
    return [
        Card(vendor.name.format(node=node, index=index), index, vendor.shares, memory, vendor.cores, model, mode="")
        for index in range(number)
    ]

"""The makers whose device plugins are played: what they register, and how each finds the pod that the kubelet starts.

Plugins are told of a container and a number of devices, never of the pod. HAMi's own go by the node lock, which names
the pod. Hygon's takes the first pod of its node that is allocating, lock or not. Moore Threads' takes the oldest pod
that the scheduler wrote its node on. Cambricon's takes the pod that is not marked as assigned, and removes a lock that
names nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from .cards import REGISTER, Card, registration

LOCK = "hami.io/mutex.lock"


class Find(Enum):
    """How a plugin finds the pod."""

    LOCK = "lock"
    """The node lock names it."""
    SCAN = "scan"
    """The first pod of the node whose bind phase is allocating."""
    OLDEST = "oldest"
    """The pod of the node with the earliest time of decision that has not got its devices yet."""
    FLAG = "flag"
    """The pod of the node that is not marked as assigned; there is a lock that names nobody."""


Registered = Callable[[Sequence[Card]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Maker:
    """One maker's plugin.

    Attributes
    ----------
    word
        What entries call its devices.
    count
        The resource that the kubelet hands out.
    allocated, to_allocate
        Annotations of a pod; ``to_allocate`` is empty where the plugin does not read it.
    annotations, capacity
        What a node says of its devices.
    find
        How the pod is found.
    lock, time, flag
        The node's lock; the annotations of a pod that :attr:`Find.OLDEST` and :attr:`Find.FLAG` go by.
    told
        Annotations that must be there besides.
    name, model, shares, cores
        Of each device: how it is called, its model (the word where it is empty), how many may share it, its compute.
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


def _shares(resource: str) -> Registered:
    return lambda cards: {resource: str(sum(card.count for card in cards if card.healthy))}


def _nothing(cards: Sequence[Card]) -> Mapping[str, str]:
    del cards
    return {}


def _colons(cards: Sequence[Card]) -> str:
    return "".join(
        f"{c.uuid},{c.count},{c.memory},{c.cores},{c.model},{c.numa},{str(c.healthy).lower()}:" for c in cards
    )


NVIDIA = Maker(
    "NVIDIA",
    "nvidia.com/gpu",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    lambda cards: {REGISTER: registration(cards)} if cards else {},
    lambda cards: _shares("nvidia.com/gpu")(cards) if cards else {},
)
ASCEND_910B3 = Maker(
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
HYGON = Maker(
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
MTHREADS = Maker(
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
CAMBRICON = Maker(
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


def made_cards(node: str, maker: Maker, number: int, memory: int) -> list[Card]:
    """Return devices of a maker that is not NVIDIA, with so many MiB each, named as its plugin names them."""
    model = maker.model or maker.word
    return [
        Card(maker.name.format(node=node, index=index), index, maker.shares, memory, maker.cores, model, mode="")
        for index in range(number)
    ]

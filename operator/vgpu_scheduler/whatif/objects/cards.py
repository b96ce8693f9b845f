"""The cards of short forms, in the way that each dialect's node side registers them and writes them on pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from vgpu_scheduler.dialects.hami import RegisteredDevice, encode_register_json
from vgpu_scheduler.dialects.koordinator.booked import id_of
from vgpu_scheduler.model import MIB, WHOLE, Assignment, Device


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a node; memory in MiB, cores in percent."""

    name: str
    index: int
    model: str
    memory: int
    shares: int
    cores: int
    numa: int
    mode: str
    healthy: bool


@dataclass(frozen=True, slots=True)
class CardShare:
    """A pod's share of a device: memory in MiB and cores in percent, or the whole device."""

    device: Device
    memory: int = 0
    cores: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """What the registration of cards adds to a node and beside it."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    objects: Sequence[dict[str, Any]] = ()


class CardWriter(Protocol):
    """Writes cards as a dialect's node side does.

    Attributes
    ----------
    name
        The dialect's name.
    silent
        Fields of a card that the dialect does not register.
    one_model
        Whether all cards of a node have to be of one model.
    answer
        The annotations that the node side writes on a served pod, if later decisions depend on them.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class
    @property
    def silent(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def one_model(self) -> bool: ...  # noqa: D102
    @property
    def answer(self) -> Mapping[str, str]: ...  # noqa: D102

    def register(self, node: str, cards: Sequence[Card]) -> Registered:
        """Return what a node with these cards registers; nothing without cards."""

    def assignment(self, piece: CardShare) -> Assignment:
        """Return a share of a device as an assignment in the dialect's dimensions."""

    def asked(self, pieces: Sequence[CardShare]) -> Mapping[str, str]:
        """Return the resources that a container with these shares asks for."""


class HamiCards:
    """HAMi: registers cards in an annotation of the node."""

    name = "hami"
    silent: ClassVar[frozenset[str]] = frozenset()
    one_model = False
    answer: ClassVar[Mapping[str, str]] = {}
    _register = "hami.io/node-nvidia-register"

    def register(self, node: str, cards: Sequence[Card]) -> Registered:
        """Return the annotation, and the count resource that the device plugin advertises."""
        del node
        if not cards:
            return Registered()
        listed = [
            RegisteredDevice(
                id=card.name,
                index=card.index,
                count=card.shares,
                devmem=card.memory,
                devcore=card.cores,
                type=card.model,
                numa=card.numa,
                mode=card.mode,
                health=card.healthy,
            )
            for card in cards
        ]
        shares = sum(card.shares for card in cards)
        return Registered({self._register: encode_register_json(listed)}, {"nvidia.com/gpu": str(shares)})

    def assignment(self, piece: CardShare) -> Assignment:
        """Return the share as slots, MiB and percent."""
        memory, cores = (piece.device.total[1], WHOLE) if piece.whole else (piece.memory, piece.cores)
        return Assignment(piece.device.vendor, piece.device.uuid, (1, memory, cores))

    def asked(self, pieces: Sequence[CardShare]) -> Mapping[str, str]:
        """Return the count resource."""
        return {"nvidia.com/gpu": str(len(pieces))} if pieces else {}


class VolcanoCards(HamiCards):
    """Volcano: registers cards in another annotation and three resources; cards have no NUMA node and 100 cores."""

    name = "volcano"
    silent: ClassVar[frozenset[str]] = frozenset({"numa", "cores"})
    answer: ClassVar[Mapping[str, str]] = {
        "volcano.sh/devices-to-allocate": "",
        "volcano.sh/vgpu-time": str(2**64 - 1),
        "volcano.sh/bind-phase": "success",
    }
    _register = "volcano.sh/node-vgpu-register"

    def register(self, node: str, cards: Sequence[Card]) -> Registered:
        """Return the annotation, and the resources that the device plugin advertises."""
        del node
        if not cards:
            return Registered()
        listed = (f"{c.name},{c.shares},{c.memory},{c.model},{str(c.healthy).lower()},{c.mode}:" for c in cards)
        advertised = {
            "volcano.sh/vgpu-number": str(sum(card.shares for card in cards)),
            "volcano.sh/vgpu-memory": str(sum(card.memory for card in cards)),
            "volcano.sh/vgpu-cores": str(WHOLE * len(cards)),
        }
        return Registered({self._register: "".join(listed)}, advertised)

    def asked(self, pieces: Sequence[CardShare]) -> Mapping[str, str]:
        """Return the count and the amounts per card; the node advertises all three resources."""
        if not pieces:
            return {}
        amounts = [self.assignment(piece).amounts for piece in pieces]
        return {
            "volcano.sh/vgpu-number": str(len(pieces)),
            "volcano.sh/vgpu-memory": str(max(memory for _, memory, _ in amounts)),
            "volcano.sh/vgpu-cores": str(max(cores for _, _, cores in amounts)),
        }


class KoordinatorCards:
    """Koordinator: registers cards in a Device object beside the node; cards have neither slots nor modes."""

    name = "koordinator"
    silent: ClassVar[frozenset[str]] = frozenset({"shares", "mode"})
    one_model = True
    answer: ClassVar[Mapping[str, str]] = {}

    def register(self, node: str, cards: Sequence[Card]) -> Registered:
        """Return the Device object, and the sums that koordlet writes on the node."""
        if not cards:
            return Registered()
        devices = [
            {
                "type": "gpu",
                "minor": card.index,
                "id": card.name,
                "health": card.healthy,
                "topology": {"nodeID": card.numa},
                "resources": {
                    "koordinator.sh/gpu-core": str(card.cores),
                    "koordinator.sh/gpu-memory": f"{card.memory}Mi",
                    "koordinator.sh/gpu-memory-ratio": str(WHOLE),
                },
            }
            for card in cards
        ]
        labels = {"node.koordinator.sh/gpu-model": cards[0].model}
        inventory = {
            "kind": "Device",
            "metadata": {"name": node, "labels": labels},
            "spec": {"devices": devices},
        }
        allocatable = {
            "nvidia.com/gpu": str(len(cards)),
            "koordinator.sh/gpu": str(WHOLE * len(cards)),
            "koordinator.sh/gpu-core": str(sum(card.cores for card in cards)),
            "koordinator.sh/gpu-memory": f"{sum(card.memory for card in cards)}Mi",
            "koordinator.sh/gpu-memory-ratio": str(WHOLE * len(cards)),
        }
        return Registered({}, allocatable, [inventory])

    def assignment(self, piece: CardShare) -> Assignment:
        """Return the share as slots, bytes, percent of compute and percent of memory."""
        _, whole, cores, _ = piece.device.total
        memory = whole if piece.whole else piece.memory * MIB
        ratio = memory * WHOLE // whole if whole else 0
        return Assignment("gpu", piece.device.uuid, (0, memory, cores if piece.whole else piece.cores, ratio))

    def asked(self, pieces: Sequence[CardShare]) -> Mapping[str, str]:
        """Return the number of cards, and the sums over them."""
        if not pieces:
            return {}
        amounts = [self.assignment(piece).amounts for piece in pieces]
        return {
            "koordinator.sh/gpu.shared": str(len(pieces)),
            "koordinator.sh/gpu-memory": str(sum(memory for _, memory, _, _ in amounts)),
            "koordinator.sh/gpu-core": str(sum(cores for _, _, cores, _ in amounts)),
        }


def card_name(vendor: str, uuid: str) -> str:
    """Return the display name of a device: the id of Koordinator's, which are booked as ``<type>/<minor>/<id>``."""
    return (id_of(uuid) or uuid) if uuid.startswith(f"{vendor}/") else uuid


WRITERS: Mapping[str, CardWriter] = {
    writer.name: writer for writer in (HamiCards(), VolcanoCards(), KoordinatorCards())
}

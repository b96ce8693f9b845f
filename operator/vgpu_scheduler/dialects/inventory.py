"""Which devices the nodes of an ecosystem have, and what they have amounts of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import BoundedCache, Device, DeviceResource, Dimension, bytes_of

MOST_DEVICES = 1024
"""A node that lists more is not believed: its devices are sorted for every claim."""
InventoryObject = Mapping[str, Any]
"""The object beside the node that lists its devices, as JSON, in dialects that have one."""


@dataclass(frozen=True, slots=True)
class InventoryKind:
    """A kind of objects that list the devices of nodes.

    Attributes
    ----------
    name
        As in ``kind``.
    path
        Where all of them are listed and watched.
    """

    name: str
    path: str


def with_annotations(obj: InventoryObject, changed: Mapping[str, str]) -> InventoryObject:
    """Return an object with other values of some annotations."""
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **changed}}}


class Inventory(Protocol):
    """The devices of nodes.

    Attributes
    ----------
    dimensions
        What a device has amounts of, in the order of every ``Amounts``.
    cards
        The vendors whose devices are cards; limits of policies are about these.
    memory, memory_unit
        The dimension that is memory, and how many bytes one of it is.
    cores
        The dimension that is compute in percent of a device.
    compute_units
        How much compute a device of a vendor has in the unit of its claims, where that is not percent.
    in_percent
        The vendors whose devices all count compute in percent, so that an amount says how much it is by itself.
    unknown_to_kubelet
        Resource names that the Kubernetes resource filter must leave alone: no node advertises them.
    device_resources
        Resource names that stand for amounts of devices.
    smallest_pieces
        The least memory that a piece of a card has, by vendor; vendors of which that is not known are left out.
    cordons
        The annotation of a node that takes the cards in it out of service (UUIDs, separated by commas), by vendor;
        vendors whose cards cannot be cordoned are left out.
    kind
        The kind of the objects that list the devices of nodes, each named as its node; None where nodes say it all.
    """

    @property
    def dimensions(self) -> tuple[Dimension, ...]: ...  # noqa: D102 - see the class
    @property
    def cards(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def memory(self) -> int: ...  # noqa: D102
    @property
    def memory_unit(self) -> int: ...  # noqa: D102
    @property
    def cores(self) -> int: ...  # noqa: D102
    @property
    def compute_units(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def in_percent(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def unknown_to_kubelet(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def device_resources(self) -> Mapping[str, DeviceResource]: ...  # noqa: D102
    @property
    def smallest_pieces(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def cordons(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def kind(self) -> InventoryKind | None: ...  # noqa: D102

    def hardware(self, device: Device) -> str:
        """Return the UUID of the hardware that a device is, as every dialect would call it."""

    def with_healthy_devices(self, obj: InventoryObject) -> InventoryObject:
        """Return a node, or the object beside one, as it would be written if all of its devices were healthy."""

    def devices(self, node: Node, inventory_object: InventoryObject | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, in the order written; none without a registration.

        Parameters
        ----------
        node
            The node.
        inventory_object
            The object beside the node that lists its devices, in dialects that have one.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation or the field. A
            :class:`RegistrationError` has the devices of the vendors whose registration can.
        """


MOST_BYTES = 256 * 2**20
"""What all that is remembered may take: 20,000 nodes with 8 cards take about half of it.

Of nodes that are known nothing is held twice: their devices are the same objects.
"""
_DEVICE, _LINK, _PIECE, _LABEL = 700, 120, 400, 200
"""About how many bytes a decoded device takes, and each of its links, pieces and labels."""


class RememberedDevices:
    """Decoded device lists, the most recently used ones, bounded by bytes.

    Parameters
    ----------
    most_bytes
        How much they may take together, with the texts that they were decoded from.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._known: BoundedCache[Hashable, tuple[Device, ...]] = BoundedCache(most_bytes)

    @property
    def bytes(self) -> int:
        """About what is remembered takes."""
        return self._known.bytes

    def get(self, facts: Hashable, decode: Callable[[], tuple[Device, ...]]) -> tuple[Device, ...]:
        """Return the devices of a registration, decoded now if they are not remembered.

        Parameters
        ----------
        facts
            All that they depend on: texts, and tuples of them.
        decode
            Decodes them; what it raises is not remembered.
        """
        known = self._known.get(facts)
        if known is None:
            known = decode()
            self._known.put(facts, known, bytes_of(facts) + sum(map(_size, known)))
        return known


def _size(device: Device) -> int:
    return _DEVICE + _LINK * len(device.links) + _PIECE * len(device.pieces) + _LABEL * len(device.labels)


def check_number(number: int, what: str = "devices") -> None:
    """Refuse more devices than a node has.

    Raises
    ------
    CodecError
        If there are more.
    """
    if number > MOST_DEVICES:
        raise CodecError(f"{number} {what} are more than a node has (at most {MOST_DEVICES})")

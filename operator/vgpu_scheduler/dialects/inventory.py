"""The interface for the devices of an ecosystem's nodes, and for their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.kube import ApiResource, Node
from vgpu_scheduler.model import BoundedCache, Device, DeviceResource, Dimension, bytes_of

MOST_DEVICES = 1024
"""The maximum number of devices of a node, because devices are sorted for every claim."""
InventoryObject = Mapping[str, Any]
"""A separate object that lists the devices of a node, as JSON, in dialects that have one."""


def with_annotations(obj: InventoryObject, changed: Mapping[str, str]) -> InventoryObject:
    """Return a copy of an object with some annotations changed."""
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **changed}}}


class Inventory(Protocol):
    """The devices of nodes.

    Attributes
    ----------
    dimensions
        The dimensions of devices, in the order of every ``Amounts``.
    cards
        The vendors whose devices are cards; policy limits apply to these.
    memory, memory_unit
        The dimension of memory, and its unit in bytes.
    cores
        The dimension of compute.
    compute_units
        The compute of a device in the unit of claims, by vendor, for vendors that do not use percent.
    in_percent
        The vendors whose devices all count compute in percent.
    unknown_to_kubelet
        Resource names that NodeResourcesFit must ignore, because no node advertises them.
    device_resources
        The devices and dimensions of resource names.
    in_sums
        The vendors for which a container requests the total over all its cards, not the amount per card.
    smallest_pieces
        The memory of the smallest piece of a card, by vendor; vendors for which it is unknown are left out.
    slice_sizes
        The memory that a slice of a card may have, ascending to that of a whole card, by vendor; only for vendors whose
        cards are split into slices of one size each.
    cordons
        The node annotation that takes cards out of service (comma-separated UUIDs), by vendor; vendors whose cards
        cannot be cordoned are left out.
    kind
        The kind of the objects that list the devices of nodes, named like their nodes; None if nodes register them.
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
    def in_sums(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def smallest_pieces(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def slice_sizes(self) -> Mapping[str, Sequence[int]]: ...  # noqa: D102
    @property
    def cordons(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def kind(self) -> ApiResource | None: ...  # noqa: D102

    def hardware(self, device: Device) -> str:
        """Return the hardware's own UUID of a device, which is the same in all dialects."""

    def with_healthy_devices(self, obj: InventoryObject) -> InventoryObject:
        """Return a node, or its inventory object, as if all of its devices were healthy."""

    def devices(self, node: Node, inventory_object: InventoryObject | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, in the order of the registration; none without one.

        Parameters
        ----------
        node
            The node.
        inventory_object
            The object that lists the node's devices, in dialects that have one.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation or the field. A
            :class:`RegistrationError` contains the devices of the vendors whose registrations are valid.
        """


MOST_BYTES = 256 * 2**20
"""Bytes that cached device lists may take: 20,000 nodes with 8 cards take about half of it.

The devices of known nodes take no additional memory, because they are the same objects.
"""
_DEVICE, _LINK, _PIECE, _LABEL = 700, 120, 400, 200
"""Approximate bytes of a decoded device, and of each of its links, pieces and labels."""


class RememberedDevices:
    """A cache of the most recently used decoded device lists, bounded by bytes.

    Parameters
    ----------
    most_bytes
        The maximum size, including the texts that they were decoded from.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._known: BoundedCache[Hashable, tuple[Device, ...]] = BoundedCache(most_bytes)

    @property
    def bytes(self) -> int:
        """The approximate size of the cache."""
        return self._known.bytes

    def get(self, facts: Hashable, decode: Callable[[], tuple[Device, ...]]) -> tuple[Device, ...]:
        """Return the devices of a registration, decoded if they are not cached.

        Parameters
        ----------
        facts
            Everything that they depend on: texts, and tuples of texts.
        decode
            Decodes them; errors are not cached.
        """
        known = self._known.get(facts)
        if known is None:
            known = decode()
            self._known.put(facts, known, bytes_of(facts) + sum(map(_size, known)))
        return known


def _size(device: Device) -> int:
    return _DEVICE + _LINK * len(device.links) + _PIECE * len(device.pieces) + _LABEL * len(device.labels)


def check_number(number: int, what: str = "devices") -> None:
    """Refuse more than :data:`MOST_DEVICES` devices.

    Raises
    ------
    CodecError
        If there are more.
    """
    if number > MOST_DEVICES:
        raise CodecError(f"{number} {what} are more than a node has (at most {MOST_DEVICES})")

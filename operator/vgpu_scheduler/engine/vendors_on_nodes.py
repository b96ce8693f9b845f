"""Which vendors' cards a node lists, and whether its kubelet offers the resources for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import Device


@dataclass(frozen=True, slots=True)
class VendorOnNode:
    """The cards of one vendor on a node.

    Attributes
    ----------
    resources
        The resource names that count the cards and that the kubelet has to offer; empty if it offers none of them.
    """

    vendor: str
    resources: frozenset[str]
    devices: Sequence[Device]

    def offers_none(self, node: Node) -> bool:
        """Tell whether the kubelet offers none of the healthy cards: their plugin is gone, or never registered."""
        healthy = any(device.healthy for device in self.devices)
        return healthy and bool(self.resources) and not any(node.allocatable.get(name) for name in self.resources)


def vendors_on_node(dialects: Iterable[Dialect], listed: Mapping[str, Sequence[Device]]) -> Iterator[VendorOnNode]:
    """Yield the vendors whose cards a node object lists; cards listed in objects beside it do not involve the kubelet.

    Parameters
    ----------
    listed
        The devices of the node, by dialect.
    """
    for dialect in dialects:
        inventory = dialect.inventory
        if inventory.kind is not None:
            continue
        by_vendor: dict[str, list[Device]] = {}
        for device in listed.get(dialect.name, ()):
            by_vendor.setdefault(device.vendor, []).append(device)
        for vendor, devices in by_vendor.items():
            names = frozenset(
                name
                for name, resource in inventory.device_resources.items()
                if resource.vendor == vendor and resource.dimension == 0 and name not in inventory.unknown_to_kubelet
            )
            yield VendorOnNode(vendor, names, devices)

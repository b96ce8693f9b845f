"""Free volumes that suit claims, grouped by everything but size, with the nodes that reach them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import msgspec

from vgpu_scheduler.kube import LabelSelector, PersistentVolumeClaim, Volume
from vgpu_scheduler.model import BoundedCache, bytes_of
from vgpu_scheduler.state.amounts_by_topology import AmountsByTopology

_MOST_BYTES: Final = 4 * 2**20
"""Bytes that the indexes of free volumes may take; the least recently used one is dropped."""
_KIND: Final = 32 * 2**10
"""Cost of one index in addition to its selector; high, because each event of a volume looks at all indexes."""


class VolumeRequirement(msgspec.Struct, frozen=True):
    """What a claim requires of a free volume, apart from node affinity."""

    class_name: str
    size: int
    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: LabelSelector | None

    @classmethod
    def by(cls, claim: PersistentVolumeClaim) -> VolumeRequirement:
        """Return the requirements of a claim."""
        return cls(
            claim.class_name or "",
            claim.requested or 0,
            claim.volume_mode,
            claim.attributes_class,
            claim.access_modes,
            claim.selector,
        )

    @property
    def of_any_size(self) -> VolumeRequirement:
        """The same requirements without a size."""
        return msgspec.structs.replace(self, size=0)

    @property
    def kind(self) -> Hashable:
        """The kind of the volumes: claims that want different kinds never want the same volume."""
        return self.class_name, self.volume_mode, self.attributes_class

    def fits(self, volume: Volume) -> bool:
        """Tell whether a volume is large enough and of the right kind: all that a pre-bound volume needs."""
        return (
            volume.class_name == self.class_name
            and volume.capacity >= self.size
            and volume.volume_mode == self.volume_mode
            and volume.attributes_class == self.attributes_class
            and not volume.deleting
        )

    def accepts(self, volume: Volume) -> bool:
        """Tell whether a free volume meets all requirements."""
        return (
            self.fits(volume)
            and volume.phase == "Available"
            and self.access_modes <= volume.access_modes
            and (self.selector is None or self.selector.matches(volume.labels))
        )


class FreeVolumes:
    """The free volumes for each set of requirements that was asked for; claims that differ only in size share one."""

    def __init__(self) -> None:
        self._kinds: BoundedCache[VolumeRequirement, AmountsByTopology] = BoundedCache(_MOST_BYTES)

    def like(self, wanted: VolumeRequirement, free: Iterable[Volume]) -> AmountsByTopology:
        """Return the volumes that meet the requirements apart from size; built from ``free`` on first use."""
        kind = wanted.of_any_size
        places = self._kinds.get(kind)
        if places is not None:
            return places
        places = AmountsByTopology()
        for volume in free:
            if kind.accepts(volume):
                places.add(volume.node_affinity, (volume.capacity, volume.name))
        self._kinds.put(kind, places, bytes_of(kind) + _KIND)
        return places

    def add(self, volume: Volume) -> None:
        """Take in that a volume is free."""
        for kind, places in self._kinds.items():
            if kind.accepts(volume):
                places.add(volume.node_affinity, (volume.capacity, volume.name))

    def discard(self, volume: Volume) -> None:
        """Take in that a volume is not free any more."""
        for kind, places in self._kinds.items():
            if kind.accepts(volume):
                places.discard(volume.node_affinity, (volume.capacity, volume.name))

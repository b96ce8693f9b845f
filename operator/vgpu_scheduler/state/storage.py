"""The known storage objects, and indexes that are derived from them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from vgpu_scheduler.kube import (
    AttachedVolume,
    CSIDriver,
    CSINode,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VersionedStore,
    Volume,
    VolumeAttachment,
)
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.state.amounts_by_topology import AmountsByTopology

STORAGE_KINDS: Final[dict[str, type[StorageObject]]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": Volume,
    "StorageClass": StorageClass,
    "CSINode": CSINode,
    "CSIDriver": CSIDriver,
    "CSIStorageCapacity": StorageCapacity,
    "VolumeAttachment": VolumeAttachment,
}
"""The kinds of storage objects, by their Kubernetes name."""

_TO_BE_MADE: Final = "\0"
"""Prefix of the placeholder handle of a volume that is not provisioned yet; no driver's handle begins with it."""

StorageStore = VersionedStore[str, StorageObject]
_Names = dict[str, frozenset[str]]
"""Names by key, with few names per key."""


class StorageObjects:
    """The newest version of each storage object, by ``namespace/name`` or name.

    Attributes
    ----------
    claims, volumes, classes, csi_nodes, csi_drivers, capacities, attachments
        The objects of each kind.
    """

    def __init__(self) -> None:
        self.claims: VersionedStore[str, PersistentVolumeClaim] = VersionedStore()
        self.volumes: VersionedStore[str, Volume] = VersionedStore()
        self.classes: VersionedStore[str, StorageClass] = VersionedStore()
        self.csi_nodes: VersionedStore[str, CSINode] = VersionedStore()
        self.csi_drivers: VersionedStore[str, CSIDriver] = VersionedStore()
        self.capacities: VersionedStore[str, StorageCapacity] = VersionedStore()
        self.attachments: VersionedStore[str, VolumeAttachment] = VersionedStore()
        self._claims_of: _Names = {}
        self._attachments_of: _Names = {}
        self._kept_for: _Names = {}
        self._capacities_of: dict[str, AmountsByTopology] = {}

    def store(self, kind: type[StorageObject]) -> StorageStore:
        """Return the store of a kind."""
        stores: dict[type[StorageObject], object] = {
            PersistentVolumeClaim: self.claims,
            Volume: self.volumes,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            StorageCapacity: self.capacities,
            VolumeAttachment: self.attachments,
        }
        found = stores[kind]
        assert isinstance(found, VersionedStore)
        return found

    def stores(self) -> Iterator[StorageStore]:
        """Yield all stores."""
        return (self.store(kind) for kind in STORAGE_KINDS.values())

    # Questions -------------------------------------------------------------------------------------------------------

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """Return the storage class of a claim; None if it names none or the class does not exist."""
        return self.classes.get(claim.class_name) if claim.class_name else None

    def claims_of(self, volume: str) -> Iterable[str]:
        """Return the claims that name a volume."""
        return self._claims_of.get(volume, ())

    def claims_about(self, obj: StorageObject | None) -> Iterable[str]:
        """Return the claims (``namespace/name``) that a claim or a volume concerns; none for other kinds."""
        match obj:
            case PersistentVolumeClaim():
                return (obj.key,)
            case Volume():
                kept = () if obj.claim is None else (f"{obj.claim.namespace}/{obj.claim.name}",)
                return {*self.claims_of(obj.name), *kept}
        return ()

    def attachments_of(self, volume: str) -> Iterable[str]:
        """Return the VolumeAttachments that name a volume."""
        return self._attachments_of.get(volume, ())

    def kept_for(self, claim: str) -> Iterable[str]:
        """Return the volumes whose ``claimRef`` names a claim, given as ``namespace/name``."""
        return self._kept_for.get(claim, ())

    def capacities_of(self, class_name: str) -> AmountsByTopology | None:
        """Return the largest volume sizes of a class by node, in bytes; None without CSIStorageCapacity objects."""
        return self._capacities_of.get(class_name)

    def attached_as(self, claim: PersistentVolumeClaim) -> AttachedVolume | None:
        """Return the volume as which a claim counts towards a driver's attach limit; None if no limit applies.

        A claim without a volume counts as a volume of its own, of the driver that its class names.
        """
        volume = self.volumes.get(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            return volume.attached_as
        found = self.class_of(claim)
        return (found.driver, _TO_BE_MADE + claim.key) if found is not None and found.driver else None

    def attachment(self, name: str) -> tuple[str, AttachedVolume] | None:
        """Return the node and the volume of a VolumeAttachment; None if no attach limit applies."""
        found = self.attachments.get(name)
        volume = self.volumes.get(found.volume_name) if found is not None else None
        if found is None or volume is None or volume.csi is None or not found.attacher:
            return None
        return found.node_name, (found.attacher, volume.csi[1])

    # Events ----------------------------------------------------------------------------------------------------------

    def changed(self, before: StorageObject | None, after: StorageObject | None) -> None:
        """Update the indexes for an object that was added, changed or removed."""
        for obj, place in ((before, _unlink), (after, _link)):
            if isinstance(obj, PersistentVolumeClaim) and obj.volume_name:
                place(self._claims_of, obj.volume_name, obj.key)
            elif isinstance(obj, VolumeAttachment) and obj.volume_name:
                place(self._attachments_of, obj.volume_name, obj.name)
            elif isinstance(obj, Volume) and obj.claim is not None:
                place(self._kept_for, f"{obj.claim.namespace}/{obj.claim.name}", obj.name)
        if isinstance(before, StorageCapacity):
            self._place_capacity(before, add=False)
        if isinstance(after, StorageCapacity):
            self._place_capacity(after, add=True)

    def _place_capacity(self, capacity: StorageCapacity, *, add: bool) -> None:
        if capacity.largest is None or capacity.nodes is None:
            return
        places = self._capacities_of.setdefault(capacity.class_name, AmountsByTopology())
        place: Callable[[NodeSelector | None, tuple[int, str]], None] = places.add if add else places.discard
        place(_node_selector(capacity.nodes), (capacity.largest, capacity.key))
        if not places:
            del self._capacities_of[capacity.class_name]

    def as_values(self) -> object:
        """Return the indexes, for comparison."""
        capacities = {name: places.as_values() for name, places in self._capacities_of.items()}
        return self._claims_of, self._attachments_of, self._kept_for, capacities


def helps(before: StorageObject | None, after: StorageObject | None) -> ClusterEvent:
    """Return the cluster event of a changed object, without what it frees of attach limits."""
    match before, after:
        case (VolumeAttachment(), _) | (_, VolumeAttachment()):
            return ClusterEvent.NONE
        case (CSINode(), _) | (_, CSINode()):
            return ClusterEvent.STORAGE if _migrated(before) != _migrated(after) else ClusterEvent.NONE
        case (StorageCapacity(), None):
            return ClusterEvent.NONE
        case (StorageCapacity() as said, StorageCapacity() as says):
            grew = (says.largest or 0) > (said.largest or 0)
            elsewhere = (says.nodes, says.class_name) != (said.nodes, said.class_name)
            return ClusterEvent.STORAGE if grew or elsewhere else ClusterEvent.NONE
        case (StorageClass() as was, _) if was.driver != (after.driver if isinstance(after, StorageClass) else ""):
            return (
                ClusterEvent.STORAGE | ClusterEvent.ATTACH_LIMIT
            )  # claims of this class without a volume count towards its driver's attach limit
    return ClusterEvent.STORAGE


def _migrated(csi_node: StorageObject | None) -> frozenset[str]:
    return csi_node.migrated_plugins if isinstance(csi_node, CSINode) else frozenset()


def same(before: StorageObject, after: StorageObject) -> bool:
    """Tell whether two observations of an object differ in nothing but the version."""
    return bool(msgspec.structs.replace(after, resource_version=before.resource_version) == before)


def _node_selector(labels: LabelSelector) -> NodeSelector | None:
    if not labels.requirements:
        return None
    return NodeSelector((NodeSelectorTerm(labels.requirements, ()),), None)


def _link(index: _Names, key: str, name: str) -> None:
    index[key] = index.get(key, frozenset()) | {name}


def _unlink(index: _Names, key: str, name: str) -> None:
    names = index[key] - {name}
    if names:
        index[key] = names
    else:
        del index[key]

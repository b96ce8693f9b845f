"""Storage objects as values: claims, volumes, classes, and what CSI drivers say of nodes; immutable and understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from vgpu_scheduler.kube.migration import InTreeDisk
from vgpu_scheduler.kube.selectors import LabelSelector, NodeSelector

__all__ = [
    "BOUND_BY_CONTROLLER",
    "READ_WRITE_ONCE_POD",
    "SELECTED_NODE",
    "WAIT_FOR_FIRST_CONSUMER",
    "AttachedVolume",
    "CSIDriver",
    "CSINode",
    "ClaimReference",
    "PersistentVolumeClaim",
    "StorageCapacity",
    "StorageClass",
    "StorageObject",
    "Volume",
    "VolumeAttachment",
]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that a volume is to be provisioned for."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or a claim that Kubernetes has bound, and no user; its value does not matter."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes somebody makes by hand."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

AttachedVolume = tuple[str, str]
"""What takes one of the volumes that a driver can attach to a node: the CSI driver and its name of the volume."""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    class_name
        The storage class, from the old annotation where there is one; None if nothing is said, empty where a volume
        without class is asked for.
    volume_name
        The volume that it is bound to, or is to be bound to; empty if none.
    bind_completed
        Whether the binding to ``volume_name`` is complete.
    phase
        ``Pending``, ``Bound`` or ``Lost``.
    deleting
        Whether it has a deletion timestamp.
    selected_node
        The node that its volume is being provisioned for; None if no node was selected.
    access_modes
        What its volume must be able to do.
    requested
        Bytes, rounded up; None if it does not say.
    selector
        The labels that its volume must have; None for any.
    volume_mode
        ``Filesystem`` or ``Block``.
    attributes_class
        Name of its VolumeAttributesClass; empty if none.
    controller
        UID of the object that controls it: the pod whose ephemeral volume it is; empty if none does.
    """

    uid: str
    namespace: str
    name: str
    resource_version: int
    class_name: str | None
    volume_name: str
    bind_completed: bool
    phase: str
    deleting: bool
    selected_node: str | None
    access_modes: frozenset[str]
    requested: int | None
    selector: LabelSelector | None
    volume_mode: str
    attributes_class: str
    controller: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def bound(self) -> bool:
        """Whether it is fully bound to a volume."""
        return bool(self.volume_name) and self.bind_completed


class ClaimReference(msgspec.Struct, frozen=True):
    """The claim that a volume is bound to, or kept for; the UID is empty while any claim of that name will do."""

    namespace: str
    name: str
    uid: str

    def is_about(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether it names a claim."""
        return (self.namespace, self.name) == (claim.namespace, claim.name) and self.uid in ("", claim.uid)


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolume.

    Attributes
    ----------
    class_name
        Its storage class, from the old annotation where there is one; empty if none.
    capacity
        Bytes, rounded up.
    claim
        The claim that it is bound to or kept for; None if it is free.
    phase
        ``Pending``, ``Available``, ``Bound``, ``Released`` or ``Failed``.
    node_affinity
        The nodes that it can be reached from, for a node without a name, as kube-scheduler asks it; None for all.
    csi
        Its CSI driver and handle; None for a volume of another kind.
    disk
        The in-tree disk that it is, if it is one that may be served through a CSI driver.
    migrated_affinity
        Like ``node_affinity``, on nodes where the plugin of ``disk`` is migrated.
    """

    uid: str
    name: str
    resource_version: int
    labels: Mapping[str, str]
    class_name: str
    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    claim: ClaimReference | None
    phase: str
    deleting: bool
    node_affinity: NodeSelector | None
    csi: AttachedVolume | None = None
    disk: InTreeDisk | None = None
    migrated_affinity: NodeSelector | None = None

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def attached_as(self) -> AttachedVolume | None:
        """What it takes of its driver's attach limit on a node; None if no limit is about it."""
        if self.csi is not None:
            return self.csi if all(self.csi) else None
        return (self.disk.driver, self.disk.handle) if self.disk and self.disk.handle else None


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass.

    Attributes
    ----------
    binding_mode
        ``Immediate`` or ``WaitForFirstConsumer``; None where it is not set, which the API server does not let happen.
    allowed_topologies
        The nodes that volumes can be provisioned for; None for all.
    driver
        The CSI driver whose attach limit its volumes count in; empty if none.
    """

    uid: str
    name: str
    resource_version: int
    provisioner: str
    binding_mode: str | None
    allowed_topologies: NodeSelector | None
    driver: str

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def provisions(self) -> bool:
        """Whether volumes can be provisioned."""
        return self.provisioner not in ("", NO_PROVISIONER)


class CSINode(msgspec.Struct, frozen=True, kw_only=True):
    """A CSINode; it has the name of its node.

    Attributes
    ----------
    limits
        How many volumes of each CSI driver can be attached to the node; a driver without a limit is left out.
    migrated_plugins
        The in-tree plugins whose disks are served by CSI drivers on this node.
    """

    uid: str
    name: str
    resource_version: int
    limits: Mapping[str, int]
    migrated_plugins: frozenset[str]

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class CSIDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A CSIDriver; ``storage_capacity`` is whether it says where how much can be provisioned."""

    uid: str
    name: str
    resource_version: int
    storage_capacity: bool

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class StorageCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """A CSIStorageCapacity: how large a volume of a class can be on some nodes.

    Attributes
    ----------
    largest
        Bytes; None if it does not say.
    nodes
        The labels of the nodes; None for no node.
    """

    uid: str
    namespace: str
    name: str
    resource_version: int
    class_name: str
    largest: int | None
    nodes: LabelSelector | None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A VolumeAttachment: a volume is attached to a node, or to be.

    Attributes
    ----------
    attacher
        The CSI driver.
    volume_name
        The persistent volume; empty if it is a volume that a pod names itself.
    """

    uid: str
    name: str
    resource_version: int
    attacher: str
    node_name: str
    volume_name: str

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


StorageObject = PersistentVolumeClaim | Volume | StorageClass | CSINode | CSIDriver | StorageCapacity | VolumeAttachment

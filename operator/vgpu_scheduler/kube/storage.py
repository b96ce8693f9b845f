"""Storage objects as immutable, parsed values: claims, volumes, classes, and CSI objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from vgpu_scheduler.kube.migration import InTreeDisk
from vgpu_scheduler.kube.selectors import LabelSelector, NodeSelector

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that a volume is to be provisioned for."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or a claim that was bound by Kubernetes, not by a user; its value does not matter."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are created by hand."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

AttachedVolume = tuple[str, str]
"""A volume as attach limits count it: the CSI driver and the volume handle."""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    class_name
        The storage class, from the old annotation if there is one; None if unset, empty if a volume without class is
        requested.
    volume_name
        The volume that it is bound to, or should be bound to; empty if none.
    bind_completed
        Whether the binding to ``volume_name`` is complete.
    phase
        ``Pending``, ``Bound`` or ``Lost``.
    deleting
        Whether it has a deletion timestamp.
    selected_node
        The node that its volume is being provisioned for; None if no node was selected.
    access_modes
        The access modes that its volume must support.
    requested
        Requested bytes, rounded up; None if unset.
    selector
        The labels that its volume must have; None for any.
    volume_mode
        ``Filesystem`` or ``Block``.
    attributes_class
        Name of its VolumeAttributesClass; empty if none.
    controller
        UID of its controller, the pod for an ephemeral volume; empty if it has none.
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
    """The claim that a volume is bound to or reserved for; an empty UID matches any claim of that name."""

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
        Its storage class, from the old annotation if there is one; empty if none.
    capacity
        Bytes, rounded up.
    claim
        The claim that it is bound to or reserved for; None if it is free.
    phase
        ``Pending``, ``Available``, ``Bound``, ``Released`` or ``Failed``.
    node_affinity
        The nodes that it can be reached from, by labels only, as in kube-scheduler; None for all.
    csi
        Its CSI driver and handle; None for a volume of another kind.
    disk
        Its in-tree disk, if that may be served through a CSI driver.
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
        """The volume as its driver's attach limit counts it; None if no limit applies."""
        if self.csi is not None:
            return self.csi if all(self.csi) else None
        return (self.disk.driver, self.disk.handle) if self.disk and self.disk.handle else None


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass.

    Attributes
    ----------
    binding_mode
        ``Immediate`` or ``WaitForFirstConsumer``; None if unset, which the API server does not allow.
    allowed_topologies
        The nodes that volumes can be provisioned for; None for all.
    driver
        The CSI driver whose attach limit counts its volumes; empty if none.
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
    """A CSINode; its name is that of its node.

    Attributes
    ----------
    limits
        The attach limit of each CSI driver on the node; drivers without a limit are left out.
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
    """A CSIDriver; ``storage_capacity`` tells whether it publishes CSIStorageCapacity objects."""

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
        Bytes; None if unset.
    nodes
        Selects the nodes by labels; None for no node.
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
        The persistent volume; empty for an inline volume of a pod.
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

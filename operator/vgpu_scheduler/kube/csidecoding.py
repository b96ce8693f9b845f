"""Decoding of CSI objects: attach limits, storage capacities, attached volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vgpu_scheduler.kube.decoding import Decode, decoder_of
from vgpu_scheduler.kube.storage import CSIDriver, CSINode, StorageCapacity, VolumeAttachment
from vgpu_scheduler.kube.storagedecoding import (
    bytes_of,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
    label_selector,
)
from vgpu_scheduler.kube.wire import Wire, WireLabelSelector, WireMeta

_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


class _WireAllocatable(Wire):
    """``VolumeNodeResources``."""

    count: int | None = None


class _WireNodeDriver(Wire):
    """``CSINodeDriver``."""

    name: str
    allocatable: _WireAllocatable | None = None


class _WireCSINodeSpec(Wire):
    """``CSINodeSpec``."""

    drivers: list[_WireNodeDriver] | None = None


class _WireCSINode(Wire):
    """``CSINode``."""

    metadata: WireMeta
    spec: _WireCSINodeSpec = msgspec.field(default_factory=_WireCSINodeSpec)


def _csi_node(wire: _WireCSINode) -> CSINode:
    meta = wire.metadata
    plugins = (meta.annotations or {}).get(_MIGRATED_PLUGINS, "")
    limits = {}
    for driver in wire.spec.drivers or ():
        if driver.allocatable is not None and driver.allocatable.count is not None:
            limits[driver.name] = driver.allocatable.count
    return CSINode(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.version,
        limits=limits,
        migrated_plugins=frozenset(plugins.split(",") if plugins else ()),
    )


decode_csi_node: Final[Decode[CSINode]] = decoder_of("CSINode", _WireCSINode, _csi_node)
"""Reads a CSINode."""


class _WireCSIDriverSpec(Wire):
    """``CSIDriverSpec``."""

    storage_capacity: bool | None = None


class _WireCSIDriver(Wire):
    """``CSIDriver``."""

    metadata: WireMeta
    spec: _WireCSIDriverSpec = msgspec.field(default_factory=_WireCSIDriverSpec)


def _csi_driver(wire: _WireCSIDriver) -> CSIDriver:
    meta = wire.metadata
    return CSIDriver(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.version,
        storage_capacity=bool(wire.spec.storage_capacity),
    )


decode_csi_driver: Final[Decode[CSIDriver]] = decoder_of("CSIDriver", _WireCSIDriver, _csi_driver)
"""Reads a CSIDriver."""


class _WireCapacity(Wire):
    """``CSIStorageCapacity``."""

    metadata: WireMeta
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None
    node_topology: WireLabelSelector | None = None


def _capacity(wire: _WireCapacity) -> StorageCapacity:
    meta = wire.metadata
    capacity = None if wire.capacity is None else bytes_of(wire.capacity, "capacity")
    if wire.maximum_volume_size is not None:
        capacity = bytes_of(wire.maximum_volume_size, "maximumVolumeSize")
    return StorageCapacity(
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        class_name=wire.storage_class_name,
        largest=capacity,
        nodes=label_selector(wire.node_topology, "nodeTopology"),
    )


decode_storage_capacity: Final[Decode[StorageCapacity]] = decoder_of("CSIStorageCapacity", _WireCapacity, _capacity)
"""Reads a CSIStorageCapacity."""


class _WireAttachmentSource(Wire):
    """``VolumeAttachmentSource``."""

    persistent_volume_name: str | None = None


class _WireAttachmentSpec(Wire):
    """``VolumeAttachmentSpec``."""

    attacher: str = ""
    node_name: str = ""
    source: _WireAttachmentSource = msgspec.field(default_factory=_WireAttachmentSource)


class _WireAttachment(Wire):
    """``VolumeAttachment``."""

    metadata: WireMeta
    spec: _WireAttachmentSpec


def _attachment(wire: _WireAttachment) -> VolumeAttachment:
    meta, spec = wire.metadata, wire.spec
    return VolumeAttachment(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.version,
        attacher=spec.attacher,
        node_name=spec.node_name,
        volume_name=spec.source.persistent_volume_name or "",
    )


decode_attachment: Final[Decode[VolumeAttachment]] = decoder_of("VolumeAttachment", _WireAttachment, _attachment)
"""Reads a VolumeAttachment."""


STORAGE_DECODERS: Final[Mapping[str, Decode[Any]]] = {
    "StorageClass": decode_storage_class,
    "CSIDriver": decode_csi_driver,
    "CSINode": decode_csi_node,
    "CSIStorageCapacity": decode_storage_capacity,
    "VolumeAttachment": decode_attachment,
    "PersistentVolume": decode_volume,
    "PersistentVolumeClaim": decode_volume_claim,
}
"""The decoders of all storage kinds."""

"""Decoding of claims, volumes and storage classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Decode, decoder_of
from vgpu_scheduler.kube.migration import (
    InTreeDisk,
    WireAzureDisk,
    WireGceDisk,
    WireVolumeId,
    csi_driver,
    disk_of,
    migrated_affinity,
    nameless,
)
from vgpu_scheduler.kube.quantities import QuantityError, to_int
from vgpu_scheduler.kube.selectors import (
    LabelSelector,
    NodeSelector,
    RawRequirement,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
)
from vgpu_scheduler.kube.storage import (
    SELECTED_NODE,
    ClaimReference,
    PersistentVolumeClaim,
    StorageClass,
    Volume,
)
from vgpu_scheduler.kube.wire import (
    FieldError,
    Quantities,
    Wire,
    WireLabelSelector,
    WireMeta,
    WireNodeSelector,
    WireResources,
)

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_FILESYSTEM: Final = "Filesystem"


def bytes_of(text: str | float, field: str) -> int:
    """Return a quantity in whole bytes, rounded up.

    Raises
    ------
    FieldError
        If it is not a quantity; it names the field.
    """
    try:
        return to_int(text)
    except QuantityError as error:
        raise FieldError(field, str(error)) from error


def label_selector(wire: WireLabelSelector | None, field: str) -> LabelSelector | None:
    """Return a compiled selector, None without one.

    Raises
    ------
    FieldError
        If the selector is invalid; it names the field.
    """
    try:
        return compile_label_selector(wire)
    except SelectorError as error:
        raise FieldError(field, str(error)) from error


# Claims --------------------------------------------------------------------------------------------------------------


class _WireClaimSpec(Wire):
    """``PersistentVolumeClaimSpec``."""

    access_modes: list[str] | None = None
    resources: WireResources | None = None
    selector: WireLabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class _WirePhase(Wire):
    """The status of a claim or a volume."""

    phase: str = ""


class _WireClaim(Wire):
    """``PersistentVolumeClaim``."""

    metadata: WireMeta
    spec: _WireClaimSpec
    status: _WirePhase = msgspec.field(default_factory=_WirePhase)


def _claim(wire: _WireClaim) -> PersistentVolumeClaim:
    meta, spec = wire.metadata, wire.spec
    annotations = meta.annotations or {}
    requests = (spec.resources.requests if spec.resources else None) or {}
    storage = requests.get("storage")
    return PersistentVolumeClaim(
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        class_name=annotations.get(_CLASS, spec.storage_class_name),
        volume_name=spec.volume_name,
        bind_completed=_BIND_COMPLETED in annotations,
        phase=wire.status.phase,
        deleting=meta.deletion_timestamp is not None,
        selected_node=annotations.get(SELECTED_NODE),
        access_modes=frozenset(spec.access_modes or ()),
        requested=None if storage is None else bytes_of(storage, "spec.resources.requests[storage]"),
        selector=label_selector(spec.selector, "spec.selector"),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        controller=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
    )


decode_volume_claim: Final[Decode[PersistentVolumeClaim]] = decoder_of("PersistentVolumeClaim", _WireClaim, _claim)
"""Reads a PersistentVolumeClaim."""


# Volumes -------------------------------------------------------------------------------------------------------------


class _WireClaimReference(Wire):
    """The claim of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class _WireVolumeAffinity(Wire):
    """``VolumeNodeAffinity``."""

    required: WireNodeSelector | None = None


class _WireCSI(Wire):
    """``CSIPersistentVolumeSource``."""

    driver: str = ""
    volume_handle: str = ""


class _WireVolumeSpec(Wire):
    """``PersistentVolumeSpec``."""

    capacity: Quantities | None = None
    access_modes: list[str] | None = None
    claim_ref: _WireClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: _WireVolumeAffinity | None = None
    csi: _WireCSI | None = None
    gce_persistent_disk: WireGceDisk | None = msgspec.field(default=None, name="gcePersistentDisk")
    aws_elastic_block_store: WireVolumeId | None = msgspec.field(default=None, name="awsElasticBlockStore")
    cinder: WireVolumeId | None = None
    azure_disk: WireAzureDisk | None = None
    portworx_volume: WireVolumeId | None = None


class _WireVolume(Wire):
    """``PersistentVolume``."""

    metadata: WireMeta
    spec: _WireVolumeSpec
    status: _WirePhase = msgspec.field(default_factory=_WirePhase)


def _volume(wire: _WireVolume) -> Volume:
    meta, spec = wire.metadata, wire.spec
    labels, annotations = meta.labels or {}, meta.annotations or {}
    affinity = spec.node_affinity.required if spec.node_affinity else None
    terms = (affinity.node_selector_terms or []) if affinity else None
    disk = _disk(spec, labels)
    return Volume(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.version,
        labels=labels,
        class_name=annotations.get(_CLASS, spec.storage_class_name),
        capacity=bytes_of((spec.capacity or {}).get("storage", 0), "spec.capacity[storage]"),
        access_modes=frozenset(spec.access_modes or ()),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        claim=_reference(spec.claim_ref),
        phase=wire.status.phase,
        deleting=meta.deletion_timestamp is not None,
        node_affinity=None
        if terms is None
        else nameless(compile_node_selector((term.match_expressions or (), term.match_fields or ()) for term in terms)),
        csi=(spec.csi.driver, spec.csi.volume_handle) if spec.csi else None,
        disk=disk,
        migrated_affinity=migrated_affinity(disk.plugin, terms, labels) if disk else None,
    )


decode_volume: Final[Decode[Volume]] = decoder_of("PersistentVolume", _WireVolume, _volume)
"""Reads a PersistentVolume."""


def _reference(wire: _WireClaimReference | None) -> ClaimReference | None:
    return None if wire is None else ClaimReference(wire.namespace, wire.name, wire.uid)


def _disk(spec: _WireVolumeSpec, labels: Mapping[str, str]) -> InTreeDisk | None:
    for source, disk in (
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("cinder", spec.cinder),
        ("azureDisk", spec.azure_disk),
        ("portworxVolume", spec.portworx_volume),
    ):
        if disk is not None:
            return disk_of(source, disk, labels)
    return None


# Classes ------------------------------------------------------------------------------------------------------------


class _WireTopologyRequirement(Wire):
    """``TopologySelectorLabelRequirement``."""

    key: str
    values: list[str] | None = None


class _WireTopologyTerm(Wire):
    """``TopologySelectorTerm``."""

    match_label_expressions: list[_WireTopologyRequirement] | None = None


class _WireClass(Wire):
    """``StorageClass``."""

    metadata: WireMeta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_WireTopologyTerm] | None = None


def _class(wire: _WireClass) -> StorageClass:
    meta = wire.metadata
    return StorageClass(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.version,
        provisioner=wire.provisioner,
        binding_mode=wire.volume_binding_mode,
        allowed_topologies=_topologies(wire.allowed_topologies),
        driver=csi_driver(wire.provisioner),
    )


decode_storage_class: Final[Decode[StorageClass]] = decoder_of("StorageClass", _WireClass, _class)
"""Reads a StorageClass."""


def _topologies(terms: list[_WireTopologyTerm] | None) -> NodeSelector | None:
    if not terms:
        return None
    return compile_node_selector(
        ([RawRequirement(e.key, "In", e.values) for e in term.match_label_expressions or ()], ()) for term in terms
    )

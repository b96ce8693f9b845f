"""The volumes of a pod that restrict its nodes: claims and inline in-tree disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from vgpu_scheduler.kube.migration import InTreeDisk, WireAzureDisk, WireGceDisk, WireVolumeId, disk_of
from vgpu_scheduler.kube.wire import FieldError, Wire

# Sources that do not restrict nodes: files made by the kubelet, directories of the node, and network file systems that
# every node can mount. kube-scheduler ignores them too.
_UNCONSTRAINED: Final = frozenset({
    "name", "azureFile", "cephfs", "configMap", "csi", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
    "gitRepo", "glusterfs", "hostPath", "image", "nfs", "photonPersistentDisk", "projected", "quobyte", "scaleIO",
    "secret", "storageos", "vsphereVolume",
})  # fmt: skip

DiskKey = tuple[str, ...]
"""A disk that two pods on one node may only share read-only: the source and the disk's id."""


class ClaimVolume(msgspec.Struct, frozen=True):
    """A volume that refers to a claim.

    Attributes
    ----------
    name
        The name of the claim; for a generic ephemeral volume the name of the volume.
    ephemeral
        Whether it is a generic ephemeral volume, whose claim is named ``<pod>-<volume>`` and controlled by the pod.
    """

    name: str
    ephemeral: bool = False

    def claim(self, pod: str) -> str:
        """Return the name of the claim for a pod of this name."""
        return f"{pod}-{self.name}" if self.ephemeral else self.name


class InlineDisk(msgspec.Struct, frozen=True):
    """An inline in-tree disk of a pod.

    Attributes
    ----------
    keys
        The keys of the disk; disks with a common key are the same. Empty for disks that pods may share.
    migrated
        Its translation to a CSI volume; None if there is none.
    read_only
        Whether it may be shared with other readers.
    """

    keys: tuple[DiskKey, ...]
    migrated: InTreeDisk | None = None
    read_only: bool = False


class PodVolumes(msgspec.Struct, frozen=True):
    """The volumes of a pod that restrict its nodes.

    Attributes
    ----------
    unknown
        Index and source of each volume of an unknown type.
    """

    claims: tuple[ClaimVolume, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    unknown: tuple[tuple[int, str], ...] = ()


class _WireClaimSource(Wire):
    """``PersistentVolumeClaimVolumeSource``."""

    claim_name: str


class _WireIscsi(Wire):
    """``ISCSIVolumeSource``."""

    iqn: str = ""
    read_only: bool = False


class _WireRbd(Wire):
    """``RBDVolumeSource``."""

    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


_SOURCES: Final[Mapping[str, type[Wire]]] = {
    "gcePersistentDisk": WireGceDisk,
    "awsElasticBlockStore": WireVolumeId,
    "azureDisk": WireAzureDisk,
    "cinder": WireVolumeId,
    "iscsi": _WireIscsi,
    "portworxVolume": WireVolumeId,
    "rbd": _WireRbd,
}
_NOTHING: Final = PodVolumes()

_Wire = TypeVar("_Wire")


def read_pod_volumes(volumes: Sequence[Mapping[str, Any]]) -> PodVolumes:
    """Read the volumes of a pod.

    Raises
    ------
    FieldError
        If a field that is read is missing or has the wrong type.
    """
    claims, disks, unknown = [], [], []
    for index, volume in enumerate(volumes):
        for source in sorted(volume.keys() - _UNCONSTRAINED):
            field = f"spec.volumes[{index}].{source}"
            if source == "persistentVolumeClaim":
                claims.append(ClaimVolume(_typed(volume[source], _WireClaimSource, field).claim_name))
            elif source == "ephemeral":
                claims.append(
                    ClaimVolume(_typed(volume.get("name"), str, f"spec.volumes[{index}].name"), ephemeral=True)
                )
            elif source in _SOURCES:
                disks.append(_inline_disk(source, _typed(volume[source], _SOURCES[source], field)))
            else:
                unknown.append((index, source))
                break
    return PodVolumes(tuple(claims), tuple(disks), tuple(unknown)) if claims or disks or unknown else _NOTHING


def _typed(content: object, wire: type[_Wire], field: str) -> _Wire:
    try:
        return msgspec.convert(content, wire)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise FieldError(field + path.rstrip("`"), problem) from error


def _inline_disk(source: str, wire: Wire) -> InlineDisk:
    migrated = disk_of(source, wire)
    if isinstance(wire, WireGceDisk):
        return InlineDisk(((source, wire.pd_name),), migrated, read_only=wire.read_only)
    if isinstance(wire, WireVolumeId) and source == "awsElasticBlockStore":
        return InlineDisk(((source, wire.volume_id),), migrated)  # not shared, even read-only
    if isinstance(wire, _WireIscsi):
        return InlineDisk(((source, wire.iqn),), read_only=wire.read_only)
    if isinstance(wire, _WireRbd):
        keys = tuple((source, monitor, wire.pool, wire.image) for monitor in wire.monitors or ())
        return InlineDisk(keys, read_only=wire.read_only)
    return InlineDisk((), migrated, read_only=True)

"""The volumes of a pod, as far as they restrict where it can go: claims, and in-tree disks that it names itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from vgpu_scheduler.kube.migration import InTreeDisk, WireAzureDisk, WireGceDisk, WireVolumeId, disk_of
from vgpu_scheduler.kube.wire import FieldError, Wire

__all__ = ["ClaimVolume", "DiskKey", "InlineDisk", "PodVolumes", "read_pod_volumes"]

# Sources that are there on whatever node the pod lands: files made by the kubelet, directories of the node, and network
# file systems that every node can mount. kube-scheduler does not look at them either.
_UNCONSTRAINED: Final = frozenset({
    "name", "azureFile", "cephfs", "configMap", "csi", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
    "gitRepo", "glusterfs", "hostPath", "image", "nfs", "photonPersistentDisk", "projected", "quobyte", "scaleIO",
    "secret", "storageos", "vsphereVolume",
})  # fmt: skip

DiskKey = tuple[str, ...]
"""What two pods must not use on one node unless both only read: the source, and what it calls the disk."""


class ClaimVolume(msgspec.Struct, frozen=True):
    """A volume that a claim stands for.

    Attributes
    ----------
    name
        The claim; for a generic ephemeral volume the name of the volume.
    ephemeral
        Whether the claim is made for the pod, is called ``<pod>-<volume>``, and must be the pod's own.
    """

    name: str
    ephemeral: bool = False

    def claim(self, pod: str) -> str:
        """Return the name of the claim for a pod of this name."""
        return f"{pod}-{self.name}" if self.ephemeral else self.name


class InlineDisk(msgspec.Struct, frozen=True):
    """An in-tree disk that a pod names itself.

    Attributes
    ----------
    keys
        What the disk is known by; disks that share a key are the same. Empty for those that pods may share.
    migrated
        The CSI volume that it is served as; None if it is none.
    read_only
        Whether it may be shared with others that only read.
    """

    keys: tuple[DiskKey, ...]
    migrated: InTreeDisk | None = None
    read_only: bool = False


class PodVolumes(msgspec.Struct, frozen=True):
    """The volumes of a pod that restrict where it can go.

    Attributes
    ----------
    unknown
        Index and source of each volume that this program has never heard of.
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
        return InlineDisk(((source, wire.volume_id),), migrated)  # one pod, even if it only reads
    if isinstance(wire, _WireIscsi):
        return InlineDisk(((source, wire.iqn),), read_only=wire.read_only)
    if isinstance(wire, _WireRbd):
        keys = tuple((source, monitor, wire.pool, wire.image) for monitor in wire.monitors or ())
        return InlineDisk(keys, read_only=wire.read_only)
    return InlineDisk((), migrated, read_only=True)

"""Translation of in-tree disks to volumes of the CSI drivers that serve them now.

Kubernetes serves the disks of five in-tree plugins through CSI drivers (*CSI migration*). This matters to a scheduler
in two ways: the driver's attach limit counts such a disk under its CSI handle, and on nodes where the plugin is
migrated, the volume's node affinity uses the CSI driver's topology key. The rules are those of
``k8s.io/csi-translation-lib`` 0.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from vgpu_scheduler.kube.selectors import NodeSelector, NodeSelectorTerm, RawRequirement, compile_node_selector
from vgpu_scheduler.kube.wire import Wire, WireNodeSelectorTerm
from vgpu_scheduler.kube.zones import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from vgpu_scheduler.model import quoted

_GCE: Final = "kubernetes.io/gce-pd"
_EBS: Final = "kubernetes.io/aws-ebs"
_AZURE_DISK: Final = "kubernetes.io/azure-disk"
_CINDER: Final = "kubernetes.io/cinder"
_PORTWORX: Final = "kubernetes.io/portworx-volume"

_DRIVERS: Final = {
    _GCE: "pd.csi.storage.gke.io",
    _EBS: "ebs.csi.aws.com",
    _AZURE_DISK: "disk.csi.azure.com",
    _CINDER: "cinder.csi.openstack.org",
    _PORTWORX: "pxd.portworx.com",
}
"""The CSI driver of each in-tree plugin that kube-scheduler treats as migrated."""
_NOT_COUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""In-tree plugins with a CSI driver that kube-scheduler does not treat as migrated."""
_TOPOLOGY_KEYS: Final = {
    _GCE: "topology.gke.io/zone",
    _EBS: "topology.ebs.csi.aws.com/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
_UNKNOWN: Final = "UNSPECIFIED"


_Terms = list[tuple[list[RawRequirement], Sequence[RawRequirement]]]


class InTreeDisk(msgspec.Struct, frozen=True):
    """A disk of an in-tree plugin, translated to a CSI volume.

    Attributes
    ----------
    plugin
        Name of the in-tree plugin; nodes list the plugins that are migrated there.
    driver, handle
        The CSI driver and the volume handle; the handle is empty if there is a problem.
    problem
        Why the disk cannot be translated; empty if it can.
    """

    plugin: str
    driver: str
    handle: str
    problem: str = ""


class WireGceDisk(Wire):
    """``GCEPersistentDiskVolumeSource``."""

    pd_name: str = msgspec.field(name="pdName")
    read_only: bool = False


class WireVolumeId(Wire):
    """``volumeID`` of an EBS volume, a Cinder or a Portworx volume."""

    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class WireAzureDisk(Wire):
    """``AzureDiskVolumeSource``."""

    disk_uri: str = msgspec.field(name="diskURI")
    kind: str | None = None


def csi_driver(provisioner: str) -> str:
    """Return the CSI driver of a provisioner's volumes; empty if kube-scheduler does not count these volumes."""
    return "" if provisioner in _NOT_COUNTED else _DRIVERS.get(provisioner, provisioner)


def disk_of(source: str, wire: object, labels: Mapping[str, str] | None = None) -> InTreeDisk | None:
    """Translate a disk to a CSI volume.

    Parameters
    ----------
    source
        The source field of the volume, such as ``awsElasticBlockStore``.
    wire
        The content of the field.
    labels
        The labels of the persistent volume; None for an inline disk of a pod.

    Returns
    -------
    InTreeDisk or None
        None for a source that has no CSI driver.
    """
    if isinstance(wire, WireGceDisk):
        return _gce(wire.pd_name, labels or {})
    if isinstance(wire, WireAzureDisk):
        if wire.kind is not None and wire.kind.lower() != "managed":
            return _disk(_AZURE_DISK, "", f"kind({wire.kind}) is not supported in csi migration")
        return _disk(_AZURE_DISK, wire.disk_uri)
    if isinstance(wire, WireVolumeId):
        if source == "awsElasticBlockStore":
            return _ebs(wire.volume_id)
        return _disk(_CINDER if source == "cinder" else _PORTWORX, wire.volume_id)
    return None


def _disk(plugin: str, handle: str, problem: str = "") -> InTreeDisk:
    return InTreeDisk(plugin, _DRIVERS[plugin], handle, problem)


def _gce(name: str, labels: Mapping[str, str]) -> InTreeDisk:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(ZONE_DELIMITER)
    if len(zones) == 1:
        return _disk(_GCE, f"projects/{_UNKNOWN}/zones/{zones[0] or _UNKNOWN}/disks/{name}")
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            return _disk(_GCE, "", f"failed to get region from zones: {quoted(zone)} is not a zone")
        regions.add("-".join(parts[:2]))
    if len(regions) > 1:
        return _disk(_GCE, "", f"failed to get region from zones: they are in {', '.join(sorted(regions))}")
    return _disk(_GCE, f"projects/{_UNKNOWN}/regions/{regions.pop()}/disks/{name}")


def _ebs(volume: str) -> InTreeDisk:
    """``aws://zone/vol-1``, ``aws:///vol-1`` and ``vol-1`` are the same."""
    if not volume.startswith("aws://"):
        return _disk(_EBS, volume)
    try:
        handle = urlsplit(volume).path.strip("/")
    except ValueError:
        handle = ""
    if not handle.startswith("vol-") or "/" in handle:
        return _disk(_EBS, "", f"failed to translate Kubernetes ID to EBS Volume ID: {quoted(volume)} is none")
    return _disk(_EBS, handle)


def migrated_affinity(
    plugin: str, terms: Sequence[WireNodeSelectorTerm] | None, labels: Mapping[str, str]
) -> NodeSelector | None:
    """Return the node affinity of a volume on nodes where its plugin is migrated.

    The zone label is replaced by the CSI driver's topology key; if the affinity names no zone, the zones of the
    volume's zone label are added.

    Parameters
    ----------
    terms
        The volume's required node affinity; None without one.
    labels
        The labels of the volume.
    """
    pairs: _Terms = [(list(term.match_expressions or ()), term.match_fields or ()) for term in terms or ()]
    topology_key = _TOPOLOGY_KEYS.get(plugin)
    if topology_key is not None:
        pairs = _with_topology(pairs, topology_key, labels)
    return nameless(compile_node_selector(pairs)) if pairs or terms is not None else None


def nameless(selector: NodeSelector) -> NodeSelector:
    """Return a volume's node affinity without node names, because kube-scheduler matches it with node labels only."""
    return NodeSelector(
        tuple(
            NodeSelectorTerm(term.expressions, ())
            for term in selector.terms
            if all(field.matches("") for field in term.fields)
        ),
        None,
    )


def _with_topology(pairs: _Terms, topology_key: str, labels: Mapping[str, str]) -> _Terms:
    zone_label, region_label = _topology_labels(pairs, labels)
    renamed = {}
    if _values(pairs, zone_label):
        renamed[zone_label] = topology_key
    else:
        zones = sorted({zone.strip() for zone in labels.get(zone_label, "").split(ZONE_DELIMITER)} - {""})
        if zones:
            inside = RawRequirement(topology_key, "In", zones)
            pairs = [([*expressions, inside], fields) for expressions, fields in pairs or [([], ())]]
    if region_label == BETA_REGION and _values(pairs, region_label):
        renamed[region_label] = REGION
    return [
        ([msgspec.structs.replace(e, key=renamed.get(e.key, e.key)) for e in expressions], fields)
        for expressions, fields in pairs
    ]


def _topology_labels(pairs: _Terms, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the zone and region labels that a volume uses: those in its affinity, else those among its labels."""
    for keys in ({e.key for expressions, _ in pairs for e in expressions}, labels.keys()):
        for zone, region in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)):
            if zone in keys:
                return zone, region
    return ZONE, REGION


def _values(pairs: _Terms, key: str) -> bool:
    return any(e.key == key and e.values for expressions, _ in pairs for e in expressions)

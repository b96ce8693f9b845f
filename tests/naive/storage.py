"""Storage objects as the API server has them, and what the naive twin asks of one of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.naive.predicates import Obj

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
IN_TREE = {  # source: plugin, driver, topology key
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", None),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", None),
}


@dataclass
class Storage:
    """The objects of each kind by ``namespace/name`` or name."""

    claims: dict[str, Obj] = field(default_factory=dict)
    volumes: dict[str, Obj] = field(default_factory=dict)
    classes: dict[str, Obj] = field(default_factory=dict)
    csi_nodes: dict[str, Obj] = field(default_factory=dict)
    csi_drivers: dict[str, Obj] = field(default_factory=dict)
    capacities: dict[str, Obj] = field(default_factory=dict)
    attachments: dict[str, Obj] = field(default_factory=dict)


def volumes_of(pod: Obj) -> list[Obj]:
    return pod["spec"].get("volumes") or []


def claim_key(pod: Obj, volume: Obj) -> str | None:
    meta = pod["metadata"]
    if "persistentVolumeClaim" in volume:
        return f"{meta['namespace']}/{volume['persistentVolumeClaim']['claimName']}"
    return f"{meta['namespace']}/{meta['name']}-{volume['name']}" if "ephemeral" in volume else None


def key_of(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def notes(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def labels_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def class_name(obj: Obj) -> str:
    return notes(obj).get(BETA_CLASS, obj["spec"].get("storageClassName") or "")


def size(text: str | None) -> int:
    if text is None:
        return 0
    for suffix, unit in (("Gi", 1 << 30), ("Mi", 1 << 20)):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * unit
    return int(text)


def requested(claim: Obj) -> str | None:
    found: str | None = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    return found


def is_bound(claim: Obj) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in notes(claim)


def owned(claim: Obj, pod: Obj) -> bool:
    owners = [owner for owner in claim["metadata"].get("ownerReferences") or [] if owner.get("controller")]
    return bool(owners) and owners[0]["uid"] == pod["metadata"]["uid"]


def affinity(volume: Obj) -> list[Obj] | None:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return None if required is None else required.get("nodeSelectorTerms") or []


# In-tree disks -------------------------------------------------------------------------------------------------------


def handle(source: str, disk: Obj, labels: dict[str, str]) -> tuple[str, str]:
    """What the CSI driver calls an in-tree disk, and what is wrong with it."""
    if source == "gcePersistentDisk":
        text = labels.get("failure-domain.beta.kubernetes.io/zone") or labels.get("topology.kubernetes.io/zone") or ""
        zones = text.split("__")
        if len(zones) > 1:
            if any(zone.count("-") != 2 for zone in zones) or len({zone.rsplit("-", 1)[0] for zone in zones}) > 1:
                return "", "failed to get region from zones"
            return f"projects/UNSPECIFIED/regions/{zones[0].rsplit('-', 1)[0]}/disks/{disk['pdName']}", ""
        return f"projects/UNSPECIFIED/zones/{text or 'UNSPECIFIED'}/disks/{disk['pdName']}", ""
    if source == "awsElasticBlockStore":
        volume = disk["volumeID"]
        if not volume.startswith("aws://"):
            return volume, ""
        last = volume.split("/")[-1]
        return (last, "") if last.startswith("vol-") else ("", "failed to translate Kubernetes ID to EBS Volume ID")
    if source == "azureDisk":
        wrong = disk.get("kind", "Managed").lower() != "managed"
        return (disk["diskURI"], "kind is not supported in csi migration" if wrong else "")
    return disk["volumeID"], ""


def translated(volume: Obj, terms: list[Obj] | None, topology: str | None) -> list[Obj] | None:
    """The affinity where the zone is the CSI driver's topology."""
    if topology is None:
        return terms
    asked = {e["key"] for term in terms or [] for e in term.get("matchExpressions") or []}
    pairs = [("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
             ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")]  # fmt: skip
    used = [pair for keys in (asked, labels_of(volume)) for pair in pairs if pair[0] in keys]
    zone, region = [*used, pairs[0]][0]

    def says(key: str) -> bool:
        return any(
            e["key"] == key and e.get("values") for term in terms or [] for e in term.get("matchExpressions") or []
        )

    renamed = {zone: topology} if says(zone) else {}
    if region.startswith("failure") and says(region):
        renamed[region] = "topology.kubernetes.io/region"
    changed: list[Obj] | None = None if terms is None else [
        {**term, "matchExpressions": [
            {**e, "key": renamed.get(e["key"], e["key"])} for e in term.get("matchExpressions") or []
        ]} for term in terms
    ]  # fmt: skip
    zones = [part.strip() for part in labels_of(volume).get(zone, "").split("__") if part.strip()]
    if not says(zone) and zones:
        inside = {"key": topology, "operator": "In", "values": zones}
        changed = [
            {**term, "matchExpressions": [*term.get("matchExpressions", []), inside]} for term in changed or [{}]
        ]
    return changed

"""Storage objects, and what a pod's volumes come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.kube.objects import Obj, pod
from tests.kube.storage_objects import (
    BETA_CLASS,
    SELECTED_NODE,
    attachment,
    claim,
    claim_volume,
    csi,
    csi_driver,
    csi_node,
    ephemeral_volume,
    storage_capacity,
    storage_class,
    volume,
)

from vgpu_scheduler.kube import (
    ClaimReference,
    ClaimVolume,
    DecodeError,
    Encoded,
    InlineDisk,
    NodeSelector,
    Volume,
    decode_attachment,
    decode_csi_driver,
    decode_csi_node,
    decode_pod,
    decode_storage_capacity,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE, GKE_ZONE = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"


def test_claim() -> None:
    owners = [{"uid": "other"}, {"uid": "the-pod", "controller": True}]
    found = decode_volume_claim(
        claim(
            size="1500m",
            meta={"annotations": {SELECTED_NODE: "n1"}, "ownerReferences": owners, "deletionTimestamp": "2026"},
            selector={"matchLabels": {"disk": "fast"}},
            volumeMode="Block",
            volumeAttributesClassName="gold",
        )
    )
    assert (found.key, found.uid, found.resource_version, found.phase) == ("ns/c", "uid-c", 5, "Pending")
    assert (found.class_name, found.requested, found.access_modes) == ("sc", 2, {"ReadWriteOnce"})
    assert (found.selected_node, found.controller, found.deleting) == ("n1", "the-pod", True)
    assert (found.volume_mode, found.attributes_class) == ("Block", "gold")
    assert found.selector is not None
    assert found.selector.matches({"disk": "fast"})
    assert not found.selector.matches({})
    assert not found.bound


def test_a_claim_says_little() -> None:
    found = decode_volume_claim({"metadata": {"name": "c"}, "spec": {}})
    assert (found.key, found.class_name, found.requested, found.selector) == ("default/c", None, None, None)
    assert (found.volume_mode, found.volume_name, found.selected_node) == ("Filesystem", "", None)
    assert (found.controller, found.attributes_class, found.access_modes) == ("", "", frozenset())


@pytest.mark.parametrize(
    ("annotated", "said", "means"),
    [(None, None, None), (None, "", ""), (None, "a", "a"), ("b", "a", "b"), ("", "a", ""), ("b", None, "b")],
)
def test_the_class_of_a_claim(annotated: str | None, said: str | None, means: str | None) -> None:
    meta = {} if annotated is None else {"annotations": {BETA_CLASS: annotated}}
    assert decode_volume_claim(claim(storage_class=said, meta=meta)).class_name == means


def test_a_claim_is_bound_when_its_binding_is_complete() -> None:
    assert decode_volume_claim(claim(volume="v")).bound
    assert not decode_volume_claim(claim(volumeName="v")).bound


def test_volume() -> None:
    found = decode_volume(
        volume(
            size="10Gi",
            bound_to=claim("mine"),
            nodes={"zone": ["a", "b"]},
            meta={"labels": {"x": "y"}, "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            csi=csi("handle"),
            volumeMode="Block",
            volumeAttributesClassName="gold",
        )
    )
    assert (found.name, found.uid, found.resource_version, found.phase) == ("v", "uid-v", 5, "Bound")
    assert (found.class_name, found.capacity, found.access_modes) == ("sc", 10 << 30, {"ReadWriteOnce"})
    assert (found.volume_mode, found.attributes_class, found.labels) == ("Block", "gold", {"x": "y"})
    assert found.claim == ClaimReference("ns", "mine", "uid-mine")
    assert not found.deleting
    assert (found.csi, found.attached_as, found.disk) == (("csi.example.com", "handle"),) * 2 + (None,)
    assert found.node_affinity is not None
    assert [found.node_affinity.matches("", {"zone": zone}) for zone in "abc"] == [True, True, False]


def test_a_volume_says_little() -> None:
    found = decode_volume({"metadata": {"name": "v"}, "spec": {}})
    assert (found.class_name, found.capacity, found.claim, found.node_affinity) == ("", 0, None, None)
    assert (found.csi, found.disk, found.attached_as, found.volume_mode) == (None, None, None, "Filesystem")
    assert decode_volume(volume(meta={"annotations": {BETA_CLASS: "old"}})).class_name == "old"
    assert decode_volume(volume(csi={"driver": "d"})).attached_as is None


def test_an_empty_affinity_matches_no_node() -> None:
    found = decode_volume(volume(nodeAffinity={"required": {"nodeSelectorTerms": []}}))
    assert found.node_affinity is not None
    assert not found.node_affinity.matches("", {})
    assert decode_volume(volume(nodeAffinity={})).node_affinity is None


def test_a_reference_is_about_a_claim() -> None:
    mine = decode_volume_claim(claim("mine"))
    assert ClaimReference("ns", "mine", "").is_about(mine)
    assert ClaimReference("ns", "mine", "uid-mine").is_about(mine)
    assert not ClaimReference("ns", "mine", "of-an-earlier-one").is_about(mine)
    assert not ClaimReference("ns", "other", "").is_about(mine)
    assert not ClaimReference("other", "mine", "").is_about(mine)


def test_storage_class() -> None:
    found = decode_storage_class(storage_class(topologies=[{"zone": ["a", "b"], "kind": ["x"]}, {}]))
    assert (found.name, found.provisioner, found.driver) == ("sc", "csi.example.com", "csi.example.com")
    assert (found.binding_mode, found.provisions) == ("WaitForFirstConsumer", True)
    assert found.allowed_topologies is not None
    nodes = [{"zone": "a", "kind": "x"}, {"zone": "b", "kind": "x"}, {"zone": "a"}, {}]
    assert [found.allowed_topologies.matches("", labels) for labels in nodes] == [True, True, False, False]
    assert decode_storage_class(storage_class(topologies=[])).allowed_topologies is None
    assert decode_storage_class({"metadata": {"name": "sc"}}).binding_mode is None


@pytest.mark.parametrize(
    ("provisioner", "driver", "provisions"),
    [
        ("kubernetes.io/no-provisioner", "kubernetes.io/no-provisioner", False),
        ("", "", False),
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
        ("kubernetes.io/azure-disk", "disk.csi.azure.com", True),
        ("kubernetes.io/cinder", "cinder.csi.openstack.org", True),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com", True),
        ("kubernetes.io/azure-file", "", True),
        ("kubernetes.io/vsphere-volume", "", True),
    ],
)
def test_the_driver_of_a_class(provisioner: str, driver: str, *, provisions: bool) -> None:
    found = decode_storage_class(storage_class(provisioner=provisioner))
    assert (found.driver, found.provisions) == (driver, provisions)


def test_what_csi_drivers_say() -> None:
    node = decode_csi_node(csi_node("n1", limits={"a": 3, "b": None, "c": 0}, migrated="x,y"))
    assert (node.name, node.limits, node.migrated_plugins) == ("n1", {"a": 3, "c": 0}, {"x", "y"})
    assert decode_csi_node({"metadata": {"name": "n"}}).migrated_plugins == frozenset()
    assert [decode_csi_driver(csi_driver(storage_capacity=told)).storage_capacity for told in (True, False, None)] == [
        True, False, False,
    ]  # fmt: skip
    attached = decode_attachment(attachment())
    assert (attached.attacher, attached.node_name, attached.volume_name) == ("csi.example.com", "n", "v")
    assert decode_attachment(attachment(volume=None)).volume_name == ""


@pytest.mark.parametrize(
    ("amounts", "largest"),
    [({}, None), ({"capacity": "1Ki"}, 1024), ({"capacity": "9Ki", "maximumVolumeSize": "1Ki"}, 1024)],
)
def test_storage_capacity(amounts: dict[str, str], largest: int | None) -> None:
    found = decode_storage_capacity(storage_capacity(nodes={"matchLabels": {"zone": "a"}}, **amounts))
    assert (found.key, found.class_name, found.largest) == ("kube-system/cap", "sc", largest)
    assert found.nodes is not None
    assert found.nodes.matches({"zone": "a"})
    assert decode_storage_capacity(storage_capacity()).nodes is None


# In-tree disks -------------------------------------------------------------------------------------------------------


def disk_volume(labels: dict[str, str] | None = None, nodes: Obj | None = None, **source: Any) -> Volume:
    return decode_volume(volume(meta={"labels": labels or {}}, nodes=nodes, **source))


@pytest.mark.parametrize(
    ("labels", "source", "attached_as"),
    [
        ({}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({}, {"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({}, {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({}, {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk-1"}}, None),
        ({}, {"awsElasticBlockStore": {"volumeID": "aws://["}}, None),
        ({}, {"gcePersistentDisk": {"pdName": "pd"}},
         ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd")),
        ({ZONE: "us-a-1"}, {"gcePersistentDisk": {"pdName": "pd"}},
         ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a-1/disks/pd")),
        ({ZONE: "x", BETA_ZONE: "us-a-1__us-a-2"}, {"gcePersistentDisk": {"pdName": "pd"}},
         ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-a/disks/pd")),
        ({ZONE: "us-a-1__us-b-1"}, {"gcePersistentDisk": {"pdName": "pd"}}, None),
        ({ZONE: "here__there"}, {"gcePersistentDisk": {"pdName": "pd"}}, None),
        ({}, {"cinder": {"volumeID": "c1"}}, ("cinder.csi.openstack.org", "c1")),
        ({}, {"portworxVolume": {"volumeID": "p1"}}, ("pxd.portworx.com", "p1")),
        ({}, {"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": "Managed"}}, ("disk.csi.azure.com", "/uri")),
        ({}, {"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": "Shared"}}, None),
        ({}, {"azureFile": {"shareName": "s", "secretName": "x"}}, None),
        ({}, {"vsphereVolume": {"volumePath": "x"}}, None),
        ({}, {"hostPath": {"path": "/x"}}, None),
    ],
)  # fmt: skip
def test_what_an_in_tree_disk_is_attached_as(
    labels: dict[str, str], source: Obj, attached_as: tuple[str, str] | None
) -> None:
    assert disk_volume(labels, **source).attached_as == attached_as


def migrated(labels: dict[str, str], nodes: Obj | None, **source: Any) -> NodeSelector | None:
    return disk_volume(labels, nodes, **source).migrated_affinity


def test_the_zone_of_an_affinity_becomes_the_drivers_topology() -> None:
    ebs = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    for key in (ZONE, BETA_ZONE):
        found = migrated({}, {key: ["a"], "kind": ["x"]}, **ebs)
        assert found is not None
        assert found.matches("", {EBS_ZONE: "a", "kind": "x"})
        assert not found.matches("", {key: "a", "kind": "x"})


def test_the_zones_of_a_label_become_the_drivers_topology() -> None:
    gce = {"gcePersistentDisk": {"pdName": "pd"}}
    found = migrated({ZONE: "us-a-1__ us-a-2"}, None, **gce)
    assert found is not None
    assert [found.matches("", {GKE_ZONE: zone}) for zone in ("us-a-1", "us-a-2", "us-a-3")] == [True, True, False]
    both = migrated({ZONE: "us-a-1"}, {"kind": ["x"]}, **gce)
    assert both is not None
    assert both.matches("", {GKE_ZONE: "us-a-1", "kind": "x"})
    assert not both.matches("", {"kind": "x"})
    assert migrated({ZONE: "__"}, None, **gce) is None
    # The affinity says which pair of labels is in use.
    old = migrated({ZONE: "new", BETA_ZONE: "old"}, {BETA_ZONE: ["b"], BETA_REGION: ["r"]}, **gce)
    assert old is not None
    assert old.matches("", {GKE_ZONE: "b", REGION: "r"})


def test_some_drivers_have_no_topology() -> None:
    found = migrated({ZONE: "a"}, {ZONE: ["b"]}, azureDisk={"diskURI": "u"})
    assert found is not None
    assert found.matches("", {ZONE: "b"})
    assert migrated({ZONE: "a"}, None, portworxVolume={"volumeID": "p"}) is None


# Pods ----------------------------------------------------------------------------------------------------------------


def test_the_claims_of_a_pod() -> None:
    spec = decode_pod(pod(volumes=[{"name": "x", "emptyDir": {}}, claim_volume("data"), ephemeral_volume("tmp")])).spec
    assert spec.volume_claims == (ClaimVolume("data"), ClaimVolume("tmp", ephemeral=True))
    assert [each.claim("web-0") for each in spec.volume_claims] == ["data", "web-0-tmp"]
    assert (spec.disks, spec.unknown_volumes) == ((), ())


def test_volumes_are_no_part_of_what_is_decided_per_node() -> None:
    plain, other = decode_pod(pod()).spec, decode_pod(pod(volumes=[claim_volume("a")])).spec
    assert plain.node_fingerprint == other.node_fingerprint
    assert plain.fingerprint != other.fingerprint
    assert other.fingerprint != decode_pod(pod(volumes=[claim_volume("b")])).spec.fingerprint


@pytest.mark.parametrize(
    ("source", "keys", "read_only", "driver"),
    [
        ({"gcePersistentDisk": {"pdName": "pd"}}, [("gcePersistentDisk", "pd")], False, "pd.csi.storage.gke.io"),
        ({"gcePersistentDisk": {"pdName": "pd", "readOnly": True}}, [("gcePersistentDisk", "pd")], True,
         "pd.csi.storage.gke.io"),
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, [("awsElasticBlockStore", "v")], False,
         "ebs.csi.aws.com"),
        ({"iscsi": {"iqn": "q", "readOnly": True}}, [("iscsi", "q")], True, ""),
        ({"rbd": {"monitors": ["m1", "m2"], "image": "i"}}, [("rbd", "m1", "rbd", "i"), ("rbd", "m2", "rbd", "i")],
         False, ""),
        ({"rbd": {"monitors": ["m1"], "pool": "p", "image": "i", "readOnly": True}}, [("rbd", "m1", "p", "i")], True,
         ""),
        ({"cinder": {"volumeID": "v"}}, [], True, "cinder.csi.openstack.org"),
        ({"azureDisk": {"diskURI": "u"}}, [], True, "disk.csi.azure.com"),
        ({"portworxVolume": {"volumeID": "v"}}, [], True, "pxd.portworx.com"),
    ],
)  # fmt: skip
def test_the_disks_of_a_pod(source: Obj, keys: list[tuple[str, ...]], *, read_only: bool, driver: str) -> None:
    (disk,) = decode_pod(pod(volumes=[{"name": "d", **source}])).spec.disks
    assert isinstance(disk, InlineDisk)
    assert (list(disk.keys), disk.read_only) == (keys, read_only)
    assert (disk.migrated.driver if disk.migrated else "") == driver


def test_what_nobody_has_heard_of_is_kept_by_name() -> None:
    spec = decode_pod(pod(volumes=[{"name": "a"}, {"name": "b", "warpDrive": {}, "antimatter": {}}])).spec
    assert spec.unknown_volumes == ((1, "antimatter"),)


# Bad input -----------------------------------------------------------------------------------------------------------


def spec_of(obj: Obj, **spec: Any) -> Obj:
    return {**obj, "spec": {**obj["spec"], **spec}}


@pytest.mark.parametrize(
    ("decode", "obj", "name", "field"),
    [
        (decode_volume_claim, {"metadata": {"name": "c", "namespace": "ns"}}, "ns/c", "spec"),
        (decode_volume_claim, spec_of(claim(), accessModes="x"), "ns/c", "spec.accessModes"),
        (decode_volume_claim, claim(size="much"), "ns/c", r"spec.resources.requests\[storage\]"),
        (decode_volume_claim, claim(selector={"matchLabels": {"-": "x"}}), "ns/c", "spec.selector"),
        (decode_volume_claim, claim(meta={"resourceVersion": "x"}), "ns/c", "metadata.resourceVersion"),
        (decode_volume_claim, claim(meta={"annotations": {SELECTED_NODE: 3}}), "ns/c", "metadata.annotations"),
        (decode_volume, volume(size="1 GB"), "v", r"spec.capacity\[storage\]"),
        (decode_volume, volume(claimRef="x"), "v", "spec.claimRef"),
        (decode_volume, volume(awsElasticBlockStore={}), "v", "spec.awsElasticBlockStore"),
        (decode_volume, volume(nodeAffinity={"required": {"nodeSelectorTerms": {}}}), "v", "nodeSelectorTerms"),
        (decode_storage_class, {**storage_class(), "provisioner": 3}, "sc", "provisioner"),
        (decode_storage_class, {**storage_class(), "allowedTopologies": [3]}, "sc", "allowedTopologies"),
        (decode_csi_node, csi_node(limits={"d": "x"}), "n", "allocatable.count"),
        (decode_csi_driver, csi_driver(storage_capacity="no"), "csi.example.com", "storageCapacity"),
        (decode_storage_capacity, storage_capacity(capacity="lots"), "kube-system/cap", "capacity"),
        (decode_storage_capacity, storage_capacity(maximumVolumeSize="lots"), "kube-system/cap", "maximumVolumeSize"),
        (decode_storage_capacity, storage_capacity(nodes={"matchLabels": {"-": "x"}}), "kube-system/cap",
         "nodeTopology"),
        (decode_attachment, {"metadata": {"name": "a"}}, "a", "spec"),
        (decode_attachment, spec_of(attachment(), source=3), "a", "spec.source"),
        (decode_pod, pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]), "ns/p",
         r"spec.volumes\[0\].persistentVolumeClaim"),
        (decode_pod, pod(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": 3}}]), "ns/p",
         r"spec.volumes\[0\].gcePersistentDisk.pdName"),
        (decode_pod, pod(volumes=[{"ephemeral": {}}]), "ns/p", r"spec.volumes\[0\].name"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_named(decode: Callable[[Encoded], object], obj: Obj, name: str, field: str) -> None:
    with pytest.raises(DecodeError, match=field) as caught:
        decode(obj)
    assert caught.value.key == name

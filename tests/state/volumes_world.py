"""A small cluster whose storage objects, pods and nodes change, in a state and as plain API objects beside it.

There are few names, so that what changes is about each other more often than not.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tests.kube.objects import Obj, node, pod
from tests.kube.storage_objects import (
    BETA_CLASS,
    SELECTED_NODE,
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
)
from tests.naive.storage import Storage

from vgpu_scheduler.kube import (
    Decode,
    Pod,
    decode_attachment,
    decode_csi_driver,
    decode_csi_node,
    decode_node,
    decode_pod,
    decode_storage_capacity,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from vgpu_scheduler.model import NO_VOLUMES, Placement, VolumePlan
from vgpu_scheduler.state import State

Move = tuple[int, int, int, int]
"""What happens, and three numbers that choose how."""

MOVES = 24
NODES, CLAIMS, VOLUMES, CLASSES = 4, 5, 6, 5
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, EBS_ZONE, GKE_ZONE = "topology.kubernetes.io/region", "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"
HOST = "kubernetes.io/hostname"
EBS, GCE = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"

NODE_LABELS: list[dict[str, str]] = [
    {ZONE: "us-a-1", REGION: "us-a", EBS_ZONE: "us-a-1", GKE_ZONE: "us-a-1"},
    {ZONE: "us-a-2", EBS_ZONE: "us-a-1"},
    {BETA_ZONE: "us-a-1"},
    {BETA_ZONE: "us-a-1", ZONE: "us-a-2"},
    {},
]

AFFINITIES: list[Obj] = [
    {},
    {"nodes": {ZONE: ["us-a-1"]}},
    {"nodes": {HOST: ["n0"]}},
    {"nodes": {HOST: ["n1", "n2"]}},
    {"nodes": {ZONE: ["us-a-1", "us-a-2"], HOST: ["n0", "n1"]}},
    {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
    {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["us-a-1"]}]},
        {"matchExpressions": [{"key": HOST, "operator": "Exists"}],
         "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
    ]}}},
    {"nodes": {BETA_ZONE: ["us-a-1"]}},
]  # fmt: skip
SOURCES: list[Obj] = [
    {"csi": csi("h0", "d1")},
    {"csi": csi("h1", "d1")},
    {"csi": csi("h2", "d2")},
    {"local": {"path": "/x"}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"awsElasticBlockStore": {"volumeID": "aws://us-a-1/vol-2"}},
    {"awsElasticBlockStore": {"volumeID": "aws://us-a-1/odd"}},
    {"gcePersistentDisk": {"pdName": "pd"}},
    {"azureDisk": {"diskName": "x", "diskURI": "uri", "kind": "Dedicated"}},
]
VOLUME_LABELS: list[dict[str, str]] = [
    {},
    {"disk": "fast"},
    {ZONE: "us-a-1"},
    {ZONE: "us-a-1__us-a-2"},
    {BETA_ZONE: "us-a-2", "disk": "fast"},
    {REGION: "us-b"},
    {ZONE: "us-a-1__"},
    {ZONE: "here__there"},
]
POD_VOLUMES: list[list[Obj]] = [
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c0"}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c1"}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c2"}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c0"}},
     {"name": "b", "persistentVolumeClaim": {"claimName": "c1"}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c1"}},
     {"name": "b", "persistentVolumeClaim": {"claimName": "c2"}},
     {"name": "c", "persistentVolumeClaim": {"claimName": "c3"}},
     {"name": "again", "persistentVolumeClaim": {"claimName": "c1"}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c2"}},
     {"name": "again", "persistentVolumeClaim": {"claimName": "c2"}}],
    [{"name": "own", "ephemeral": {}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "c3"}}, {"name": "own", "ephemeral": {}}],
    [{"name": "a", "persistentVolumeClaim": {"claimName": "asks-own"}}],
    [{"name": "own", "ephemeral": {}}, {"name": "a", "persistentVolumeClaim": {"claimName": "c3"}}],
    [{"name": "d", "gcePersistentDisk": {"pdName": "pd"}}],
    [{"name": "d", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
     {"name": "a", "persistentVolumeClaim": {"claimName": "c0"}}],
    [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}}],
    [{"name": "d", "awsElasticBlockStore": {"volumeID": "aws://us-a-1/odd"}}],
    [{"name": "d", "iscsi": {"iqn": "t", "readOnly": True}}, {"name": "e", "emptyDir": {}}],
    [{"name": "d", "iscsi": {"iqn": "t"}}],
    [{"name": "d", "rbd": {"monitors": ["m1", "m2"], "image": "i"}}],
    [{"name": "d", "rbd": {"monitors": ["m2"], "image": "i", "readOnly": True}}],
    [{"name": "d", "azureDisk": {"diskName": "x", "diskURI": "uri"}}, {"name": "c", "cinder": {"volumeID": "v"}}],
    [],
]  # fmt: skip


def asking(name: str, volumes: int, version: int = 1) -> Obj:
    """Return a pod that is not bound."""
    result = pod(name=name, volumes=copy.deepcopy(POD_VOLUMES[volumes % len(POD_VOLUMES)]))
    result["metadata"]["resourceVersion"] = str(version)
    return result


class World:
    """The state, and what is in it."""

    def __init__(self) -> None:
        self.state = State({"hami": 3})
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self.storage = Storage()
        self.plans: dict[str, tuple[str, VolumePlan]] = {}
        self._version = 1
        self._uids: dict[tuple[str, str], str] = {}

    def move(self, move: Move) -> None:
        """Let one thing happen."""
        what, one, two, three = move
        self._version += 1
        match what % MOVES:
            case 0 | 1:
                self._observe_node(f"n{one % NODES}", two)
            case 2:
                self.nodes.pop(f"n{two % NODES}", None)
                self.state.remove_node(f"n{two % NODES}")
            case 3 | 4 | 5 | 6:
                self._put("claims", self._claim(one, two, three), decode_volume_claim)
            case 7 | 8 | 9 | 10:
                self._put("volumes", self._volume(one, two, three), decode_volume)
            case 11 | 12:
                self._put("classes", _class(one, two, three), decode_storage_class)
            case 13:
                self._put("csi_nodes", _csi_node(one, two, three), decode_csi_node)
            case 14:
                told = [True, True, False, None][two % 4]
                self._put("csi_drivers", csi_driver(f"d{one % 2 + 1}", storage_capacity=told), decode_csi_driver)
            case 15 | 16:
                self._put("capacities", _capacity(one, two, three), decode_storage_capacity)
            case 17:
                self._put("attachments", _attachment(one, two, three), decode_attachment)
            case 18:
                self._remove(one, two)
            case 19 | 20:
                self._bind(self._next_pod(one, two), f"n{three % NODES}")
            case 21 | 22:
                self._assume(self._next_pod(one, two), f"n{three % NODES}", one)
            case _:
                self._change(one, two)

    def populate(self, numbers: Sequence[tuple[int, int]]) -> None:
        """Let there be nearly everything that has a name, as the numbers choose; as many are used as are needed."""
        named = [
            *((0, index) for index in range(NODES)),
            *((11, index) for index in range(CLASSES)),
            *((3, index) for index in range(CLAIMS)),
            *((7, index) for index in range(VOLUMES)),
            *((13, index) for index in range(NODES)),
            *((what, index) for index in range(2) for what in (14, 15, 17)),
        ]
        for (what, index), (two, three) in zip(named, numbers, strict=False):
            if (two + three) % 12:
                self.move((what, index, two, three))

    # Objects ---------------------------------------------------------------------------------------------------------

    def _observe_node(self, name: str, labels: int) -> None:
        obj = node(name, labels={HOST: name, **NODE_LABELS[labels % len(NODE_LABELS)]})
        obj["metadata"] |= {"uid": f"{name}-{self._version}", "resourceVersion": str(self._version)}
        self.nodes[name] = obj
        self.state.observe_node(decode_node(obj), {})

    def _claim(self, one: int, two: int, three: int) -> Obj:
        name = [*(f"c{index}" for index in range(CLAIMS - 1)), "asks-own"][one % CLAIMS]
        more: Obj = {
            0: {"accessModes": ["ReadWriteOncePod"]},
            1: {"accessModes": ["ReadWriteOncePod"]},
            2: {"selector": {"matchLabels": {"disk": "fast"}}},
            3: {"volumeMode": "Block"},
            4: {"volumeAttributesClassName": "gold"},
            5: {"resources": {}},
        }.get(three % 12, {})
        meta: Obj = {
            2: {"annotations": {SELECTED_NODE: f"n{two % NODES}"}},
            3: {"annotations": {BETA_CLASS: "s1"}},
            5: {"deletionTimestamp": "2026"},
            6: {"annotations": {SELECTED_NODE: ""}},
        }.get(two % 23, {})
        if name == "asks-own" and three % 4:
            owner = ["uid-asks", *sorted(self.pods)][0 if three % 2 else two % (len(self.pods) + 1)]
            meta = {**meta, "ownerReferences": [{"uid": owner, "controller": True}]}
        bound = f"v{three % (VOLUMES + 2)}" if two % 3 == 1 else ""  # some name one that never comes
        if two % 13 == 12:
            more = {**more, "volumeName": "v0"}
        phase = "Lost" if bound and two % 9 == 7 else ""
        named = None if three % 17 == 16 else f"s{(two + three) % CLASSES}"
        return claim(
            name, volume=bound, size=f"{1 + three % 3}Gi", storage_class=named, meta=copy.deepcopy(meta), phase=phase,
            **copy.deepcopy(more),
        )  # fmt: skip

    def _volume(self, one: int, two: int, three: int) -> Obj:
        more: Obj = {
            3: {"volumeMode": "Block"},
            4: {"volumeAttributesClassName": "gold"},
            5: {"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]},
        }.get(three % 12, {})
        meta: Obj = {"labels": VOLUME_LABELS[two % len(VOLUME_LABELS)]}
        if three % 19 == 18:
            meta["deletionTimestamp"] = "2026"
        spec: Obj = {**SOURCES[(one + three) % len(SOURCES)], **AFFINITIES[two % len(AFFINITIES)], **more}
        about = f"ns/c{three % CLAIMS}"
        if two % 4 == 3:
            uid = self._uids.get(("claims", about), "") if three % 2 else ""
            spec["claimRef"] = {"namespace": "ns", "name": about[3:], "uid": "gone" if three % 11 == 10 else uid}
        return volume(
            f"v{one % VOLUMES}", size=f"{1 + two % 3}Gi", storage_class=f"s{(two + three) % CLASSES}",
            meta=copy.deepcopy(meta), phase=["", "", "", "", "Released"][three % 5], **copy.deepcopy(spec),
        )  # fmt: skip

    def _put(self, kind: str, obj: Obj, decode: Decode[Any]) -> None:
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        uid = self._uids.setdefault((kind, key), f"{key}-{self._version}")
        obj["metadata"] = {**meta, "uid": uid, "resourceVersion": str(self._version)}
        getattr(self.storage, kind)[key] = obj
        self.state.volumes.observe(decode(obj))

    def _remove(self, one: int, two: int) -> None:
        kinds = ["claims", "volumes", "classes", "csi_nodes", "csi_drivers", "capacities", "attachments"]
        kind = kinds[one % len(kinds)]
        known: dict[str, Obj] = getattr(self.storage, kind)
        if known:
            key = sorted(known)[two % len(known)]
            del known[key], self._uids[kind, key]
            store = getattr(self.state.volumes.objects, kind)
            self.state.volumes.forget(store[key], self._version)

    # Pods ------------------------------------------------------------------------------------------------------------

    def _next_pod(self, name: int, volumes: int) -> Obj:
        """Return a pod that was not there; its name may be that of the pod that asks, its UID is not."""
        obj = asking("asks" if name % 3 == 0 else f"p{self._version}", volumes, self._version)
        obj["metadata"]["uid"] = f"uid-{self._version}"
        return obj

    def _observe(self, obj: Obj) -> Pod:
        known = decode_pod(obj)
        self.state.observe_pod(known, {})
        return known

    def _bind(self, obj: Obj, name: str) -> None:
        obj["spec"]["nodeName"] = name
        self.pods[obj["metadata"]["uid"]] = obj
        self._observe(obj)

    def _assume(self, obj: Obj, name: str, how: int) -> None:
        """Reserve, with a plan that need not be a good one."""
        waiting = self._observe(obj)
        keys = [f"ns/{each.claim(waiting.name)}" for each in waiting.spec.volume_claims]
        matched = {key: f"v{how % VOLUMES}" for key in keys[:1] if how % 3 == 0}
        plan = VolumePlan(matched, tuple(keys[1:] if how % 2 else ())) if keys else NO_VOLUMES
        self.state.assume(waiting.uid, Placement(name, (), volumes=plan), ())
        self.pods[waiting.uid] = {**obj, "spec": {**obj["spec"], "nodeName": name}}
        self.plans[waiting.uid] = (name, plan)

    def _change(self, which: int, how: int) -> None:
        if not self.pods:
            return
        uid = sorted(self.pods)[which % len(self.pods)]
        obj = self.pods[uid]
        if how % 4 == 0 and uid in self.plans:
            self.state.unreserve(uid)
        elif how % 4 == 1:
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
            self.plans.pop(uid, None)
            self._observe(obj)  # seen bound
            self.pods[uid] = obj
            return
        elif how % 4 == 2:
            meta = {**obj["metadata"], "resourceVersion": str(self._version)}
            self._observe({**obj, "metadata": meta, "status": {"phase": "Succeeded"}})
        else:
            self.state.remove_pod(uid)
        self.plans.pop(uid, None)
        del self.pods[uid]

    # For the twin ----------------------------------------------------------------------------------------------------

    def resident(self) -> list[Obj]:
        """Return the pods on nodes that are there."""
        return [each for each in self.pods.values() if each["spec"]["nodeName"] in self.nodes]

    def as_decided(self) -> Storage:
        """Return the objects as they would be if what is decided were written, where nothing else is."""
        taken: dict[str, set[str]] = {}
        selected: dict[str, set[str]] = {}
        for name, plan in self.plans.values():
            for key, chosen in plan.matched.items():
                taken.setdefault(chosen, set()).add(key)
            for key in plan.provisioned:
                selected.setdefault(key, set()).add(name)
        decided = copy.copy(self.storage)
        decided.volumes, decided.claims = dict(self.storage.volumes), dict(self.storage.claims)
        for chosen, keys in taken.items():
            obj = decided.volumes.get(chosen)
            if obj is not None and "claimRef" not in obj["spec"]:
                reference = {"namespace": "ns", "name": min(keys).partition("/")[2]}
                decided.volumes[chosen] = {**obj, "spec": {**obj["spec"], "claimRef": reference}}
        for key, names in selected.items():
            obj = decided.claims.get(key)
            if obj is not None and SELECTED_NODE not in (obj["metadata"].get("annotations") or {}):
                notes = {**obj["metadata"].get("annotations", {}), SELECTED_NODE: min(names)}
                decided.claims[key] = {**obj, "metadata": {**obj["metadata"], "annotations": notes}}
        return decided


def _class(one: int, two: int, three: int) -> Obj:
    provisioner = ["d1", "d2", "kubernetes.io/no-provisioner", EBS, "kubernetes.io/azure-file", "d2"][two % 6]
    topologies: list[Obj] | None = [None, None, [{ZONE: ["us-a-1"]}], [{HOST: ["n1"]}, {BETA_ZONE: ["us-a-1"]}],
                                    [{}]][three % 5]  # fmt: skip
    obj = storage_class(f"s{one % CLASSES}", provisioner=provisioner, wait=bool(three % 11), topologies=topologies)
    if three % 23 == 22:
        del obj["volumeBindingMode"]
    return obj


def _csi_node(one: int, two: int, three: int) -> Obj:
    limits: dict[str, int | None] = [
        {}, {"d1": 1}, {"d1": 2, "ebs.csi.aws.com": 1}, {"d2": 1, "d1": None}, {"pd.csi.storage.gke.io": 1, "d1": 1},
        {"disk.csi.azure.com": 0, "cinder.csi.openstack.org": 5},
    ][two % 6]  # fmt: skip
    return csi_node(f"n{one % NODES}", limits=limits, migrated=["", EBS, f"{EBS},{GCE}", "x"][three % 4])


def _capacity(one: int, two: int, three: int) -> Obj:
    amounts: dict[str, str] = [
        {"capacity": "1Gi"}, {"capacity": "3Gi"}, {"maximumVolumeSize": "2Gi", "capacity": "9Gi"}, {},
    ][two % 4]  # fmt: skip
    nodes: Obj | None = [None, {}, {"matchLabels": {ZONE: "us-a-1"}}, {"matchLabels": {HOST: "n1"}},
                         {"matchExpressions": [{"key": ZONE, "operator": "DoesNotExist"}]}][three % 5]  # fmt: skip
    return storage_capacity(f"cap{one % 4}", storage_class=f"s{one % CLASSES}", nodes=nodes, **amounts)


def _attachment(one: int, two: int, three: int) -> Obj:
    named = None if three % 9 == 8 else f"v{two % VOLUMES}"
    return attachment(f"a{one % 4}", node=f"n{three % NODES}", volume=named, attacher=["d1", "d1", "d2"][one % 3])

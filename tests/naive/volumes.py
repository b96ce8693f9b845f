"""kube-scheduler's plugins for volumes, for one pod and one node after the other, from API objects: slow and obvious.

It follows what is documented of kube-scheduler 1.36: PreFilter of all plugins, then for each node VolumeRestrictions,
NodeVolumeLimits, VolumeBinding and VolumeZone. Nothing of the product is used.
"""

from __future__ import annotations

from typing import Any

from tests.naive.predicates import UU, Obj, U, Verdict, compiles, selected, term_matches
from tests.naive.storage import (
    IN_TREE,
    SELECTED_NODE,
    Storage,
    affinity,
    claim_key,
    class_name,
    handle,
    is_bound,
    key_of,
    labels_of,
    notes,
    owned,
    requested,
    size,
    translated,
    volumes_of,
)

MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NOT_MIGRATED = {"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"}


class AttemptError(Exception):
    """The attempt fails."""


def verdicts(pod: Obj, nodes: list[Obj], pods: list[Obj], storage: Storage) -> dict[str, Verdict | None]:
    """What the plugins say of each node; the pods are those on nodes that are there."""
    problem = pre_filter(pod, storage)
    if problem is not None:
        plugin, text = problem
        return {node["metadata"]["name"]: (plugin, UU, frozenset({text})) for node in nodes}
    return {node["metadata"]["name"]: verdict(pod, node, pods, storage) for node in nodes}


def verdict(pod: Obj, node: Obj, pods: list[Obj], storage: Storage) -> Verdict | None:
    here = [other for other in pods if other["spec"]["nodeName"] == node["metadata"]["name"]]
    if any(clash(mine, theirs) for mine in volumes_of(pod) for other in here for theirs in volumes_of(other)):
        return "VolumeRestrictions", U, frozenset({"node(s) had no available disk"})
    if any(in_use(pod, volume, pods, storage) for volume in volumes_of(pod)):
        return "VolumeRestrictions", U, frozenset({IN_USE})
    if exceeds(pod, node, here, storage):
        return "NodeVolumeLimits", U, frozenset({"node(s) exceed max volume count"})
    reasons = binding(pod, node, storage)
    if reasons:
        return "VolumeBinding", UU, reasons
    if not in_zone(pod, node, storage):
        return "VolumeZone", UU, frozenset({"node(s) had no available volume zone"})
    return None


# PreFilter -----------------------------------------------------------------------------------------------------------


def pre_filter(pod: Obj, storage: Storage) -> tuple[str, str] | None:
    """The plugin that ends the cycle before any node is tried, and what it says."""
    for volume in volumes_of(pod):
        if "persistentVolumeClaim" in volume and claim_key(pod, volume) not in storage.claims:
            name = volume["persistentVolumeClaim"]["claimName"]
            return "VolumeRestrictions", f'persistentvolumeclaim "{name}" not found'
    text = binding_pre_filter(pod, storage)
    if text:
        return "VolumeBinding", text
    for volume in volumes_of(pod):
        if "persistentVolumeClaim" in volume:
            name = storage.claims[claim_key(pod, volume) or ""]["spec"].get("volumeName")
            if name and name not in storage.volumes:
                return "VolumeZone", f'persistentvolume "{name}" not found'
    return None


def binding_pre_filter(pod: Obj, storage: Storage) -> str:
    for volume in volumes_of(pod):
        key = claim_key(pod, volume)
        if key is None:
            continue
        name, claim = key.split("/")[1], storage.claims.get(key)
        if claim is None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim["status"]["phase"] == "Lost":
            gone = claim["spec"].get("volumeName", "")
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if "ephemeral" in volume and not owned(claim, pod):
            return f"PVC {key} was not created for pod {key_of(pod)} (pod is not owner)"
    modes = [(claim, delayed(claim, storage)) for claim in claims_of(pod, storage) if not is_bound(claim)]
    if any(not waits or claim["spec"].get("volumeName") for claim, waits in modes):
        return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def claims_of(pod: Obj, storage: Storage) -> list[Obj]:
    keys = {key: None for volume in volumes_of(pod) if (key := claim_key(pod, volume))}
    return [storage.claims[key] for key in keys if key in storage.claims]


def delayed(claim: Obj, storage: Storage) -> bool:
    found = storage.classes.get(class_name(claim))
    if found is None:
        return False
    if "volumeBindingMode" not in found:
        raise AttemptError("VolumeBindingMode not set")
    return bool(found["volumeBindingMode"] == "WaitForFirstConsumer")


# VolumeRestrictions --------------------------------------------------------------------------------------------------


def clash(mine: Obj, theirs: Obj) -> bool:
    for source, same in (
        ("gcePersistentDisk", lambda a, b: a["pdName"] == b["pdName"]),
        ("awsElasticBlockStore", lambda a, b: a["volumeID"] == b["volumeID"]),
        ("iscsi", lambda a, b: a["iqn"] == b["iqn"]),
        ("rbd", lambda a, b: bool({*a["monitors"]} & {*b["monitors"]})
         and (a.get("pool", "rbd"), a["image"]) == (b.get("pool", "rbd"), b["image"])),
    ):  # fmt: skip
        if source in mine and source in theirs and same(mine[source], theirs[source]):
            only_read = mine[source].get("readOnly", False) and theirs[source].get("readOnly", False)
            if source == "awsElasticBlockStore" or not only_read:
                return True
    return False


def in_use(pod: Obj, volume: Obj, pods: list[Obj], storage: Storage) -> bool:
    if "persistentVolumeClaim" not in volume:
        return False
    key = claim_key(pod, volume)
    if "ReadWriteOncePod" not in storage.claims[key or ""]["spec"].get("accessModes", []):
        return False
    used = [(other, each) for other in pods for each in volumes_of(other) if "persistentVolumeClaim" in each]
    return any(claim_key(other, each) == key for other, each in used)


# NodeVolumeLimits ----------------------------------------------------------------------------------------------------


def exceeds(pod: Obj, node: Obj, here: list[Obj], storage: Storage) -> bool:
    name = node["metadata"]["name"]
    csi_node = storage.csi_nodes.get(name)
    if csi_node is None:
        return False  # in-tree disks are not migrated there, and nothing is limited
    new = attachable(pod, storage, strict=True)
    used = {volume for other in here for volume in attachable(other, storage, strict=False)}
    new -= used
    for attachment in storage.attachments.values():
        volume = storage.volumes.get(attachment["spec"]["source"].get("persistentVolumeName", ""))
        if attachment["spec"]["nodeName"] == name and volume is not None and "csi" in volume["spec"]:
            used.add((attachment["spec"]["attacher"], volume["spec"]["csi"]["volumeHandle"]))
    for driver in csi_node["spec"].get("drivers") or []:
        limit = (driver.get("allocatable") or {}).get("count")
        more = sum(name == driver["name"] for name, _ in new)
        if limit is not None and more and sum(name == driver["name"] for name, _ in used) + more > limit:
            return True
    return False


def attachable(pod: Obj, storage: Storage, *, strict: bool) -> set[tuple[str, str]]:
    found = set()
    for volume in volumes_of(pod):
        key = claim_key(pod, volume)
        if key is not None:
            claim = storage.claims.get(key)
            if claim is not None and ("ephemeral" not in volume or owned(claim, pod)):
                found.add(attached_as(claim, storage))
            continue
        for source in IN_TREE.keys() & volume.keys():
            name, problem = handle(source, volume[source], {})
            if problem and strict:
                raise AttemptError(problem)
            if not problem:
                found.add((IN_TREE[source][1], name))
    return {each for each in found if each is not None}


def attached_as(claim: Obj, storage: Storage) -> tuple[str, str] | None:
    volume = storage.volumes.get(claim["spec"].get("volumeName", ""))
    if volume is not None:
        if "csi" in volume["spec"]:
            return volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"]
        for source in IN_TREE.keys() & volume["spec"].keys():
            name, problem = handle(source, volume["spec"][source], labels_of(volume))
            return None if problem else (IN_TREE[source][1], name)
        return None
    found = storage.classes.get(class_name(claim))
    if found is None or not found["provisioner"] or found["provisioner"] in NOT_MIGRATED:
        return None
    drivers = {plugin: driver for plugin, driver, _ in IN_TREE.values()}
    return drivers.get(found["provisioner"], found["provisioner"]), f"(to be made for {key_of(claim)})"


# VolumeBinding -------------------------------------------------------------------------------------------------------


def binding(pod: Obj, node: Obj, storage: Storage) -> frozenset[str]:
    claims = claims_of(pod, storage)
    reasons = bound_claims([claim for claim in claims if is_bound(claim)], node, storage)
    return reasons | unbound_claims([claim for claim in claims if not is_bound(claim)], node, storage)


def bound_claims(claims: list[Obj], node: Obj, storage: Storage) -> frozenset[str]:
    csi_node = storage.csi_nodes.get(node["metadata"]["name"])
    migrated = notes(csi_node).get(MIGRATED, "").split(",") if csi_node else []
    for claim in claims:
        volume = storage.volumes.get(claim["spec"]["volumeName"])
        if volume is None:
            return frozenset({"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"})
        terms = affinity(volume)
        for source in IN_TREE.keys() & volume["spec"].keys():
            if IN_TREE[source][0] in migrated:
                problem = handle(source, volume["spec"][source], labels_of(volume))[1]
                if problem:
                    raise AttemptError(f"could not translate pv: {problem}")
                terms = translated(volume, terms, IN_TREE[source][2])
        if not reaches(terms, node):
            return frozenset({"node(s) didn't match PersistentVolume's node affinity"})
    return frozenset()


def reaches(terms: list[Obj] | None, node: Obj) -> bool:
    return terms is None or any(term_matches(term, "", labels_of(node)) for term in terms)


def unbound_claims(claims: list[Obj], node: Obj, storage: Storage) -> frozenset[str]:
    to_make, to_match = [], []
    for claim in claims:
        if SELECTED_NODE in notes(claim):
            if notes(claim)[SELECTED_NODE] != node["metadata"]["name"]:
                return frozenset({"node(s) didn't find available persistent volumes to bind"})
            to_make.append(claim)
        else:
            to_match.append(claim)
    taken: set[str] = set()
    for claim in sorted(to_match, key=lambda each: size(requested(each))):
        name = find(claim, node, storage, taken)
        if name is None:
            to_make.append(claim)
        else:
            taken.add(name)
    for claim in to_make:
        text = cannot_be_made(claim, node, storage)
        if text:
            return frozenset({text})
    return frozenset()


def find(claim: Obj, node: Obj, storage: Storage, taken: set[str]) -> str | None:
    best: tuple[int, str] | None = None
    spec = claim["spec"]
    for name, volume in sorted(storage.volumes.items()):
        reference = volume["spec"].get("claimRef")
        capacity = size(volume["spec"]["capacity"]["storage"])
        if name in taken or class_name(volume) != class_name(claim) or (reference and not about(reference, claim)):
            continue
        if capacity < size(requested(claim)) or volume["metadata"].get("deletionTimestamp"):
            continue
        if spec.get("volumeMode", "Filesystem") != volume["spec"].get("volumeMode", "Filesystem"):
            continue
        if spec.get("volumeAttributesClassName", "") != volume["spec"].get("volumeAttributesClassName", ""):
            continue
        there = reaches(affinity(volume), node)
        if reference:
            return name if there else None
        if volume["status"]["phase"] != "Available" or not there:
            continue
        if "selector" in spec and not selected(spec["selector"], labels_of(volume)):
            continue
        if not {*spec.get("accessModes", [])} <= {*volume["spec"].get("accessModes", [])}:
            continue
        if best is None or (capacity, name) < best:
            best = (capacity, name)
    return None if best is None else best[1]


def about(reference: Obj, claim: Obj) -> bool:
    if f"{reference['namespace']}/{reference['name']}" != key_of(claim):
        return False
    return not reference.get("uid") or bool(reference["uid"] == claim["metadata"]["uid"])


def cannot_be_made(claim: Obj, node: Obj, storage: Storage) -> str:
    found = storage.classes[class_name(claim)]
    nothing = "node(s) didn't find available persistent volumes to bind"
    if found["provisioner"] in ("", "kubernetes.io/no-provisioner"):
        return nothing
    terms = found.get("allowedTopologies") or []
    if terms and not any(allows(term, node) for term in terms):
        return nothing
    driver = storage.csi_drivers.get(found["provisioner"])
    if requested(claim) is None or driver is None or not driver["spec"].get("storageCapacity"):
        return ""
    for capacity in storage.capacities.values():
        largest = capacity.get("maximumVolumeSize", capacity.get("capacity"))
        if capacity["storageClassName"] != class_name(claim) or largest is None or "nodeTopology" not in capacity:
            continue
        if size(largest) >= size(requested(claim)) and selected(capacity["nodeTopology"], labels_of(node)):
            return ""
    return "node(s) did not have enough free storage"


def allows(term: Obj, node: Obj) -> bool:
    expressions: list[Any] = term.get("matchLabelExpressions") or []
    wanted = [{**e, "operator": "In"} for e in expressions]
    return bool(wanted) and all(compiles(e) and labels_of(node).get(e["key"]) in e["values"] for e in wanted)


# VolumeZone ----------------------------------------------------------------------------------------------------------


def in_zone(pod: Obj, node: Obj, storage: Storage) -> bool:
    mine = labels_of(node)
    if not mine.keys() & ZONE_LABELS.keys():
        return True
    for volume in volumes_of(pod):
        if "persistentVolumeClaim" not in volume:
            continue
        claim = storage.claims[claim_key(pod, volume) or ""]
        found = storage.volumes.get(claim["spec"].get("volumeName", ""))
        for key in ZONE_LABELS.keys() & (labels_of(found).keys() if found else set()):
            zones = [zone.strip() for zone in labels_of(found or {})[key].split("__")]
            where = mine.get(key, mine.get(ZONE_LABELS[key]))
            if "" not in zones and where not in zones:
                return False
    return True

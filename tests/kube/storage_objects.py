"""Small storage objects for tests, as the API server has them."""

from typing import Any

from tests.kube.objects import Obj

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


def metadata(name: str, namespace: str = "", **more: Any) -> Obj:
    found = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", **more}
    return {**found, "namespace": namespace} if namespace else found


def claim(
    name: str = "c",
    namespace: str = "ns",
    *,
    volume: str = "",
    size: str = "1Gi",
    storage_class: str | None = "sc",
    meta: Obj | None = None,
    phase: str = "",
    **spec: Any,
) -> Obj:
    """A claim; bound to a volume if one is given."""
    found = metadata(name, namespace, **(meta or {}))
    if volume:
        found["annotations"] = {BIND_COMPLETED: "yes", **found.get("annotations", {})}
        spec["volumeName"] = volume
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "metadata": found,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }


def volume(
    name: str = "v",
    *,
    size: str = "1Gi",
    storage_class: str = "sc",
    bound_to: Obj | None = None,
    nodes: Obj | None = None,
    meta: Obj | None = None,
    phase: str = "",
    **spec: Any,
) -> Obj:
    """A volume; bound to a claim if one is given; ``nodes`` are labels, with values, of the nodes that reach it."""
    if bound_to is not None:
        about = bound_to["metadata"]
        spec["claimRef"] = {"namespace": about["namespace"], "name": about["name"], "uid": about["uid"]}
    if nodes is not None:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in nodes.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {
        "metadata": metadata(name, **(meta or {})),
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase or ("Available" if bound_to is None else "Bound")},
    }


def csi(name: str, driver: str = "csi.example.com") -> Obj:
    """The source of a CSI volume."""
    return {"driver": driver, "volumeHandle": name}


def storage_class(
    name: str = "sc", *, provisioner: str = "csi.example.com", wait: bool = True, topologies: list[Obj] | None = None
) -> Obj:
    """A class; ``topologies`` are labels with values."""
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
        for term in topologies or ()
    ]
    mode = "WaitForFirstConsumer" if wait else "Immediate"
    found = {"metadata": metadata(name), "provisioner": provisioner, "volumeBindingMode": mode}
    return {**found, "allowedTopologies": terms} if topologies is not None else found


def csi_node(name: str = "n", *, limits: dict[str, int | None] | None = None, migrated: str = "") -> Obj:
    drivers: list[Obj] = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in (limits or {}).items()
    ]
    more: Obj = {"annotations": {MIGRATED_PLUGINS: migrated}} if migrated else {}
    return {"metadata": metadata(name, **more), "spec": {"drivers": drivers}}


def csi_driver(name: str = "csi.example.com", *, storage_capacity: bool | None = True) -> Obj:
    spec = {} if storage_capacity is None else {"storageCapacity": storage_capacity}
    return {"metadata": metadata(name), "spec": spec}


def storage_capacity(name: str = "cap", *, storage_class: str = "sc", nodes: Obj | None = None, **amounts: str) -> Obj:
    """A capacity of ``capacity=`` and ``maximumVolumeSize=`` on nodes that a label selector selects."""
    found = {"metadata": metadata(name, "kube-system"), "storageClassName": storage_class, **amounts}
    return found if nodes is None else {**found, "nodeTopology": nodes}


def attachment(name: str = "a", *, node: str = "n", volume: str | None = "v", attacher: str = "csi.example.com") -> Obj:
    source = {} if volume is None else {"persistentVolumeName": volume}
    return {"metadata": metadata(name), "spec": {"attacher": attacher, "nodeName": node, "source": source}}


def claim_volume(name: str = "c") -> Obj:
    """A volume of a pod that a claim stands for."""
    return {"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}}


def ephemeral_volume(name: str = "e") -> Obj:
    """A generic ephemeral volume of a pod; its claim is ``<pod>-<name>``."""
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

"""The pods' own subresources: Binding, and those that need containers; :mod:`.evictions` has Eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import status
from .objects import Target, revision_mismatch, uid_mismatch
from .pods import condition, set_condition
from .registry import Answer, Registry, WriteOptions
from .resources import NODES, PODS
from .store import Entry, Object, Store, encode
from .validation import untyped_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_DONE = encode(status.success(201))


def bind(registry: Registry, target: Target, binding: Object, write: WriteOptions) -> Answer:
    """Bind a pod: node name, annotations, labels and the condition in one transaction.

    As on the API server, neither the node's existence nor the annotations and labels are checked, and an invalid
    target is a 500.
    """
    metadata, node = binding.get("metadata") or {}, binding.get("target") or {}
    if message := untyped_metadata(metadata):
        raise status.bad_request(f'Binding in version "v1" cannot be handled as a Binding: {message}')
    if metadata.get("name") != target.name:
        raise status.bad_request("name in URL does not match name in Binding object")
    if node.get("kind", "") not in {"", "Node"}:
        text = f'target.kind: Unsupported value: "{node["kind"]}": supported values: "Node", "<empty>"'
        raise status.ApiError(500, "", text)
    if not node.get("name"):
        raise status.ApiError(500, "", "target.name: Required value")
    entry = registry.existing(target)
    _check_preconditions(target, entry, metadata)
    pod = entry.thaw()
    if refusal := _unbindable(pod):
        raise status.conflict(PODS, target.name, refusal, subresource="binding")
    if not write.dry_run:
        labels = {**_topology(registry.store, node["name"]), **(metadata.get("labels") or {})}
        _assign(pod, node["name"], metadata.get("annotations") or {}, labels)
        registry.store.put(PODS, pod, entry)
    return 201, _DONE


def _assign(pod: Object, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
    for key, fresh in (("annotations", annotations), ("labels", labels)):
        if fresh:
            pod["metadata"][key] = {**pod["metadata"].get(key, {}), **fresh}
    pod["spec"]["nodeName"] = node
    set_condition(pod["status"], condition("PodScheduled", "True"))


def _topology(store: Store, name: str) -> dict[str, str]:
    node = store.get(NODES, "", name)
    return {key: node.labels[key] for key in _TOPOLOGY_LABELS if key in node.labels} if node else {}


def _check_preconditions(target: Target, entry: Entry, metadata: Object) -> None:
    uid, revision = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != entry.uid:
        raise status.conflict(PODS, target.name, uid_mismatch(target, entry, uid))
    if revision and revision != str(entry.revision):
        raise status.conflict(PODS, target.name, revision_mismatch(target, entry, revision))


def _unbindable(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def reach_containers(registry: Registry, target: Target) -> Answer:
    """Refuse subresources that need a kubelet; the log of a pod without a node is empty."""
    node = registry.existing(target).thaw()["spec"].get("nodeName")
    if node:
        text = f"node {node} is simulated: pod {target.name} has no containers to log, run in or reach"
        raise status.bad_request(text)
    if target.subresource == "log":
        return 200, b""
    raise status.bad_request(f"pod {target.name} does not have a host assigned")

"""The controllers of pods: who makes a pod anew when it ends, and whether on the same node."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.kube import Object, Pod


def controller_of(pod: Object) -> tuple[str, str] | None:
    """Return kind and name of the controller that makes a pod anew when it ends; None if none does."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    found = (owner for owner in owners if isinstance(owner, Mapping) and owner.get("controller"))
    return next(((str(owner.get("kind")), str(owner.get("name"))) for owner in found), None)


def is_node_bound(pod: Pod) -> bool:
    """Tell whether a pod that ends is back on the same node at once: its kubelet or a DaemonSet sees to it."""
    return pod.is_static or pod.is_of_daemon_set or pod.owner_kind == "Node"

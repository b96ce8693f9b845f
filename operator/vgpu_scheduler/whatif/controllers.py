"""The controllers of pods: who makes a pod anew when it ends, and whether on the same node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Object = Mapping[str, Any]

_NODE_BOUND: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of controllers whose pods belong to one node each."""


def controller_of(pod: Object) -> tuple[str, str] | None:
    """Return kind and name of the controller that makes a pod anew when it ends; None if none does."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    found = (owner for owner in owners if isinstance(owner, Mapping) and owner.get("controller"))
    return next(((str(owner.get("kind")), str(owner.get("name"))) for owner in found), None)


def is_node_bound(pod: Object) -> bool:
    """Tell whether a pod's controller makes it anew on the same node."""
    controller = controller_of(pod)
    return controller is not None and controller[0] in _NODE_BOUND

"""The controllers of pods: who makes a pod anew when it ends, and whether on the same node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Object = Mapping[str, Any]

_NODE_BOUND: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of controllers whose pods belong to one node each."""


def has_controller(pod: Object) -> bool:
    """Tell whether a controller makes a pod anew when it ends."""
    return bool(_controller_kinds(pod))


def is_node_bound(pod: Object) -> bool:
    """Tell whether a pod's controller makes it anew on the same node."""
    return not _NODE_BOUND.isdisjoint(_controller_kinds(pod))


def _controller_kinds(pod: Object) -> set[str]:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return {str(owner.get("kind")) for owner in owners if isinstance(owner, Mapping) and owner.get("controller")}

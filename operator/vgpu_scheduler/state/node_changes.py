"""What of a node changed, as far as it can help a pod that did not fit."""

from __future__ import annotations

from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import Hint

__all__ = ["changes"]


def changes(before: Node, after: Node) -> Hint:
    """Return what of all that filters look at differs between two observations of a node; NONE if nothing does."""
    if before.uid != after.uid:
        return Hint.NODE  # made anew
    found = Hint.NONE
    if before.labels != after.labels:
        found |= Hint.LABELS
    if before.taints != after.taints or before.unschedulable != after.unschedulable:
        found |= Hint.TAINTS
    if before.allocatable != after.allocatable:
        found |= Hint.ALLOCATABLE
    if before.declared_features != after.declared_features:
        found |= Hint.FEATURES
    return found

"""Nodes: the not-ready taint that admission adds, allocatable that follows capacity, an isolated status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .status import Cause
from .strategies import Strategy, canonical_amounts

if TYPE_CHECKING:
    from .strategies import Lookup

Object = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    """A node's status may be set at creation, as the kubelet does, and afterwards only through ``/status``."""

    status = True

    def admit(self, obj: Object, lookup: Lookup) -> str:  # noqa: ARG002
        """Add the not-ready taint to a new node, whatever its status says; a controller would remove it."""
        taints = obj.setdefault("spec", {}).setdefault("taints", [])
        if not any(taint.get("key") == NOT_READY for taint in taints):
            taints.append({"key": NOT_READY, "effect": "NoSchedule"})
        return ""

    def default(self, obj: Object) -> None:
        """Bring amounts into canonical form; allocatable defaults to the capacity."""
        spec = obj.setdefault("spec", {})
        if not spec.get("taints", True):
            del spec["taints"]
        if spec.get("unschedulable") is False:
            del spec["unschedulable"]
        status = obj.setdefault("status", {})
        if status.get("capacity"):
            status["capacity"] = canonical_amounts(status["capacity"])
            if not status.get("allocatable"):
                status["allocatable"] = dict(status["capacity"])
        if status.get("allocatable"):
            status["allocatable"] = canonical_amounts(status["allocatable"])

    def prepare_create(self, obj: Object) -> None:
        """Keep everything."""

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check metadata and taints."""
        found = super().causes(obj, old)
        for index, taint in enumerate(obj["spec"].get("taints", ())):
            effect = taint.get("effect", "")
            if effect not in _EFFECTS:
                found.append(Cause.unsupported(f"metadata.taints[{index}].effect", effect, _EFFECTS))
        return found

"""The controllers that recreate pods."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.kube import Object


def controller_of(pod: Object) -> tuple[str, str] | None:
    """Return kind and name of the controller that recreates a pod when it ends; None without one."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    found = (owner for owner in owners if isinstance(owner, Mapping) and owner.get("controller"))
    return next(((str(owner.get("kind")), str(owner.get("name"))) for owner in found), None)

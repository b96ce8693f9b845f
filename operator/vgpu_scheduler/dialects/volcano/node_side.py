"""Volcano's node side: its device plugin takes the oldest pod of its node that has cards left to allocate."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.dialects.node_side import LocklessNodeSide
from vgpu_scheduler.dialects.volcano.names import (
    BIND_PHASE_ANNOTATION,
    PHASE_FAILED,
    PHASE_SUCCESS,
    TO_ALLOCATE_ANNOTATION,
)
from vgpu_scheduler.model import PodClaims, claims_devices


class VolcanoNodeSide(LocklessNodeSide):
    """The device plugin: it has no lock, and answers on the pod."""

    def in_turn(self, claims: PodClaims) -> bool:
        """Tell whether any container claims cards: the plugin takes the oldest pod of its node."""
        return claims_devices(claims)

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has written that it allocated, or that it failed."""
        return annotations.get(BIND_PHASE_ANNOTATION) in {PHASE_SUCCESS, PHASE_FAILED}

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has consumed every entry of the pod."""
        value = annotations.get(TO_ALLOCATE_ANNOTATION)
        return value is not None and not value.replace(";", "").strip()

"""Joint allocation: devices of several types of a pod below the same PCIe switches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.dialects.koordinator.hints import NO_HINT, DeviceHint
from vgpu_scheduler.dialects.koordinator.names import DEVICE_TYPES, JOINT_ANNOTATION
from vgpu_scheduler.dialects.koordinator.pod_annotations import annotation_fields, word_of
from vgpu_scheduler.dialects.values import to_be_removed
from vgpu_scheduler.model import Claim, quoted

_TYPES: Final = "deviceTypes"
_SCOPE: Final = "requiredScope"
_SAME_SWITCH: Final = "SamePCIe"


@dataclass(frozen=True, slots=True)
class JointAllocation:
    """The device types that are allocated jointly.

    Attributes
    ----------
    types
        The first type determines the switches, the others follow; only types that the pod requests, without those of
        which it gets all devices.
    same_switch
        Whether all types must be below the same switches.
    """

    types: tuple[str, ...] = ()
    same_switch: bool = False


def read_joint(
    annotations: Mapping[str, str], claims: Iterable[Claim], hints: Mapping[str, DeviceHint]
) -> JointAllocation | None:
    """Return the joint allocation of a pod; None if it has no such annotation.

    Raises
    ------
    ClaimError
        If the annotation is malformed or asks for something unsupported.
    """
    if JOINT_ANNOTATION not in annotations:
        return None
    fields = annotation_fields(annotations, JOINT_ANNOTATION, (_TYPES, _SCOPE))
    scope = word_of(fields.get(_SCOPE), (_SAME_SWITCH,), JOINT_ANNOTATION, quoted(_SCOPE))
    types = fields.get(_TYPES)
    if not isinstance(types, list | None):
        raise to_be_removed(JOINT_ANNOTATION, f": {quoted(_TYPES)} is not a list")
    words = [word_of(kind, DEVICE_TYPES, JOINT_ANNOTATION, quoted(_TYPES)) for kind in types or ()]
    asked = {claim.vendor for claim in claims}
    own = [kind for kind in dict.fromkeys(words) if kind in asked and not hints.get(kind, NO_HINT).every]
    return JointAllocation(tuple(own), scope == _SAME_SWITCH)

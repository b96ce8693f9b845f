"""The wire formats of device ecosystems (HAMi, Volcano, Koordinator): the interfaces.

The dialects are the packages beside this file; only code that chooses a dialect imports them.
"""

from vgpu_scheduler.dialects.allocation import TimestampText, is_text_of, stamped
from vgpu_scheduler.dialects.claims import Claims, Scorers
from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.errors import (
    AdmissionDenied,
    ClaimError,
    CodecError,
    RegistrationError,
    UnsupportedChoiceError,
    UnsupportedError,
)
from vgpu_scheduler.dialects.fixes import AmountFix, AnnotationFix, AskForCard, Fix, LeaveOutResource, RequestWarning
from vgpu_scheduler.dialects.inventory import Inventory, InventoryObject
from vgpu_scheduler.dialects.node_side import (
    LocklessNodeSide,
    LockValue,
    NodeLock,
    NodeSide,
    UnservedPod,
    is_sign_of_life,
)
from vgpu_scheduler.dialects.several import Dialects, LimitedResource

__all__ = [
    "AdmissionDenied",
    "AmountFix",
    "AnnotationFix",
    "AskForCard",
    "ClaimError",
    "Claims",
    "CodecError",
    "Dialect",
    "Dialects",
    "Fix",
    "Inventory",
    "InventoryObject",
    "LeaveOutResource",
    "LimitedResource",
    "LockValue",
    "LocklessNodeSide",
    "NodeLock",
    "NodeSide",
    "RegistrationError",
    "RequestWarning",
    "Scorers",
    "TimestampText",
    "UnservedPod",
    "UnsupportedChoiceError",
    "UnsupportedError",
    "is_sign_of_life",
    "is_text_of",
    "stamped",
]

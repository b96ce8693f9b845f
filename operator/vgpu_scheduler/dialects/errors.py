"""What goes wrong when objects are read: claims that are refused, registrations and allocations that are malformed."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.dialects.fixes import Fix
from vgpu_scheduler.model import Device, InputError

_REFUSED = 500
"""The HTTP status with which HAMi's webhook refuses a pod."""


class ClaimError(InputError):
    """A claim that is refused; the message names the container, the resource and the fix.

    Attributes
    ----------
    fix
        What is to be written otherwise; None where it is not as simple as that.
    """

    def __init__(self, message: str, fix: Fix | None = None) -> None:
        super().__init__(message)
        self.fix = fix


class CodecError(InputError):
    """A registration or an allocation that cannot be decoded; the message says what and where."""


class UnsupportedError(CodecError):
    """A registration that says what this version does not follow, so that none of its devices is given out."""


class RegistrationError(CodecError):
    """A node of which the registrations of some vendors cannot be decoded.

    Parameters
    ----------
    problems
        What cannot be decoded, and why, by vendor.
    devices
        The devices of the other vendors.
    """

    def __init__(self, problems: Mapping[str, str], devices: tuple[Device, ...]) -> None:
        super().__init__("; ".join(problems.values()))
        self.vendors = frozenset(problems)
        self.devices = devices


class Refusal(Exception):  # noqa: N818 - it is an answer, not a failure
    """A pod that is not let in at admission.

    Parameters
    ----------
    message
        What its creator is told.
    code
        The HTTP status that goes with it.
    """

    def __init__(self, message: str, code: int = _REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

"""Errors of refused claims, malformed registrations and allocations, and refusals at admission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from vgpu_scheduler.dialects.fixes import Fix
from vgpu_scheduler.model import Device, InputError

_REFUSED = 500
"""The HTTP status with which HAMi's webhook refuses a pod."""


class ClaimError(InputError):
    """A claim that is refused; the message names the container, the resource and the fix.

    Attributes
    ----------
    fix
        The fix; None if there is no simple one.
    """

    def __init__(self, message: str, fix: Fix | None = None) -> None:
        super().__init__(message)
        self.fix = fix


class UnsupportedChoiceError(ClaimError):
    """A choice of devices in a policy that the dialect of the pod's cards does not support.

    Parameters
    ----------
    problem
        The field of the policy's section of devices, and what is wrong with it.
    """

    _SECTION: ClassVar = "devices."

    def __init__(self, problem: str) -> None:
        super().__init__(self._SECTION + problem)

    @classmethod
    def is_in(cls, message: str) -> bool:
        """Tell whether a message is that of such an error."""
        return message.startswith(cls._SECTION)


class CodecError(InputError):
    """A registration or an allocation that cannot be decoded; the message names the problem and its place."""


class UnsupportedError(CodecError):
    """A registration with content that this version does not support, so that none of its devices is given out."""


class RegistrationError(CodecError):
    """A node for which the registrations of some vendors cannot be decoded.

    Parameters
    ----------
    problems
        The problem of each vendor whose registration cannot be decoded.
    devices
        The devices of the other vendors.
    """

    def __init__(self, problems: Mapping[str, str], devices: tuple[Device, ...]) -> None:
        super().__init__("; ".join(problems.values()))
        self.vendors = frozenset(problems)
        self.devices = devices


class AdmissionDenied(Exception):  # noqa: N818 - it is an answer, not a failure
    """A pod that is refused at admission.

    Parameters
    ----------
    message
        The message for its creator.
    code
        The HTTP status.
    """

    def __init__(self, message: str, code: int = _REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

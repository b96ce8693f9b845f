"""AWS Neuron at admission: devices or cores, whole ones, and cores by the device from two on."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal, exact
from vgpu_scheduler.dialects.values import INT32

PER_DEVICE = 2
"""Cores of a device, as HAMi counts a claim of many cores."""


def neuron_rule(count: str, cores: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        devices, cut = draft.either(count), draft.either(cores)
        if devices is not None:
            _check(count, devices, INT32)
            return True
        if cut is None:
            return False
        number = _check(cores, cut, INT32 * PER_DEVICE)
        if number > PER_DEVICE and number % PER_DEVICE:
            raise Refusal(f"{cores} must be 1 or a multiple of {PER_DEVICE}, got {number}")
        return True

    return admit


def _check(resource: str, text: str, most: int) -> int:
    number = exact(text)
    if number is None:
        raise Refusal(f"{resource} must be an integer")
    if number <= 0:
        raise Refusal(f"{resource} must be greater than 0")
    if number > most:
        raise Refusal(f"{resource} must not exceed {most}")
    return number

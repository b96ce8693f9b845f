"""What policies let one pod ask for, held against its claims."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import Claim, ContainerKind, InputError, PodClaims
from vgpu_scheduler.policy import Bound, PodLimits

_WHOLE = 100

_Sums = tuple[int, int, int, int, int]
"""Devices, cores, memory in absolute amounts, memory in percent of a device, devices that nobody else is to use."""


class LimitError(InputError):
    """A pod that asks for more than a policy allows; the message names the policy and the field."""


def most_memory(claims: PodClaims, limits: PodLimits, dialect: Dialect, *, idle: bool = False) -> int | None:
    """Hold a pod's claims against its limits.

    Claims in percent depend on the card: they are kept within the limit by leaving out cards that are too large. A
    claim that names no memory, or no cores, is one without a limit of that, and counts as a whole device.

    Parameters
    ----------
    claims, limits, dialect
        What is held against what.
    idle
        Whether only devices are taken that nobody uses: all of them count as the pod's own then.

    Returns
    -------
    int or None
        The largest memory that a device of the pod may have, in the unit of the dialect's memory dimension; None when
        any will do.

    Raises
    ------
    LimitError
        If the claims are beyond a limit on every device.
    """
    largest: int | None = None
    for devices, cores, memory, percent, own in _moments(claims, dialect, idle=idle):
        _check(limits.exclusive_cards, own, "exclusiveCardsPerPod", f"{own} cards for itself")
        _check(limits.devices, devices, "devicesPerPod", f"{devices} devices")
        _check(limits.cores, cores, "coresPerPod", f"{cores} percent of compute")
        if limits.memory is None:
            continue
        unit = dialect.inventory.memory_unit
        _check(limits.memory, memory * unit, "memoryPerPod", _bytes(memory * unit))
        if percent:
            bound = (limits.memory.most // unit - memory) * _WHOLE // percent
            largest = bound if largest is None else min(largest, bound)
    return largest


def _moments(claims: PodClaims, dialect: Dialect, *, idle: bool) -> Iterator[_Sums]:
    """Yield what the pod holds while each init container runs, and in the end; sidecars stay."""
    running: _Sums = (0, 0, 0, 0, 0)
    for container in claims:
        own: _Sums = (0, 0, 0, 0, 0)
        for claim in container.claims:
            if claim.vendor not in dialect.inventory.cards:
                continue
            amount = claim.amounts[dialect.inventory.memory]
            percent = 0 if amount else claim.percent[dialect.inventory.memory] or _WHOLE
            own = _plus(
                own,
                (
                    claim.count,
                    claim.count * _percent(claim, dialect),
                    claim.count * amount,
                    claim.count * percent,
                    claim.count * (idle or dialect.claims.takes_whole(claim)),
                ),
            )
        if container.kind is ContainerKind.INIT:
            yield _plus(running, own)
        else:
            running = _plus(running, own)
    yield running


def _percent(claim: Claim, dialect: Dialect) -> int:
    """Return the compute that a claim asks of each device, in percent of it."""
    amount, units = claim.amounts[dialect.inventory.cores], dialect.inventory.compute_units.get(claim.vendor, _WHOLE)
    asked = -(-amount * _WHOLE // units) if amount else claim.percent[dialect.inventory.cores]
    return min(asked or _WHOLE, _WHOLE)


def _plus(left: _Sums, right: _Sums) -> _Sums:
    devices, cores, memory, percent, alone = (a + b for a, b in zip(left, right, strict=True))
    return (devices, cores, memory, percent, alone)


def _check(bound: Bound | None, asked: int, field: str, words: str) -> None:
    if bound is not None and asked > bound.most:
        most = _bytes(bound.most) if field == "memoryPerPod" else str(bound.most)
        raise LimitError(f"pod asks for {words}, limits.{field} of {bound.source} allows {most}")


def _bytes(amount: int) -> str:
    """Word an amount of memory with the largest unit that leaves no rest."""
    for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if amount and amount % (1 << 10 * power) == 0:
            return f"{amount >> 10 * power}{unit}"
    return str(amount)

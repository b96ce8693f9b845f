"""Checks a pod's claims against the limits that policies set for one pod."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Final, NamedTuple

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kube import in_binary_units
from vgpu_scheduler.model import WHOLE, Claim, ContainerClaims, InputError, PodClaims, counted, moments, percent_needed
from vgpu_scheduler.policy import LimitField, PodLimits, UpperBound

_TOLD = re.compile(r"limits\.(\w+) of (\w+ \S+) allows (\w+)")
"""Matches the text of :class:`ExceededLimit`."""


class LimitError(InputError):
    """The pod asks for more than policies allow; the message names each policy and field."""


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that a pod exceeds, whichever devices it gets.

    Attributes
    ----------
    field
        The field of ``spec.limits`` of a policy.
    asked
        What the pod asks for, in the unit of the bound.
    """

    field: str
    asked: int
    bound: UpperBound
    words: str

    @property
    def allowed(self) -> str:
        """The limit as it could be written in a policy."""
        return self._written(self.bound.most)

    @property
    def wanted(self) -> str:
        """The smallest limit that would admit the pod, as it could be written in a policy."""
        return self._written(self.asked)

    def __str__(self) -> str:
        """Word it for a sentence whose subject is the pod."""
        return f"{self.words}, limits.{self.field} of {self.bound.source} allows {self.allowed}"

    @staticmethod
    def found_in(message: str) -> list[tuple[str, str, str]]:
        """Return the limits that a message names, each once, as (field, policy, allowed amount)."""
        return list(dict.fromkeys(_TOLD.findall(message)))

    def _written(self, amount: int) -> str:
        return in_binary_units(amount) if self.field == LimitField.MEMORY else str(amount)


class PodSums(NamedTuple):
    """What a pod asks for at one moment.

    Attributes
    ----------
    devices, own
        Number of devices, and of those for the pod alone.
    cores, unnamed
        Percent of compute, and number of devices counted whole in it because the claim names no cores.
    memory, percent
        Absolute memory in the dialect's unit, and memory in percent of a device.
    """

    devices: int = 0
    own: int = 0
    cores: int = 0
    unnamed: int = 0
    memory: int = 0
    percent: int = 0

    def plus(self, other: PodSums) -> PodSums:
        """Return the sum."""
        return PodSums(*(mine + more for mine, more in zip(self, other, strict=True)))


LIMITED_SUMS: Final[Mapping[str, Callable[[PodSums, int], int]]] = {
    LimitField.EXCLUSIVE_CARDS: lambda sums, _: sums.own,
    LimitField.DEVICES: lambda sums, _: sums.devices,
    LimitField.CORES: lambda sums, _: sums.cores,
    LimitField.MEMORY: lambda sums, memory_unit: sums.memory * memory_unit,
}
"""What each field limits, in the unit of its bound, given the bytes of the dialect's unit of memory."""


def check_limits(claims: PodClaims, limits: PodLimits, dialect: Dialect, *, idle: bool = False) -> int | None:
    """Check a pod's claims against its limits.

    The amount of a claim in percent depends on the card: it is kept within the limit by leaving out cards that are too
    large. A claim that names no memory, or no cores, counts as a whole device.

    Parameters
    ----------
    claims, limits, dialect
        The claims, their limits, and the dialect of both.
    idle
        Whether the pod takes only idle devices: then all of them count as exclusive.

    Returns
    -------
    int or None
        The largest memory that a device of the pod may have, in the unit of the dialect's memory dimension; None for
        any.

    Raises
    ------
    LimitError
        If the claims exceed a limit, whichever devices the pod gets.
    """
    if beyond := breaches(claims, limits, dialect, idle=idle):
        raise LimitError("; ".join(f"pod {breach}" for breach in beyond))
    unit, largest = dialect.inventory.memory_unit, None
    for sums in pod_sums(claims, dialect, idle=idle) if limits.memory is not None else ():
        if limits.memory is not None and sums.percent:
            bound = (limits.memory.most // unit - sums.memory) * WHOLE // sums.percent
            largest = bound if largest is None else min(largest, bound)
    return largest


def breaches(
    claims: PodClaims, limits: PodLimits, dialect: Dialect, *, idle: bool = False
) -> tuple[ExceededLimit, ...]:
    """Return the limits that a pod exceeds, each once, with the most that it asks for at any moment.

    Parameters
    ----------
    claims, limits, dialect, idle
        As for :func:`check_limits`.
    """
    unit = dialect.inventory.memory_unit
    bounds = {
        LimitField.EXCLUSIVE_CARDS: limits.exclusive_cards,
        LimitField.DEVICES: limits.devices,
        LimitField.CORES: limits.cores,
        LimitField.MEMORY: limits.memory,
    }
    if not any(bounds.values()):
        return ()
    moments, found = list(pod_sums(claims, dialect, idle=idle)), []
    for field, bound in bounds.items():
        asked, most = max(((LIMITED_SUMS[field](sums, unit), sums) for sums in moments), key=itemgetter(0))
        if bound is not None and asked > bound.most:
            found.append(ExceededLimit(field, asked, bound, _describe(field, asked, most)))
    return tuple(found)


def pod_sums(claims: PodClaims, dialect: Dialect, *, idle: bool = False) -> Iterator[PodSums]:
    """Yield what the pod holds while each init container runs, and at the end; sidecars stay."""
    sums = ((container.type, _of_container(container, dialect, idle=idle)) for container in claims)
    for together in moments(sums):
        yield reduce(PodSums.plus, together, PodSums())


def _of_container(container: ContainerClaims, dialect: Dialect, *, idle: bool) -> PodSums:
    ours = (claim for claim in container.claims if claim.vendor in dialect.inventory.cards)
    return reduce(PodSums.plus, (_of_claim(claim, dialect, idle=idle) for claim in ours), PodSums())


def _of_claim(claim: Claim, dialect: Dialect, *, idle: bool) -> PodSums:
    amount, percent = claim.amounts[dialect.inventory.memory], claim.percent[dialect.inventory.memory]
    units, compute = dialect.inventory.compute_units.get(claim.vendor, WHOLE), claim.amounts[dialect.inventory.cores]
    cores = percent_needed(compute, units) if compute else claim.percent[dialect.inventory.cores]
    return PodSums(
        devices=claim.count,
        own=claim.count * (idle or dialect.claims.takes_whole(claim)),
        cores=claim.count * min(cores or WHOLE, WHOLE),
        unnamed=claim.count * (not cores),
        memory=claim.count * amount,
        percent=claim.count * (0 if amount else percent or WHOLE),
    )


def _describe(field: LimitField, asked: int, sums: PodSums) -> str:
    match field:
        case LimitField.EXCLUSIVE_CARDS:
            return f"asks for {counted(asked, 'card')} for itself"
        case LimitField.DEVICES:
            return f"asks for {counted(asked, 'device')}"
        case LimitField.MEMORY:
            return f"asks for {in_binary_units(asked)}"
    if not sums.unnamed:
        return f"asks for {asked} percent of compute"
    return f"counts as {asked} percent of compute (it asks for no cores of {counted(sums.unnamed, 'device')})"

"""Claims that name a count of cards, and how much memory and compute of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from vgpu_scheduler.dialects.hami.vendors.base import CountedResources
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.values import (
    INT32,
    amount_text,
    bounded_amount,
    is_asked,
    memory_amount,
    percentage,
    whole_amount,
    without_count,
)
from vgpu_scheduler.kernels import CORES, MEMORY, SLOTS
from vgpu_scheduler.kube import Container
from vgpu_scheduler.model import MIB, NO_DEFAULTS, WHOLE, Claim, ClaimDefaults, QuotaResource


@dataclass(frozen=True, slots=True)
class ShareNames:
    """Resource names and defaults of a vendor's cards; an empty name is none.

    The documented defaults hold. What HAMi would drop in silence, and the API server would refuse
    anyway, is refused here with the field's name and the fix.

    Attributes
    ----------
    count, memory, memory_percent, cores
        How many cards; how much memory of each, in units of ``memory_factor`` MiB or in percent; percent of compute.
    memory_factor
        What one unit of the memory resource stands for, in MiB.
    default_memory
        MiB for a container that names a count only; 0 means the whole card.
    default_cores
        Percent for a container that does not name cores.
    units_in_bytes
        Memory that is written with a unit is in bytes.
    divided
        What is asked for is for all cards together.
    cores_of_card
        Compute is a part of what the card has, whatever that is counted in.
    advertised
        Nodes advertise the amounts, too, and the kubelet checks them.
    limits_only
        Requests say nothing where there is no limit.
    whole_is_exclusive
        A container that asks for whole cards claims all of their compute, too, where neither it nor a policy says how
        much. One that names memory, if only as 0, does not ask for whole cards.
    units
        What the compute of a whole card is in the unit of ``cores``.
    """

    count: str
    memory: str = ""
    memory_percent: str = ""
    cores: str = ""
    memory_factor: int = 1
    default_memory: int = 0
    default_cores: int = 0
    units_in_bytes: bool = False
    divided: bool = False
    cores_of_card: bool = False
    advertised: bool = False
    limits_only: bool = False
    whole_is_exclusive: bool = False
    units: int = WHOLE

    def configured(self, section: VendorSection) -> Self:
        """Return the names that a section of HAMi's configuration gives, and these where it gives none.

        Raises
        ------
        ConfigError
            If one of them is no name of a resource, or names two.
        """

        def name(field: str, known: str) -> str:
            return section.text(field, known) if known else ""

        return replace(
            self,
            count=name("resourceCountName", self.count),
            memory=name("resourceMemoryName", self.memory),
            memory_percent=name("resourceMemoryPercentageName", self.memory_percent),
            cores=name("resourceCoreName", self.cores),
        )

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Resources that are no amounts: none."""
        return {}

    @property
    def of_zero(self) -> str:
        """What a container gets that names memory, but none."""
        silent = f"{self.default_memory} MiB" if self.default_memory else "a whole card"
        return f"{silent}, unless a policy has a default"

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources that a claim cannot do without."""
        return (self.count,)

    @property
    def amounts(self) -> tuple[str, ...]:
        """The resources that say how much of a card, and mean nothing without the count."""
        return tuple(name for name in (self.memory, self.memory_percent, self.cores) if name)

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that says anything about a claim."""
        return (self.count, *self.amounts)

    def quotas(self, vendor: str) -> dict[str, QuotaResource]:
        """Return what a namespace's quota may limit of the vendor's cards."""
        found = {
            self.memory: QuotaResource(vendor, MEMORY, self.memory_factor, bytes=MIB if self.units_in_bytes else 0),
            self.cores: QuotaResource(vendor, CORES, of_card=self.cores_of_card),
        }
        return {name: resource for name, resource in found.items() if name}

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows."""
        return () if self.advertised else self.amounts

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """Which dimension each resource is an amount of, and whether it is in percent of what a card has."""
        said = (
            (self.count, SLOTS, False),
            (self.memory, MEMORY, False),
            (self.memory_percent, MEMORY, True),
            (self.cores, CORES, False),
        )
        return tuple((name, dimension, percent) for name, dimension, percent in said if name)

    def asks(self, container: Container) -> bool:
        """Tell whether the container names the count resource at all, however malformed the rest may be."""
        return is_asked(self._seen(container), self.count)

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any.

        Raises
        ------
        ClaimError
            If any amount is malformed or given without a count.
        """
        del mode
        container = self._seen(container)
        count = bounded_amount(container, self.count)
        if count is None:
            given = next((name for name in self.amounts if amount_text(container, name) is not None), None)
            if given is not None:
                raise without_count(container, f"{given} is given without {self.count}:", self.count)
            return None
        if count == 0:
            return None
        parts = count if self.divided else 1
        of_all = self._memory(container)
        memory = of_all // parts
        percent = min(self._percent(container), WHOLE)
        if not percent and not of_all:
            memory = self.default_memory
            if defaults.memory is not None and self.memory:
                memory = max(defaults.memory // MIB, 1)
            percent = 0 if memory else WHOLE
        whole = percent == WHOLE and not memory and self._says_nothing_else(container)
        cores = self._cores(container, defaults, parts, whole=whole)
        if self.cores_of_card:
            return Claim(vendor, count, (1, memory, 0), (0, percent, max(cores, 1)))
        return Claim(vendor, count, (1, memory, cores), (0, percent, 0))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim leaves nothing of its cards to others: no compute, or no memory."""
        _, memory, cores, *_ = claim.amounts
        _, of_memory, of_cores, *_ = claim.percent
        return max(cores * WHOLE // self.units, of_cores) >= WHOLE or (not memory and of_memory >= WHOLE)

    def _seen(self, container: Container) -> Container:
        return Container(container.name, container.kind, container.limits, {}) if self.limits_only else container

    def _cores(self, container: Container, defaults: ClaimDefaults, parts: int, *, whole: bool) -> int:
        """Return the compute of each card: what the container says, or what is said for it."""
        given = bounded_amount(container, self.cores)
        if defaults.exclusive:
            return self.units
        if given is not None:
            if self.cores_of_card:
                percentage(container, self.cores, 1)
            return given // parts
        if defaults.cores is not None and self.cores:
            return -(-defaults.cores * self.units // WHOLE)
        return WHOLE if whole and self.whole_is_exclusive else self.default_cores

    def _says_nothing_else(self, container: Container) -> bool:
        """Tell whether all memory is asked for by its percentage, or by not naming memory: a 0 is not that."""
        if self._percent(container):
            return True
        return not any(name and amount_text(container, name) for name in (self.memory, self.memory_percent))

    def _percent(self, container: Container) -> int:
        return (whole_amount(container, self.memory_percent) or 0) if self.memory_percent else 0

    def _memory(self, container: Container) -> int:
        factor = self.memory_factor
        return (memory_amount(container, self.memory, factor, INT32 // factor) or 0) * factor


@dataclass(frozen=True, slots=True)
class CountNames(CountedResources):
    """The resource name of cards that are asked for by number only, and given out without amounts.

    Attributes
    ----------
    count
        How many cards.
    """

    count: str

    @property
    def counts(self) -> tuple[str, ...]:
        """The resource that a claim cannot do without."""
        return (self.count,)

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """Which dimension the resource is an amount of: shares."""
        return ((self.count, SLOTS, False),)

    def asks(self, container: Container) -> bool:
        """Tell whether the container names the resource at all."""
        return is_asked(container, self.count)

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any.

        Raises
        ------
        ClaimError
            If the number is malformed.
        """
        del defaults, mode  # there is nothing to add to a number
        count = bounded_amount(container, self.count)
        return Claim(vendor, count, (1, 0, 0), (0, 0, 0)) if count else None

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim leaves nothing of its cards to others: they are given out by number."""
        del claim
        return True

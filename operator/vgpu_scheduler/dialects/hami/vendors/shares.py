"""Claims on a number of cards, with memory and compute of each."""

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
class ShareRequests:
    """Resource names and defaults of a vendor's cards; an empty name stands for no such resource.

    The documented defaults apply. Requests that HAMi would silently ignore are refused here with the field's name and
    the fix.

    Attributes
    ----------
    count, memory, memory_percent, cores
        The number of cards; memory of each, in units of ``memory_factor`` MiB or in percent; percent of compute.
    memory_factor
        MiB per unit of the memory resource.
    default_memory
        MiB for a container that names only a count; 0 means the whole card.
    default_cores
        Percent for a container that names no cores.
    units_in_bytes
        Whether memory with a suffix is in bytes.
    divided
        Whether amounts are the total over all cards.
    cores_of_card
        Whether compute is a percentage of the card's capacity, whatever unit that has.
    advertised
        Whether nodes also advertise the amounts, so that the kubelet checks them.
    limits_only
        Whether requests without a limit are ignored.
    whole_is_exclusive
        Whether a container with whole cards also claims all of their compute if neither it nor a policy sets compute. A
        container that names memory, even as 0, does not request whole cards.
    units
        The compute of a whole card in the unit of ``cores``.
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
        """Return a copy with the names that a section of HAMi's configuration sets.

        Raises
        ------
        ConfigError
            If one of them is not a resource name.
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
        """Resources that are choices, not amounts: none."""
        return {}

    @property
    def of_zero(self) -> str:
        """What a container with 0 memory gets."""
        silent = f"{self.default_memory} MiB" if self.default_memory else "a whole card"
        return f"{silent}, unless a policy has a default"

    @property
    def counts(self) -> tuple[str, ...]:
        """The resource that a claim needs."""
        return (self.count,)

    @property
    def amounts(self) -> tuple[str, ...]:
        """The resources for amounts of a card, which need the count."""
        return tuple(name for name in (self.memory, self.memory_percent, self.cores) if name)

    @property
    def resources(self) -> tuple[str, ...]:
        """All resources that are part of claims."""
        return (self.count, *self.amounts)

    def quotas(self, vendor: str) -> dict[str, QuotaResource]:
        """Return the resources of the vendor's cards that quotas may limit."""
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
        """The dimension of each resource, and whether it is in percent of a card's capacity."""
        said = (
            (self.count, SLOTS, False),
            (self.memory, MEMORY, False),
            (self.memory_percent, MEMORY, True),
            (self.cores, CORES, False),
        )
        return tuple((name, dimension, percent) for name, dimension, percent in said if name)

    def asks(self, container: Container) -> bool:
        """Tell whether the container requests the count resource, even if other amounts are malformed."""
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
                memory = defaults.memory_in(MIB)
            percent = 0 if memory else WHOLE
        whole = percent == WHOLE and not memory and self._takes_memory_by_percent_only(container)
        cores = self._cores(container, defaults, parts, whole=whole)
        if self.cores_of_card:
            return Claim(vendor, count, (1, memory, 0), (0, percent, max(cores, 1)))
        return Claim(vendor, count, (1, memory, cores), (0, percent, 0))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes all compute or all memory of its cards."""
        _, memory, cores, *_ = claim.amounts
        _, of_memory, of_cores, *_ = claim.percent
        return max(cores * WHOLE // self.units, of_cores) >= WHOLE or (not memory and of_memory >= WHOLE)

    def _seen(self, container: Container) -> Container:
        return Container(container.name, container.type, container.limits, {}) if self.limits_only else container

    def _cores(self, container: Container, defaults: ClaimDefaults, parts: int, *, whole: bool) -> int:
        """Return the compute of each card: the container's, else the policy's, else the default."""
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

    def _takes_memory_by_percent_only(self, container: Container) -> bool:
        """Tell whether memory is requested by percentage, or not named at all; a named 0 is neither."""
        if self._percent(container):
            return True
        return not any(name and amount_text(container, name) for name in (self.memory, self.memory_percent))

    def _percent(self, container: Container) -> int:
        return (whole_amount(container, self.memory_percent) or 0) if self.memory_percent else 0

    def _memory(self, container: Container) -> int:
        factor = self.memory_factor
        return (memory_amount(container, self.memory, factor, INT32 // factor) or 0) * factor


@dataclass(frozen=True, slots=True)
class CountRequests(CountedResources):
    """The resource name of cards that are requested by number only.

    Attributes
    ----------
    count
        The number of cards.
    """

    count: str

    @property
    def counts(self) -> tuple[str, ...]:
        """The resource that a claim needs."""
        return (self.count,)

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """The dimension of the resource: slots."""
        return ((self.count, SLOTS, False),)

    def asks(self, container: Container) -> bool:
        """Tell whether the container requests the resource."""
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
        del defaults, mode  # a number has no defaults
        count = bounded_amount(container, self.count)
        return Claim(vendor, count, (1, 0, 0), (0, 0, 0)) if count else None

    def takes_whole(self, claim: Claim) -> bool:
        """Return True: cards are given out whole."""
        del claim
        return True

"""The amounts that a pod's containers ask for, in countable steps, so that smaller amounts can be tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects
from vgpu_scheduler.kube import HUGE_PAGES, MAX_INT64, Object, Pod, QuantityError, to_int, to_milli
from vgpu_scheduler.model import (
    MIB,
    WHOLE,
    Claim,
    DeviceResource,
    PodClaims,
    counted,
    mib_needed,
    shown_needed,
    shown_unit,
)
from vgpu_scheduler.whatif.objects.card_names import unit_of
from vgpu_scheduler.whatif.objects.containers import (
    amounts_asked,
    containers_of,
    with_amount,
    with_container,
    without_amounts,
)

_CPU: Final = "cpu"
_MILLI: Final = "m"
_BYTES: Final = ("memory", "ephemeral-storage")
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class AmountChange:
    """A change of the amount that a container asks of a resource.

    Attributes
    ----------
    written, meant
        The present and the proposed quantity, as written in the pod.
    unit
        The unit of the resource, if its name does not tell it.
    """

    container: str
    resource: str
    written: str
    meant: str
    unit: str = ""

    def __str__(self) -> str:
        of = f"{self.resource}, which is {self.unit}," if self.unit else self.resource
        return f"ask {self.meant} of {of} {instead_of(self.written, self.container)}"

    def after(self, earlier: AmountChange) -> AmountChange | None:
        """Return both changes as one; None if this change does not continue the earlier one."""
        led_to = (earlier.container, earlier.resource, earlier.meant)
        return (
            replace(self, written=earlier.written) if led_to == (self.container, self.resource, self.written) else None
        )

    def is_of(self, amount: Amount | None) -> bool:
        """Tell whether an amount is the result of this change; any other amount does not need the change first."""
        parts = () if amount is None or amount.container != self.container else amount.parts
        return any((part.resource, part.mistaken) == (self.resource, self.written) for part in parts)


def instead_of(written: str, container: str) -> str:
    """Name the present quantity and its container, as the end of a proposal."""
    return f"instead of {written} in container {container}"


@dataclass(frozen=True, slots=True)
class ResourceStep:
    """A resource that changes with each step of an amount.

    Attributes
    ----------
    each
        The quantity of one step.
    suffix
        The suffix of the quantity: ``m``, ``Mi`` or nothing.
    written
        The present quantity; empty if the pod does not ask for the resource.
    mistaken
        The pod's original quantity, if ``written`` is a correction of it; empty otherwise.
    unit
        The unit of the resource, if its name does not tell it; empty otherwise.
    """

    resource: str
    each: int = 1
    suffix: str = ""
    written: str = ""
    mistaken: str = ""
    unit: str = ""

    @property
    def unit_text(self) -> str:
        """The unit as the end of a proposal."""
        return f" ({self.unit})" if self.unit else ""

    @property
    def is_beyond_all(self) -> bool:
        """Whether the written quantity exceeds int64, so that its difference to another amount is unknown."""
        try:
            return bool(self.written) and to_int(self.written) >= MAX_INT64
        except QuantityError:
            return False

    def quantity(self, steps: int) -> str:
        """Return a number of steps as a quantity."""
        amount, suffix = self.each * steps, self.suffix
        if suffix == _MILLI and amount % 1000 == 0:
            amount, suffix = amount // 1000, ""
        return f"{amount}{suffix}"


@dataclass(frozen=True, slots=True)
class Amount:
    """What a container asks of one resource, or of several that together determine its number of cards.

    Attributes
    ----------
    field, index
        The container's field (``containers`` or ``initContainers``) and its index there.
    container
        The container's name.
    parts
        The resources.
    steps
        The amount in steps; one more than the maximum if the container does not say it.
    unsaid
        What happens because the container does not say the amount; empty if it does.
    instead
        A resource that this one would replace in the container; None if it replaces none.
    is_given
        Whether the pod's condition shows that a policy sets the amount, which the container does not say.
    """

    field: str
    index: int
    container: str
    parts: tuple[ResourceStep, ...]
    steps: int
    unsaid: str = ""
    instead: ResourceStep | None = None
    is_given: bool = False

    def includes(self, other: Amount) -> bool:
        """Tell whether another amount of the same container covers only some of this one's resources."""
        return self.covers(other) and not other.covers(self)

    def covers(self, other: Amount) -> bool:
        """Tell whether another amount of the same container is about this one's resources, or some of them."""
        mine, theirs = ({part.resource for part in amount.parts} for amount in (self, other))
        return (self.field, self.index) == (other.field, other.index) and theirs <= mine

    def request_text(self, steps: int, but: Mapping[str, str] = _NOTHING) -> str:
        """Describe the request for a number of steps, in place of the present one.

        Parameters
        ----------
        but
            Quantities that differ from the number of steps, by resource.
        """
        if len(self.parts) > 1:
            cards = counted(steps, "card")
            quantities = ((but.get(part.resource) or part.quantity(steps), part.resource) for part in self.parts)
            amounts = ", ".join(f"{quantity} of {resource}" for quantity, resource in quantities)
            return f"ask for {cards} instead of {self.steps} in container {self.container}: {amounts}"
        (part,) = self.parts
        if self.instead is not None:
            was = f"{self.instead.written} of {self.instead.resource}"
            return f"ask {part.quantity(steps)} of {part.resource} in container {self.container} instead of {was}"
        asked = f"ask {part.quantity(steps)} of {part.resource}"
        if self.unsaid:
            return f"{asked} ({self.unsaid}) in container {self.container}{part.unit_text}"
        less = f", {part.quantity(abs(self.steps - steps))} {'less' if steps < self.steps else 'more'}"
        if part.is_beyond_all or part.mistaken:
            less = ""
        return f"{asked} {instead_of(part.mistaken or part.written, self.container)}{less}{part.unit_text}"

    def less_of(self, part: ResourceStep) -> str:
        """Propose to ask for less of one of the resources, or for some of it if its amount is not said."""
        where = f"{part.resource} in container {self.container}"
        less = f"ask for less than {part.written} of {where}"
        if part.mistaken:
            less = f"ask for less than {part.written} of {part.resource} {instead_of(part.mistaken, self.container)}"
        return (f"ask for some of {where} ({self.unsaid})" if self.unsaid else less) + part.unit_text

    def applied(self, pod: Object, steps: int) -> Object:
        """Return a pod that asks for a number of steps, in its limits and requests where it did before."""
        container = pod["spec"][self.field][self.index]
        if self.instead is not None:
            container = without_amounts(container, (self.instead.resource,))
        for part in self.parts:
            places = ("requests",) if part.resource == _CPU or part.resource in _BYTES else ()
            container = with_amount(container, part.resource, part.quantity(steps), places)
        return with_container(pod, self.field, self.index, container)


class _Gets(NamedTuple):
    """A container's claim for one vendor's cards: as the effective policy makes it, and as written in the pod."""

    claim: Claim
    written: Claim

    def is_written(self, dimension: int) -> bool:
        """Tell whether policies leave the claim unchanged in a dimension."""
        now, then = ((each.amounts[dimension], each.percent[dimension]) for each in self)
        return now == then


def amounts_of(
    pod: Object,
    dialects: Dialects,
    read: Pod,
    claims: PodClaims,
    corrections: Sequence[AmountChange] = (),
    *,
    all_policies: bool = True,
) -> Iterator[Amount]:
    """Yield all amounts of a pod's containers, and the card memory and compute that containers do not specify.

    Parameters
    ----------
    pod
        The pod as written.
    dialects
        The dialects whose resource names are known.
    read
        The same pod, decoded.
    claims
        The pod's claims under its policies, which may add what the pod does not say.
    corrections
        Corrections of mistaken amounts that have already been applied to the pod.
    all_policies
        Whether the claims follow from all policies; otherwise others may have defaults, and only what a known policy
        gives is told.
    """
    mistaken = {(each.container, each.resource, each.meant): each.written for each in corrections}
    for field, index, container in containers_of(pod):
        name, asked = str(container.get("name", "")), amounts_asked(container)
        for resource, quantity in asked.items():
            measured = _measured(resource, str(quantity))
            if measured is not None:
                steps, suffix = measured
                was = mistaken.get((name, resource, str(quantity)), "")
                part = ResourceStep(resource, 1, suffix, str(quantity), was, unit_of(dialects, resource))
                yield Amount(field, index, name, (part,), steps)
        own = _by_vendor(claims, name)
        for dialect in dialects.owners(read):
            written = _by_vendor(dialect.claims.read(read), name) if is_claim(dialect, read) else own
            gets = {vendor: _Gets(claim, written.get(vendor, claim)) for vendor, claim in own.items()}
            for part, most, unsaid in _unsaid_memory(asked, dialect, read, gets, all_policies=all_policies):
                yield Amount(
                    field, index, name, (replace(part, unit=unit_of((dialect,), part.resource)),), most, unsaid
                )
            for part, most, unsaid in _unsaid_cores(asked, dialect, gets, all_policies=all_policies):
                yield Amount(field, index, name, (part,), most, unsaid)
            cards, parts = _cards(asked, dialect, read)
            if len(parts) > 1:
                yield Amount(field, index, name, parts, cards)


def _measured(resource: str, quantity: str) -> tuple[int, str] | None:
    """Return a quantity as a number of steps and a suffix; None if it is malformed."""
    try:
        if resource == _CPU:
            return to_milli(quantity), _MILLI
        if resource in _BYTES or resource.startswith(HUGE_PAGES) or quantity.endswith("i"):
            # not "k": the API server writes 8000 bytes as 8k
            return mib_needed(to_int(quantity)), "Mi"
        return to_int(quantity), ""
    except QuantityError:
        return None  # the pod is refused for this anyway


def _unsaid_memory(
    asked: Mapping[str, Any], dialect: Dialect, read: Pod, own: Mapping[str, _Gets], *, all_policies: bool
) -> Iterator[tuple[ResourceStep, int, str]]:
    """Yield the resources with which a container could limit its card memory, the maximum, and what happens without.

    A resource with an amount of 0 counts as not specified.
    """
    inventory = dialect.inventory
    memory = {n: r for n, r in inventory.device_resources.items() if r.dimension == inventory.memory}
    named = {inventory.device_resources[name].vendor for name in asked if name in inventory.device_resources}
    nothing = {name: str(asked[name]) for name in memory if _measured(name, str(asked.get(name))) == (0, "")}
    said = {each.vendor for name, each in _telling_memory(dialect) if name in asked.keys() - nothing.keys()}
    meant = {memory[name].vendor for name in nothing}
    for name, resource in memory.items():
        if resource.vendor not in named - said or name not in dialect.claims.resources:
            continue
        if name not in nothing and (resource.percent or resource.vendor in meant):
            continue
        says, more = (
            ("it does not say", " how much") if name not in nothing else (f"{nothing[name]} is not an amount", "")
        )
        claimed = own.get(resource.vendor)
        if is_claim(dialect, read) and (all_policies or _is_by_policy(claimed, inventory.memory)):
            gets = _by_default(dialect, claimed, inventory.memory)
            more = f", and {'it ' * (name in nothing)}gets {gets or 'whole cards'}"
        suffix = "Mi" if inventory.memory_unit == 1 and not resource.percent else ""
        yield (
            ResourceStep(name, 1, suffix, nothing.get(name, "")),
            WHOLE + 1 if resource.percent else MIB,
            f"{says}{more}",
        )


def _telling_memory(dialect: Dialect) -> Iterator[tuple[str, DeviceResource]]:
    """Yield the resources that specify card memory, including those booked in a part of their own."""
    inventory = dialect.inventory
    of_memory = inventory.dimensions[inventory.memory].name
    for name, resource in inventory.device_resources.items():
        if inventory.dimensions[resource.dimension].name.split()[0] == of_memory:
            yield name, resource


def _unsaid_cores(
    asked: Mapping[str, Any], dialect: Dialect, own: Mapping[str, _Gets], *, all_policies: bool
) -> Iterator[tuple[ResourceStep, int, str]]:
    """Yield the resources with which a container could limit its compute, the maximum, and what happens without."""
    inventory = dialect.inventory
    cores = {n: r for n, r in inventory.device_resources.items() if r.dimension == inventory.cores}
    named = {inventory.device_resources[name].vendor for name in asked if name in inventory.device_resources}
    said = {cores[name].vendor for name in asked if name in cores}
    for name, resource in cores.items():
        if resource.vendor in named - said and name in dialect.claims.resources:
            claimed = own.get(resource.vendor)
            default = _by_default(dialect, claimed, inventory.cores)
            gets = f", and gets {default}" if default else ", and counts as all of its cards"
            is_known = all_policies or _is_by_policy(claimed, inventory.cores)
            most = inventory.compute_units.get(resource.vendor, WHOLE)
            yield ResourceStep(name), most, f"it asks for none{gets if is_known else ''}"


def _by_vendor(claims: PodClaims, container: str) -> dict[str, Claim]:
    return {claim.vendor: claim for each in claims if each.name == container for claim in each.claims}


def _is_by_policy(gets: _Gets | None, dimension: int) -> bool:
    """Tell whether a known policy determines what a container gets."""
    return gets is not None and not gets.is_written(dimension)


def _by_default(dialect: Dialect, gets: _Gets | None, dimension: int) -> str:
    """Describe how much of each card a container gets without specifying it; empty for whole cards."""
    if gets is None:
        return ""
    amount, percent = gets.claim.amounts[dimension], gets.claim.percent[dimension]
    about, is_written = dialect.inventory.dimensions[dimension], gets.is_written(dimension)
    by = "by default" if is_written else "by a policy"
    if amount and not (is_written and dimension == dialect.inventory.cores and amount == _whole_card(dialect, gets)):
        return f"{shown_needed(amount, about.unit)} {shown_unit(about.unit)} {by}"
    return f"{percent} percent {by}" if 0 < percent < WHOLE else ""


def _whole_card(dialect: Dialect, gets: _Gets) -> int:
    """Return the compute units of a whole card."""
    return dialect.inventory.compute_units.get(gets.claim.vendor, WHOLE)


def _cards(asked: Mapping[str, Any], dialect: Dialect, read: Pod) -> tuple[int, tuple[ResourceStep, ...]]:
    """Return a container's number of cards and its amounts per card, in dialects that ask for sums over cards.

    Return no amounts where the number of cards is ambiguous or 1.
    """
    known, in_sums = dialect.inventory.device_resources, dialect.inventory.in_sums
    if not in_sums or not is_claim(dialect, read):
        return 0, ()
    claims = [claim for container in dialect.claims.read(read) for claim in container.claims if claim.vendor in in_sums]
    counts = {claim.count for claim in claims}
    count = max(counts, default=0)
    names = [
        name
        for name in asked
        if name in dialect.claims.resources and (name not in known or known[name].vendor in in_sums)
    ]
    if len(counts) != 1 or count < 2 or any(read.spec.requests.get(name) != _whole(asked[name]) for name in names):
        return 0, ()  # several types of devices, one card, or amounts summed over several containers
    parts = []
    for name in names:
        each, suffix = _whole(asked[name]) // count, ""
        if each % MIB == 0 and each:
            each, suffix = each // MIB, "Mi"
        parts.append(ResourceStep(name, each, suffix, str(asked[name])))
    return count, tuple(parts)


def _whole(quantity: object) -> int:
    return to_int(str(quantity))


def is_claim(dialect: Dialect, pod: Pod) -> bool:
    """Tell whether a dialect can read the pod's claims."""
    try:
        dialect.claims.read(pod)
    except ClaimError:
        return False
    return True

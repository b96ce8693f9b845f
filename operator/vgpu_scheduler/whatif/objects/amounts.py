"""The amounts that the containers of a pod ask for, in steps that can be counted down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects
from vgpu_scheduler.kube import HUGE_PAGES, MAX_INT64, Object, Pod, QuantityError, to_int, to_milli
from vgpu_scheduler.model import MIB, WHOLE, Claim, DeviceResource, PodClaims, counted
from vgpu_scheduler.whatif.objects.containers import containers_of

_CPU: Final = "cpu"
_MILLI: Final = "m"
_BYTES: Final = ("memory", "ephemeral-storage")
_NOTHING: Final[Mapping[str, str]] = {}
_SUMS_OVER_CARDS: Final = frozenset({"koordinator"})
"""Dialects in which a container says how much it wants of all its cards together, and not of each."""


@dataclass(frozen=True, slots=True)
class AmountChange:
    """What a container is to ask of a resource instead of what it asks.

    Attributes
    ----------
    written, meant
        The quantities as they are written, and would be.
    unit
        What the resource is counted in, where that is not plain.
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
        """Return both changes as one; None where the earlier one does not lead to this one."""
        led_to = (earlier.container, earlier.resource, earlier.meant)
        return (
            replace(self, written=earlier.written) if led_to == (self.container, self.resource, self.written) else None
        )

    def is_of(self, amount: Amount | None) -> bool:
        """Tell whether an amount is the one that was changed so: who asks it otherwise need not change it before."""
        parts = () if amount is None or amount.container != self.container else amount.parts
        return any((part.resource, part.mistaken) == (self.resource, self.written) for part in parts)


def instead_of(written: str, container: str) -> str:
    """Say what a container asks now that is to ask another amount."""
    return f"instead of {written} in container {container}"


@dataclass(frozen=True, slots=True)
class ResourceStep:
    """A resource that changes with the steps of an amount.

    Attributes
    ----------
    each
        How much of it one step is.
    suffix
        What is written behind the number: ``m``, ``Mi`` or nothing.
    written
        What is written now; empty where nothing is.
    mistaken
        What stands there by mistake, which was corrected to what is written; empty where nothing was.
    """

    resource: str
    each: int = 1
    suffix: str = ""
    written: str = ""
    mistaken: str = ""

    @property
    def is_beyond_all(self) -> bool:
        """Whether more is written than can be counted: nobody knows how much less another amount is."""
        try:
            return bool(self.written) and to_int(self.written) >= MAX_INT64
        except QuantityError:
            return False

    def quantity(self, steps: int) -> str:
        """Return so many steps as a quantity."""
        amount, suffix = self.each * steps, self.suffix
        if suffix == _MILLI and amount % 1000 == 0:
            amount, suffix = amount // 1000, ""
        return f"{amount}{suffix}"


@dataclass(frozen=True, slots=True)
class Amount:
    """What one container asks of one resource, or of several that say together how many cards it wants.

    Attributes
    ----------
    field, index
        Which container: ``containers`` or ``initContainers``, and its number there.
    container
        Its name.
    parts
        The resources.
    steps
        How much is asked in steps, or one more than the most there is where nothing is said.
    unsaid
        What it means that nothing is said; empty where something is.
    instead
        A resource that would no longer be asked for beside it; None where nothing is asked instead of it now.
    """

    field: str
    index: int
    container: str
    parts: tuple[ResourceStep, ...]
    steps: int
    unsaid: str = ""
    instead: ResourceStep | None = None

    def includes(self, other: Amount) -> bool:
        """Tell whether another amount of the same container is a part of this one."""
        mine, theirs = ({part.resource for part in amount.parts} for amount in (self, other))
        return (self.field, self.index) == (other.field, other.index) and theirs < mine

    def worded(self, steps: int, but: Mapping[str, str] = _NOTHING) -> str:
        """Say what would have to be asked instead.

        Parameters
        ----------
        but
            The quantities of those of several resources that are otherwise.
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
            return f"{asked} ({self.unsaid}) in container {self.container}"
        less = f", {part.quantity(abs(self.steps - steps))} {'less' if steps < self.steps else 'more'}"
        if part.is_beyond_all or part.mistaken:
            less = ""
        return f"{asked} {instead_of(part.mistaken or part.written, self.container)}{less}"

    def less_of(self, part: ResourceStep) -> str:
        """Say that less is asked of one of its resources, or some of it where nobody says how much."""
        where = f"{part.resource} in container {self.container}"
        less = f"ask for less than {part.written} of {where}"
        return f"ask for some of {where} ({self.unsaid})" if self.unsaid else less

    def applied(self, pod: Object, steps: int) -> Object:
        """Return a pod that asks so many steps, as a limit or a request or both, as it did."""
        spec = pod["spec"]
        containers = list(spec[self.field])
        container = containers[self.index]
        given = container.get("resources") or {}
        gone = "" if self.instead is None else self.instead.resource
        resources = {
            place: {name: quantity for name, quantity in (listed or {}).items() if name != gone}
            for place, listed in given.items()
            if place != "claims"
        }
        for part in self.parts:
            places = [key for key, listed in resources.items() if part.resource in listed] or ["limits"]
            if part.resource == _CPU or part.resource in _BYTES:
                places = ["requests"]
            for place in places:
                resources.setdefault(place, {})[part.resource] = part.quantity(steps)
        containers[self.index] = {**container, "resources": {**given, **resources}}
        return {**pod, "spec": {**spec, self.field: containers}}


class _Gets(NamedTuple):
    """What a container gets of a kind of cards, and what it would get if no policy said anything."""

    claim: Claim
    written: Claim

    def is_written(self, dimension: int) -> bool:
        """Tell whether it gets the same of a dimension without policies."""
        now, then = ((each.amounts[dimension], each.percent[dimension]) for each in self)
        return now == then


def amounts_of(
    pod: Object, dialects: Dialects, read: Pod, claims: PodClaims, corrections: Sequence[AmountChange] = ()
) -> Iterator[Amount]:
    """Yield all amounts of a pod's containers, and the memory of cards of which a container does not say how much.

    Parameters
    ----------
    pod
        As it is written.
    dialects
        Whose names for memory are known.
    read
        The same pod.
    claims
        What it asks for by its policies, which may say what it does not.
    corrections
        Amounts that were mistakes, and are written now as they are meant.
    """
    mistaken = {(each.container, each.resource, each.meant): each.written for each in corrections}
    for field, index, container in containers_of(pod):
        name, resources = str(container.get("name", "")), container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, quantity in asked.items():
            measured = _measured(resource, str(quantity))
            if measured is not None:
                steps, suffix = measured
                was = mistaken.get((name, resource, str(quantity)), "")
                yield Amount(field, index, name, (ResourceStep(resource, 1, suffix, str(quantity), was),), steps)
        own = _by_vendor(claims, name)
        for dialect in dialects.owners(read):
            written = _by_vendor(dialect.claims.read(read), name) if is_claim(dialect, read) else own
            gets = {vendor: _Gets(claim, written.get(vendor, claim)) for vendor, claim in own.items()}
            for part, most, unsaid in _unsaid_memory(asked, dialect, read, gets):
                yield Amount(field, index, name, (part,), most, unsaid)
            for part, most, unsaid in _unsaid_cores(asked, dialect, gets):
                yield Amount(field, index, name, (part,), most, unsaid)
            if dialect.name in _SUMS_OVER_CARDS:
                cards, parts = _cards(asked, dialect, read)
                if len(parts) > 1:
                    yield Amount(field, index, name, parts, cards)


def _measured(resource: str, quantity: str) -> tuple[int, str] | None:
    """Return a quantity in steps, and what is written behind their number; None where it is malformed."""
    try:
        if resource == _CPU:
            return to_milli(quantity), _MILLI
        if resource in _BYTES or resource.startswith(HUGE_PAGES) or quantity.endswith("i"):
            # not k: the API writes 8000 as 8k
            return -(-to_int(quantity) // MIB), "Mi"
        return to_int(quantity), ""
    except QuantityError:
        return None  # the pod is refused for it


def _unsaid_memory(
    asked: Mapping[str, Any], dialect: Dialect, read: Pod, own: Mapping[str, _Gets]
) -> Iterator[tuple[ResourceStep, int, str]]:
    """Yield the resources that would say how much memory of its cards a container wants, all of it, and their lack.

    One that is asked for with 0 would, if it were more.
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
        says, more = ("it does not say", " how much") if name not in nothing else (f"{nothing[name]} is no amount", "")
        if is_claim(dialect, read):
            gets = _by_default(dialect, own.get(resource.vendor), inventory.memory)
            more = f", and {'it ' * (name in nothing)}gets {gets or 'whole cards'}"
        suffix = "Mi" if inventory.memory_unit == 1 and not resource.percent else ""
        yield (
            ResourceStep(name, 1, suffix, nothing.get(name, "")),
            WHOLE + 1 if resource.percent else MIB,
            f"{says}{more}",
        )


def _telling_memory(dialect: Dialect) -> Iterator[tuple[str, DeviceResource]]:
    """Yield the resources that say how much memory of cards is wanted, be it as a part that is booked by itself."""
    inventory = dialect.inventory
    of_memory = inventory.dimensions[inventory.memory].name
    for name, resource in inventory.device_resources.items():
        if inventory.dimensions[resource.dimension].name.split()[0] == of_memory:
            yield name, resource


def _unsaid_cores(
    asked: Mapping[str, Any], dialect: Dialect, own: Mapping[str, _Gets]
) -> Iterator[tuple[ResourceStep, int, str]]:
    """Yield the resources that would say how much compute of its cards a container wants, all of it, and their lack."""
    inventory = dialect.inventory
    cores = {n: r for n, r in inventory.device_resources.items() if r.dimension == inventory.cores}
    named = {inventory.device_resources[name].vendor for name in asked if name in inventory.device_resources}
    said = {cores[name].vendor for name in asked if name in cores}
    for name, resource in cores.items():
        if resource.vendor in named - said and name in dialect.claims.resources:
            default = _by_default(dialect, own.get(resource.vendor), inventory.cores)
            unsaid = f"gets {default}" if default else "counts as all of its cards"
            most = inventory.compute_units.get(resource.vendor, WHOLE)
            yield ResourceStep(name), most, f"it asks for none, and {unsaid}"


def _by_vendor(claims: PodClaims, container: str) -> dict[str, Claim]:
    return {claim.vendor: claim for each in claims if each.name == container for claim in each.claims}


def _by_default(dialect: Dialect, gets: _Gets | None, dimension: int) -> str:
    """Say how much of each of its cards a container gets that does not say it; empty where it is all of them."""
    if gets is None:
        return ""
    amount, percent = gets.claim.amounts[dimension], gets.claim.percent[dimension]
    about, is_written = dialect.inventory.dimensions[dimension], gets.is_written(dimension)
    by = "by default" if is_written else "by a policy"
    if amount and about.unit == "bytes":
        return f"{-(-amount // MIB)} MiB {by}"
    if amount and not (is_written and dimension == dialect.inventory.cores and amount == _whole_card(dialect, gets)):
        return f"{amount} {about.unit} {by}"
    return f"{percent} percent {by}" if 0 < percent < WHOLE else ""


def _whole_card(dialect: Dialect, gets: _Gets) -> int:
    """Return what all of the compute of a card is."""
    return dialect.inventory.compute_units.get(gets.claim.vendor, WHOLE)


def _cards(asked: Mapping[str, Any], dialect: Dialect, read: Pod) -> tuple[int, tuple[ResourceStep, ...]]:
    """Return how many cards a container asks for, and what it asks of one of them; none where that is not its own."""
    if not is_claim(dialect, read):
        return 0, ()
    counts = {claim.count for container in dialect.claims.read(read) for claim in container.claims}
    count = max(counts, default=0)
    names = [name for name in asked if name in dialect.claims.resources]
    if len(counts) != 1 or count < 2 or any(read.spec.requests.get(name) != _whole(asked[name]) for name in names):
        return 0, ()  # several types of devices, one card, or several containers that add up
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
    """Tell whether what a pod asks for in a dialect's names is understood."""
    try:
        dialect.claims.read(pod)
    except ClaimError:
        return False
    return True

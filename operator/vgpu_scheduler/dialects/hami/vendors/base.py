"""The description of a vendor's cards under HAMi: the parts that each vendor's module defines, and common ones.

To add a vendor, write a module beside this one that makes a :class:`Vendor`, and add it to ``vendors/__init__.py``:
where nodes register cards (:class:`Cards`), the resource names of pods (:class:`VendorResources`), the pod annotations
that restrict cards (:class:`RuleKeys`), the checks of cards (:class:`vgpu_scheduler.allocators.FitRules`), and the
annotations that the device plugin reads (:class:`AllocationAnnotations`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from vgpu_scheduler.allocators import PLAIN_RULES, FitRules
from vgpu_scheduler.dialects.allocation import TimestampText
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.hami.codec import LOCK_ANNOTATION, AssignedDevice
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.node_side import NodeLock
from vgpu_scheduler.kube import Container, Node, Pod
from vgpu_scheduler.model import (
    NO_DEFAULTS,
    WHOLE,
    Amounts,
    Assignment,
    Claim,
    ClaimDefaults,
    ContainerAssignments,
    Device,
    QuotaResource,
    Usage,
)


@dataclass(frozen=True, slots=True)
class CardSource:
    """Where a node says which cards of a vendor it has: one of an annotation and a capacity resource, by name."""

    annotation: str = ""
    capacity: str = ""

    def __str__(self) -> str:
        """Word it for error messages."""
        return f"annotation {self.annotation}" if self.annotation else f"capacity of {self.capacity}"


class Cards(Hashable, Protocol):
    """Reads the cards of a vendor from nodes. Results are cached by facts."""

    @property
    def source(self) -> CardSource:
        """Where nodes list the cards."""

    @property
    def cordon(self) -> str:
        """The node annotation that lists cards out of service; empty if there is none."""

    @property
    def health(self) -> str:
        """The field with the health of a registered card; empty if there is none."""

    def facts(self, node: Node) -> Hashable | None:
        """Return everything that the cards depend on; None if the node registers no such cards."""

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of the registration.

        Raises
        ------
        CodecError
            If the facts are malformed.
        """


class VendorResources(Protocol):
    """The resource names of a vendor."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources of which a claim needs at least one."""

    @property
    def resources(self) -> tuple[str, ...]:
        """All resources that are part of claims."""

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows and that NodeResourcesFit must ignore."""

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """The dimension of each resource, and whether it is in percent of a card's capacity."""

    @property
    def units(self) -> int:
        """The compute of a whole card, in the unit of claims."""

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Resources that are not amounts but choices, with the valid numbers."""

    @property
    def of_zero(self) -> str:
        """What a container gets that requests cards with 0 memory."""

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the claim of a container, if any, for a pod with a sharing mode.

        Raises
        ------
        ClaimError
            If an amount is malformed or missing.
        """

    def quotas(self, vendor: str) -> Mapping[str, QuotaResource]:
        """Return the resources of the vendor's cards that quotas may limit."""

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes its cards whole."""

    def asks(self, container: Container) -> bool:
        """Tell whether the container requests cards, even if other amounts are malformed."""


class CountedResources:
    """Common parts of :class:`VendorResources` for vendors whose cards are requested by number only."""

    __slots__ = ()
    units: int = WHOLE
    choices: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    of_zero = ""

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources of which a claim needs at least one."""
        raise NotImplementedError

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows: none."""
        return ()

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that says anything about a claim."""
        return self.counts

    def quotas(self, vendor: str) -> Mapping[str, QuotaResource]:
        """Return nothing: Kubernetes' own quotas limit numbers of cards."""
        del vendor
        return {}


@dataclass(frozen=True, slots=True)
class RuleKeys:
    """The pod annotations that restrict the cards of a vendor; empty for no such annotation.

    Attributes
    ----------
    use_types, no_use_types
        Comma-separated substrings of model names.
    uuids
        Pairs of annotations: comma-separated UUIDs that may be used, and that may not.
    mode
        Sharing modes: a card's mode must occur in the text.
    modes
        The known modes.
    """

    use_types: str = ""
    no_use_types: str = ""
    uuids: tuple[tuple[str, str], ...] = ()
    mode: str = ""
    modes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All annotations."""
        names = (self.use_types, self.no_use_types, *(name for pair in self.uuids for name in pair), self.mode)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True)
class VendorPlacement:
    """The cards of one vendor that a pod gets.

    Attributes
    ----------
    node
        The node.
    containers
        The cards of each container, init containers first.
    unix_time
        Seconds since the epoch.
    pod
        The pod, if known.
    """

    node: str
    containers: Sequence[ContainerAssignments]
    unix_time: float
    pod: Pod | None = None

    @property
    def last(self) -> ContainerAssignments:
        """The cards of the last container with cards, for plugins that support one container per pod."""
        return next((cards for cards in reversed(self.containers) if cards), ())

    @property
    def first(self) -> ContainerAssignments:
        """The cards of the first container with cards."""
        return next((cards for cards in self.containers if cards), ())

    @property
    def nanoseconds(self) -> str:
        """The time in nanoseconds, as some plugins read it."""
        return TimestampText(self.unix_time, 1e9)


Extras = Callable[[VendorPlacement], Mapping[str, str]]
"""Returns annotations in addition to those of :class:`AllocationAnnotations`."""


def no_extras(placement: VendorPlacement) -> Mapping[str, str]:
    """Return nothing: most plugins read only the common annotations."""
    del placement
    return {}


def plain_entry(vendor: str, assignment: Assignment) -> AssignedDevice:
    """Return the entry of a card as most plugins read it."""
    _, memory, cores, *_ = assignment.amounts
    return AssignedDevice(assignment.uuid, vendor, memory, cores)


@dataclass(frozen=True, slots=True)
class AllocationAnnotations:
    """The annotations that record the cards of a pod.

    Attributes
    ----------
    allocated
        The annotation that stays on the pod.
    to_allocate
        The annotation that the device plugin consumes; empty if the plugin has another protocol.
    entry
        Returns the entry of one card.
    extras
        Returns further annotations for the plugin.
    keys
        The annotations that ``extras`` may write; users must not write them (manifests/admission.yaml).
    """

    allocated: str
    to_allocate: str = ""
    entry: Callable[[str, Assignment], AssignedDevice] = plain_entry
    extras: Extras = no_extras
    keys: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """All annotations that allocate cards."""
        return tuple(name for name in (self.allocated, self.to_allocate, *self.keys) if name)


SuspiciousAmounts = Callable[[Mapping[str, int], str], Iterable[RequestWarning]]
"""Returns warnings about the non-zero amounts of a container, by resource, for a pod with a sharing mode."""

Held = Callable[[str, Pod, Sequence[Sequence[AssignedDevice]]], Usage]
"""Returns the usage of a pod from the vendor key, the pod, and the entries of each container."""


def plain_held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return the usage from the entries: a slot of each card, with memory and cores."""
    return held_with(vendor, pod, aligned, lambda _, entry: (1, entry.memory, entry.cores))


def held_with(
    vendor: str,
    pod: Pod,
    aligned: Sequence[Sequence[AssignedDevice]],
    amounts: Callable[[str, AssignedDevice], Amounts],
) -> Usage:
    """Return the usage from the entries, with the amounts that an entry of a container (by name) books of its card."""
    containers = pod.spec.containers
    entries = [
        [Assignment(vendor, entry.uuid, amounts(container.name, entry)) for entry in devices]
        for container, devices in zip(containers, aligned, strict=True)
    ]
    return Usage.of([container.type for container in containers], entries)


@dataclass(frozen=True, slots=True)
class PodOptions:
    """Further pod annotations about the cards of a vendor.

    Attributes
    ----------
    words
        Their names, each with its word in a policy's ``podOverrides``.
    mode
        Returns the requested sharing mode; empty for none. Claims may depend on it.
    fit
        Returns the checks for these annotations.
    followed_by_node
        Those that the node side reads itself, independent of the decision, each with a value without effect.
    known
        Those with a closed set of values, with these values; empty for booleans.
    """

    words: Mapping[str, str]
    mode: Callable[[Mapping[str, str]], str]
    fit: Callable[[Mapping[str, str]], FitRules]
    followed_by_node: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def annotations(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.words)


MODE_WORD, POLICY_WORD = "mode", "devicePolicy"
"""Words of ``podOverrides``: the sharing mode, and the device policy."""

HAMI_LOCK = NodeLock(LOCK_ANNOTATION)
"""The lock that most plugins share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One kind of cards.

    Attributes
    ----------
    key
        HAMi's name for them, by which claims and devices are matched exactly.
    title
        Their usual name.
    cards, claims, rules, fit, record
        See their types.
    held
        Reads the usage of a pod from its entries.
    options
        Further annotations of pods; ``fit`` applies without any.
    lock
        The lock by which the plugin finds its pod; None if it has another way.
    suspicious
        Returns warnings about requests with an unexpected effect, in addition to those for all vendors.
    admit
        The admission rules for a container; None if they only check for the count.
    sums_cores
        Whether admission writes the compute of all cards of a container together, in percent of one card.
    smallest_piece
        The memory, in MiB, of the smallest piece of a card that is given out in pieces; 0 if unknown.
    slice_sizes
        The memory, in MiB, that a slice may have, ascending to a whole card, if all slices of a card have one size.
    in_percent
        Whether all of its cards count compute in percent.
    means
        Further explanations of resources and annotations for its page in the documentation; also of annotations that
        are not named elsewhere here.
    found
        How its plugin finds the pod without a lock, for its page.
    notes
        Further notes for its page.
    """

    key: str
    title: str
    cards: Cards
    claims: VendorResources
    record: AllocationAnnotations
    rules: RuleKeys = RuleKeys()
    fit: FitRules = PLAIN_RULES
    held: Held = plain_held
    options: PodOptions | None = None
    lock: NodeLock | None = HAMI_LOCK
    suspicious: SuspiciousAmounts | None = None
    admit: Admit | None = None
    sums_cores: bool = False
    smallest_piece: int = 0
    slice_sizes: tuple[int, ...] = ()
    in_percent: bool = True
    means: Mapping[str, str] = field(default_factory=dict)
    found: str = ""
    notes: str = ""

    def mode_of(self, annotations: Mapping[str, str]) -> str:
        """Return the sharing mode that a pod requests, empty for none."""
        return self.options.mode(annotations) if self.options else ""

    def fit_for(self, annotations: Mapping[str, str]) -> FitRules:
        """Return the checks of the vendor's cards for a pod."""
        return self.options.fit(annotations) if self.options else self.fit

    def asked_at_admission(self, draft: ContainerDraft) -> bool:
        """Complete a container at admission; tell whether it requests these cards (see :data:`Admit`)."""
        if self.admit is not None:
            return self.admit(draft)
        return any(draft.limit(name) is not None for name in self.claims.counts)

    @property
    def whole_card(self) -> Claim:
        """A claim of one whole card, for pods whose claim cannot be read."""
        return Claim(self.key, 1, (1, 0, 0), (0, 100, 100))

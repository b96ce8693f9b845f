"""What a vendor's cards are under HAMi: facts that each vendor's file states, and the rules that they share.

To add a vendor, write a module beside this one that makes a :class:`Vendor`, and add it to ``vendors/__init__.py``:
where its nodes say what cards they have (:class:`Cards`), which resources its pods ask in (:class:`VendorResources`),
which annotations of a pod choose among the cards (:class:`RuleKeys`), which checks a card must pass
(:class:`vgpu_scheduler.allocators.FitRules`), and which annotations its device plugin reads (:class:`Record`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from vgpu_scheduler.allocators import PLAIN_RULES, FitRules
from vgpu_scheduler.dialects.allocation import TimestampText
from vgpu_scheduler.dialects.fixes import UsageWarning
from vgpu_scheduler.dialects.hami.codec import LOCK_ANNOTATION, AssignedDevice
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.node_side import NodeLock
from vgpu_scheduler.kube import Container, Node, Pod
from vgpu_scheduler.model import (
    NO_DEFAULTS,
    WHOLE,
    Assignment,
    Claim,
    ClaimDefaults,
    ContainerAssignments,
    Device,
    QuotaResource,
    Usage,
    charges,
    vendors_by_card,
)


class Cards(Hashable, Protocol):
    """Where the nodes of a vendor say what cards they have. What is decoded is remembered."""

    @property
    def source(self) -> str:
        """What an error names: the annotation, or the resource of the capacity."""

    @property
    def cordon(self) -> str:
        """The annotation of a node that takes the cards in it out of service; empty where there is none."""

    @property
    def health(self) -> str:
        """The field of a listed card that says that it is healthy; empty where none does."""

    def facts(self, node: Node) -> Hashable | None:
        """Return all that the cards depend on; None where the node says nothing of such cards."""

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards, in the order written.

        Raises
        ------
        CodecError
            If the facts cannot be read.
        """


class VendorResources(Protocol):
    """Which resources the pods of a vendor ask in."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources that a claim cannot do without: one of them says that there is one."""

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that says anything about a claim."""

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows, and the resource filter must leave alone."""

    @property
    def dimensions(self) -> tuple[tuple[str, int, bool], ...]:
        """Which dimension each resource is an amount of, and whether it is in percent of what a card has."""

    @property
    def units(self) -> int:
        """What the compute of a whole card is in claims that name an amount of it."""

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Resources that are no amounts, with the numbers that mean something."""

    @property
    def of_zero(self) -> str:
        """What a container gets that asks for cards and names memory, but none."""

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return what a container of a pod that asks for a mode claims, if anything.

        Raises
        ------
        ClaimError
            If an amount is malformed or missing.
        """

    def quotas(self, vendor: str) -> Mapping[str, QuotaResource]:
        """Return what a namespace's quota may limit of the vendor's cards."""

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim leaves nothing of its cards to others."""

    def asks(self, container: Container) -> bool:
        """Tell whether the container asks for cards at all, however malformed the rest may be."""


class CountedResources:
    """The part of :class:`VendorResources` that is alike for vendors of which cards are asked for by numbers only."""

    __slots__ = ()
    units: int = WHOLE
    choices: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    of_zero = ""

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources that a claim cannot do without: any of them."""
        raise NotImplementedError

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows."""
        return ()

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that says anything about a claim."""
        return self.counts

    def quotas(self, vendor: str) -> Mapping[str, QuotaResource]:
        """Return nothing: numbers are limited by Kubernetes' own quotas."""
        del vendor
        return {}


@dataclass(frozen=True, slots=True)
class RuleKeys:
    """The annotations of a pod that choose among the cards of a vendor; an empty name is none.

    Attributes
    ----------
    use_types, no_use_types
        Comma-separated parts of model names.
    uuids
        Pairs of annotations: comma-separated UUIDs that may be used, and that may not.
    mode
        Modes of sharing: a card's mode must occur in the text.
    modes
        Those that there are.
    """

    use_types: str = ""
    no_use_types: str = ""
    uuids: tuple[tuple[str, str], ...] = ()
    mode: str = ""
    modes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every annotation."""
        names = (self.use_types, self.no_use_types, *(name for pair in self.uuids for name in pair), self.mode)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True)
class VendorPlacement:
    """What a pod gets of one vendor's cards.

    Attributes
    ----------
    node
        Where.
    containers
        The cards of each container, init containers first.
    unix_time
        Seconds since the epoch.
    pod
        The pod, where there is one.
    """

    node: str
    containers: Sequence[ContainerAssignments]
    unix_time: float
    pod: Pod | None = None

    @property
    def last(self) -> ContainerAssignments:
        """The cards of the last container that gets any: some plugins know one container per pod."""
        return next((cards for cards in reversed(self.containers) if cards), ())

    @property
    def first(self) -> ContainerAssignments:
        """The cards of the first container that gets any."""
        return next((cards for cards in self.containers if cards), ())

    @property
    def nanoseconds(self) -> str:
        """The time as some plugins read it."""
        return TimestampText(self.unix_time, 1e9)


Extras = Callable[[VendorPlacement], Mapping[str, str]]
"""Annotations beside those of :class:`Record`."""


def no_extras(placement: VendorPlacement) -> Mapping[str, str]:
    """Return nothing: most vendors read the common annotations only."""
    del placement
    return {}


def plain_entry(vendor: str, assignment: Assignment) -> AssignedDevice:
    """Return the entry of a card as most vendors read it."""
    _, memory, cores, *_ = assignment.amounts
    return AssignedDevice(assignment.uuid, vendor, memory, cores)


@dataclass(frozen=True, slots=True)
class Record:
    """The annotations that tell the node side which cards a pod gets, and everybody which it has.

    Attributes
    ----------
    allocated
        What stays on the pod.
    to_allocate
        What the device plugin consumes; empty where it has its own way.
    entry
        The entry of one card.
    extras
        What the plugin reads besides.
    keys
        The annotations that ``extras`` may write: nobody else should (manifests/admission.yaml).
    """

    allocated: str
    to_allocate: str = ""
    entry: Callable[[str, Assignment], AssignedDevice] = plain_entry
    extras: Extras = no_extras
    keys: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """Every annotation that allocates cards."""
        return tuple(name for name in (self.allocated, self.to_allocate, *self.keys) if name)


Odd = Callable[[Mapping[str, int], str], Iterable[UsageWarning]]
"""Says what is odd about the amounts above 0 that a container asks, by their names, for a pod of a mode."""

Held = Callable[[str, Pod, Sequence[Sequence[AssignedDevice]]], Usage]
"""What a pod holds, from the vendor's word, the pod, and the entries of each container."""


def plain_held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return what the entries say: a share of each card, with memory and cores."""
    entries = [[Assignment(vendor, e.uuid, (1, e.memory, e.cores)) for e in container] for container in aligned]
    kinds = [container.kind for container in pod.spec.containers]
    return Usage(charges(kinds, entries), vendors=vendors_by_card(entries))


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What else a pod's annotations say about the cards of a vendor.

    Attributes
    ----------
    words
        Their names, each with the word of a policy's ``podOverrides`` that it belongs to.
    mode
        The mode that they ask for; empty for none. Claims may depend on it.
    fit
        The checks under them.
    followed_by_node
        Those that the node side reads on the pod, whatever was decided; each with a value that asks for nothing.
    known
        Those with a closed set of values, with these; none where they are booleans.
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
"""Words of ``podOverrides``: how cards are shared, and how they are chosen."""

HAMI_LOCK = NodeLock(LOCK_ANNOTATION)
"""The lock that most plugins share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One kind of cards.

    Attributes
    ----------
    key
        HAMi's word for them; claims and devices are matched by it, exactly.
    title
        What people call them.
    cards, claims, rules, fit, record
        See their types.
    held
        How the entries of a pod are read back.
    options
        What else the annotations of a pod say; ``fit`` holds without any.
    lock
        The lock through which the plugin finds its pod; None where it has other ways.
    odd
        What of a container its plugin takes otherwise than it looks, beyond what is odd for all vendors.
    admit
        What its rules do with a container at admission; None where they only look for the count.
    sums_cores
        Whether it completes containers with the compute of all their cards together, in percent of one.
    smallest_piece
        The least memory, in MiB, of a piece of a card that is given out in pieces; 0 where that is not known.
    in_percent
        Whether all of its cards count compute in percent.
    means
        What resources and annotations mean beyond what their kind says, for its page in the documentation; also
        annotations that nothing else here names.
    found
        How its plugin finds the pod, where the lock is not how.
    notes
        What else its page says.
    """

    key: str
    title: str
    cards: Cards
    claims: VendorResources
    record: Record
    rules: RuleKeys = RuleKeys()
    fit: FitRules = PLAIN_RULES
    held: Held = plain_held
    options: PodOptions | None = None
    lock: NodeLock | None = HAMI_LOCK
    odd: Odd | None = None
    admit: Admit | None = None
    sums_cores: bool = False
    smallest_piece: int = 0
    in_percent: bool = True
    means: Mapping[str, str] = field(default_factory=dict)
    found: str = ""
    notes: str = ""

    def mode_of(self, annotations: Mapping[str, str]) -> str:
        """Return the mode that a pod asks for, empty for none."""
        return self.options.mode(annotations) if self.options else ""

    def fit_for(self, annotations: Mapping[str, str]) -> FitRules:
        """Return the checks of the vendor's cards for a pod."""
        return self.options.fit(annotations) if self.options else self.fit

    def asked_at_admission(self, draft: ContainerDraft) -> bool:
        """Complete a container that is being admitted; tell whether it asks for these cards (see :data:`Admit`)."""
        if self.admit is not None:
            return self.admit(draft)
        return any(draft.limit(name) is not None for name in self.claims.counts)

    @property
    def whole_card(self) -> Claim:
        """A claim of one whole card: what a pod may have whose claim nobody can read."""
        return Claim(self.key, 1, (1, 0, 0), (0, 100, 100))

"""The HAMi dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from vgpu_scheduler.allocators import BEST_FIT, CardChoice, HamiAllocator, card_order
from vgpu_scheduler.dialects.base import ClaimError, CodecError, Inventory, NodeLock, Obeyed, RegistrationError, Scorers
from vgpu_scheduler.dialects.hami.codec import decode_assignments, encode_assignments, realign
from vgpu_scheduler.dialects.hami.mig import SLICES
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.dialects.hami.vendors import Cards, Handed, Vendor, vendors
from vgpu_scheduler.dialects.hami.vendors.base import MODE_WORD
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NUMA_BIND
from vgpu_scheduler.kube import Container, Node, Pod
from vgpu_scheduler.model import (
    NO_TERMS,
    NO_USAGE,
    Amounts,
    Claim,
    ClaimTerms,
    ContainerClaims,
    Device,
    DeviceResource,
    Dimension,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
    claims_devices,
)

NODE_ANNOTATION = "hami.io/vgpu-node"
TIME_ANNOTATION = "hami.io/vgpu-time"
BIND_PHASE_ANNOTATION = "hami.io/bind-phase"
BIND_TIME_ANNOTATION = "hami.io/bind-time"

PHASE_ALLOCATING = "allocating"
PHASE_SUCCESS = "success"
PHASE_FAILED = "failed"

_REMEMBERED = 16_384
"""Registrations that are kept decoded: more than nodes, so that a burst of changes does not push all of them out."""
_WHOLE = 100


@dataclass(frozen=True)
class HamiDialect:
    """HAMi's wire format.

    Parameters
    ----------
    vendors
        The makers' cards, in the order in which their claims and devices are read.
    """

    vendors: tuple[Vendor, ...] = field(default_factory=vendors)

    name = "hami"
    dimensions = (
        Dimension("slots", "shares"),
        Dimension("memory", "MiB"),
        Dimension("cores", "percent"),
        *(Dimension(f"{number} of its schema", "shares") for number in range(1 + SLICES)),  # as much as MIG cards have
    )
    memory, cores = 1, 2
    memory_unit = 2**20
    pod_labels = ()

    @cached_property
    def cards(self) -> frozenset[str]:
        """The makers' words."""
        return frozenset(vendor.key for vendor in self.vendors)

    @cached_property
    def compute_units(self) -> Mapping[str, int]:
        """What the compute of a card is in claims, of makers that do not count it in percent."""
        units = {vendor.key: vendor.claims.units for vendor in self.vendors}
        return {vendor: number for vendor, number in units.items() if number != _WHOLE}

    @cached_property
    def lock_annotations(self) -> tuple[str, ...]:
        """The node annotations of all locks."""
        return tuple(dict.fromkeys(vendor.lock.annotation for vendor in self.vendors if vendor.lock))

    @cached_property
    def pod_annotations(self) -> tuple[str, ...]:
        """The annotations of a pod that its claims or its allocator depend on."""
        wishes = (name for vendor in self.vendors if vendor.wishes for name in vendor.wishes.annotations)
        rules = (name for vendor in self.vendors for name in vendor.rules.all)
        return tuple(dict.fromkeys((*rules, *wishes, NUMA_BIND)))

    @cached_property
    def overrides(self) -> Mapping[str, tuple[str, ...]]:
        """The word of a policy's ``podOverrides`` for each group of these annotations."""
        rules = [vendor.rules for vendor in self.vendors]
        found = {
            "deviceTypes": [name for keys in rules for name in (keys.use_types, keys.no_use_types) if name],
            "deviceUUIDs": [name for keys in rules for pair in keys.uuids for name in pair if name],
            MODE_WORD: [keys.mode for keys in rules if keys.mode],
            "numa": [NUMA_BIND],
        }
        for wishes in (vendor.wishes for vendor in self.vendors if vendor.wishes):
            for name, word in wishes.words.items():
                found.setdefault(word, []).append(name)
        return {word: tuple(dict.fromkeys(names)) for word, names in found.items()}

    @cached_property
    def obeyed(self) -> Mapping[str, Obeyed]:
        """What plugins read on the pod, whatever was decided."""
        found: dict[str, Obeyed] = {}
        for vendor in self.vendors:
            for name, nothing in vendor.wishes.obeyed.items() if vendor.wishes else ():
                others = found[name].vendors if name in found else frozenset()
                found[name] = Obeyed(others | {vendor.key}, nothing)
        return found

    @cached_property
    def ignored_resources(self) -> frozenset[str]:
        """Resource names that the Kubernetes resource filter must leave alone: no node advertises them."""
        return frozenset(name for vendor in self.vendors for name in vendor.claims.unadvertised)

    @cached_property
    def device_resources(self) -> Mapping[str, DeviceResource]:
        """HAMi's names and Koordinator's for the same amounts: a policy may weigh either (D4-02)."""
        return dict(_device_resources(self.vendors))

    @cached_property
    def _counts(self) -> Mapping[str, Vendor]:
        return {name: vendor for vendor in self.vendors for name in vendor.claims.counts}

    @cached_property
    def _names(self) -> Mapping[str, Vendor]:
        """The maker whose claims a resource is about."""
        return {name: vendor for vendor in self.vendors for name in vendor.claims.resources}

    @cached_property
    def quota_resources(self) -> Mapping[str, QuotaResource]:
        """Memory and cores of each maker; a quota on memory is in the unit of requests."""
        return {
            name: resource for vendor in self.vendors for name, resource in vendor.claims.quotas(vendor.key).items()
        }

    def devices(self, node: Node, inventory: Inventory | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, in the order written, maker by maker.

        Raises
        ------
        RegistrationError
            If the registration of any maker cannot be decoded; the message names the annotation.
        """
        del inventory  # everything is in the node
        found: list[Device] = []
        problems: dict[str, str] = {}
        for vendor in self.vendors:
            facts = vendor.cards.facts(node)
            if facts is None:
                continue
            try:
                listed = _decoded(vendor.cards, vendor.key, facts)
                if found:
                    _check_names(found, listed)
                found += listed
            except CodecError as error:
                problems[vendor.key] = f"{vendor.cards.source}: {error}"
        if problems:
            raise RegistrationError(problems, tuple(found))
        return tuple(found)

    def claims(self, pod: Pod, terms: ClaimTerms = NO_TERMS) -> PodClaims:
        """Return what each container claims.

        Raises
        ------
        ClaimError
            If an amount is malformed; the message names the container, the resource and the fix.
        """
        return tuple(
            ContainerClaims(container.name, container.kind, self._claims(container, pod, terms))
            for container in pod.spec.containers
        )

    def _claims(self, container: Container, pod: Pod, terms: ClaimTerms) -> tuple[Claim, ...]:
        asked = self._asked(container, self._names)
        claims = (v.claims.read(v.key, container, terms, v.mode_of(pod.annotations)) for v in asked)
        return tuple(sorted((claim for claim in claims if claim), key=lambda claim: claim.vendor))

    def _asked(self, container: Container, names: Mapping[str, Vendor]) -> list[Vendor]:
        """Return the makers that a container names a resource of."""
        found = {
            names[name].key: names[name]
            for amounts in (container.limits, container.requests)
            for name in amounts
            if name in names
        }
        return list(found.values())

    def _asks(self, vendor: Vendor, pod: Pod) -> list[bool]:
        return [vendor.claims.asks(container) for container in pod.spec.containers]

    def _claimed(self, pod: Pod) -> list[Vendor]:
        """Return the makers of which the pod asks for devices, however malformed."""
        found = {
            vendor.key: vendor
            for container in pod.spec.containers
            for vendor in self._asked(container, self._counts)
            if vendor.claims.asks(container)
        }
        return [found[key] for key in sorted(found)]

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> HamiAllocator:
        """Return the allocator for claims, under what the annotations and policies say."""
        asked = {claim.vendor for container in claims for claim in container.claims}
        vendors = [vendor for vendor in self.vendors if vendor.key in asked]
        rules = parse_rules(annotations, vendors)
        checks = {vendor.key: vendor.fit_for(annotations) for vendor in vendors}
        policy = BEST_FIT if choice.best_fit else choice.policy
        order = card_order(policy, choice.order, numa_bind=rules.numa_bind or choice.numa_bind)
        return HamiAllocator(claims, rules, order, choice, self.device_resources, checks)

    def rankers(self, scorers: Scorers, *, chosen: bool) -> Scorers:
        """Return the scorers as they are: all of them know cards."""
        del chosen
        return scorers

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to (design section 4, "who counts").

        Its allocation annotations count if they name that node. A pod that has started without readable ones may sit
        on any card of the makers in question; one that has not started holds nothing yet.
        """
        if not pod.node_name or pod.terminal:
            return NO_USAGE
        parts = [self._held(vendor, pod) for vendor in self._claimed(pod)]
        if not parts:
            return NO_USAGE
        problems = [problem for problem, _ in parts if problem and pod.started]
        unreadable = frozenset(
            vendor.key for vendor, (problem, _) in zip(self._claimed(pod), parts, strict=True) if problem
        )
        charges: dict[str, Amounts] = {}
        displaced: dict[str, PodClaims] = {}
        vendors: dict[str, str] = {}
        for _, usage in parts:
            charges.update(usage.charges)
            displaced.update(usage.displaced)
            vendors.update(usage.vendors)
        return Usage(
            charges,
            self._unreadable(pod, unreadable) if problems else (),
            "; ".join(problems),
            displaced,
            vendors,
        )

    def _held(self, vendor: Vendor, pod: Pod) -> tuple[str, Usage]:
        """Return what a pod holds of a maker's cards, and what about that cannot be read."""
        name = vendor.record.allocated
        value = pod.annotations.get(name)
        if value is None:
            return f"annotation {name} is missing", NO_USAGE
        if pod.annotations.get(NODE_ANNOTATION) != pod.node_name:
            return f"annotation {NODE_ANNOTATION} does not name node {pod.node_name}", NO_USAGE
        try:
            aligned = realign(decode_assignments(value), self._asks(vendor, pod))
        except CodecError as error:
            return f"annotation {name}: {error}", NO_USAGE
        if aligned is None or not any(aligned):
            return f"annotation {name} does not match the containers that claim devices", NO_USAGE
        return "", vendor.held(vendor.key, pod, aligned)

    def _unreadable(self, pod: Pod, makers: frozenset[str]) -> PodClaims:
        """Return what a pod may use of any card of these makers: its claims, or a whole card where nobody can say."""
        try:
            return tuple(
                replace(c, claims=tuple(_as_allocated(claim) for claim in c.claims if claim.vendor in makers))
                for c in self.claims(pod)
            )
        except ClaimError:
            vendors = [vendor for vendor in self.vendors if vendor.key in makers]
            return tuple(
                ContainerClaims(c.name, c.kind, tuple(v.whole_card for v in vendors if v.claims.asks(c)))
                for c in pod.spec.containers
            )

    def announced_node(self, pod: Pod) -> str:
        """Return the node in the annotations that HAMi writes before it binds."""
        told = any(vendor.record.allocated in pod.annotations for vendor in self._claimed(pod))
        return pod.annotations.get(NODE_ANNOTATION, "") if told else ""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return what the Binding writes on the pod for the device plugins; nothing for a pod without devices."""
        used = placement.vendors()
        if not used:
            return {}
        written = {NODE_ANNOTATION: placement.node, TIME_ANNOTATION: str(int(unix_time))}
        for vendor in self.vendors:
            if vendor.key in used:
                written |= _record(vendor, placement, unix_time, pod)
        return written | {BIND_PHASE_ANNOTATION: PHASE_ALLOCATING, BIND_TIME_ANNOTATION: str(int(unix_time))}

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the label that HAMi's monitor selects pods by."""
        return {NODE_ANNOTATION: placement.node} if placement.vendors() else {}

    def lock(self, claims: PodClaims) -> NodeLock | None:
        """Return the lock through which a plugin will look for this pod: any container claims its devices.

        HAMi takes none for pods whose init containers or sidecars alone claim devices, and the plugin may then hand
        them the entries of the pod that holds it. Of several makers' locks the one that names its owner is taken: the
        others' plugins find the pod by its own annotations.
        """
        asked = {claim.vendor for container in claims for claim in container.claims}
        locks = [vendor.lock for vendor in self.vendors if vendor.lock and vendor.key in asked]
        return max(locks, key=lambda lock: lock.names_owner, default=None)

    def in_turn(self, claims: PodClaims) -> bool:
        """Tell whether any container claims devices: plugins without a lock take the oldest pod of their node."""
        return claims_devices(claims)

    def allocation_phase(self, annotations: Mapping[str, str]) -> str:
        """Return the node side's answer: ``allocating``, ``success``, ``failed`` or empty."""
        return annotations.get(BIND_PHASE_ANNOTATION, "")

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugins have consumed every entry of the pod."""
        left = [annotations[v.record.to_allocate] for v in self.vendors if v.record.to_allocate in annotations]
        return bool(left) and not any(value.replace(";", "").strip() for value in left)


def _record(vendor: Vendor, placement: Placement, unix_time: float, pod: Pod | None) -> dict[str, str]:
    """Return the annotations of one maker: an entry per container, whether it has any of its cards or not."""
    record = vendor.record
    own = [tuple(a for a in container if a.vendor == vendor.key) for container in placement.containers]
    value = encode_assignments([[record.entry(vendor.key, a) for a in container] for container in own])
    common = {name: value for name in (record.to_allocate, record.allocated) if name}
    return {**common, **record.extras(Handed(placement.node, own, unix_time, pod))}


def _check_names(known: Iterable[Device], listed: Iterable[Device]) -> None:
    twice = {device.uuid for device in known} & {device.uuid for device in listed}
    if twice:
        raise CodecError(f"device {min(twice)} is listed by another maker, too")


@lru_cache(maxsize=_REMEMBERED)
def _decoded(cards: Cards, vendor: str, facts: Hashable) -> tuple[Device, ...]:
    """Decode a registration; remembered, because most events of a node leave it as it is."""
    return cards.decode(vendor, facts)


def _as_allocated(claim: Claim) -> Claim:
    """Return what an allocation would hold: no more than a whole card's cores, and a share, of whatever size."""
    slots, memory, cores, *rest = claim.amounts
    return replace(claim, amounts=(max(slots, 1), memory, min(cores, _WHOLE), *rest))


def _device_resources(vendors: Iterable[Vendor]) -> Iterable[tuple[str, DeviceResource]]:
    for vendor in vendors:
        for name, dimension, percent in vendor.claims.dimensions:
            yield name, DeviceResource(vendor.key, dimension, percent)
    gpu = next((vendor.key for vendor in vendors), "")
    yield "koordinator.sh/gpu-memory", DeviceResource(gpu, 1)
    yield "koordinator.sh/gpu-memory-ratio", DeviceResource(gpu, 1, percent=True)
    yield "koordinator.sh/gpu-core", DeviceResource(gpu, 2)

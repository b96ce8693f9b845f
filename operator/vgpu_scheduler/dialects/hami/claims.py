"""The claims of pods on cards under HAMi, and their allocator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vgpu_scheduler.allocators import CardChoice, HamiAllocator, card_order
from vgpu_scheduler.dialects.claims import NodeSideAnnotation, Scorers
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.hami.names import NAME
from vgpu_scheduler.dialects.hami.request_warnings import suspicious_amounts, suspicious_annotations
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.dialects.hami.vendors import Vendor
from vgpu_scheduler.dialects.hami.vendors.base import MODE_WORD
from vgpu_scheduler.dialects.hami.vendors.draft import ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NUMA_BIND
from vgpu_scheduler.kube import Container, Pod
from vgpu_scheduler.model import (
    BEST_FIT,
    NO_DEFAULTS,
    Claim,
    ClaimDefaults,
    ContainerClaims,
    DeviceResource,
    PodClaims,
    vendors_of,
)


@dataclass(frozen=True)
class HamiClaims:
    """The claims of pods.

    Parameters
    ----------
    vendors
        The vendors, in the order in which their claims are read.
    device_resources
        The devices and dimensions of the resource names that policies weigh.
    """

    vendors: tuple[Vendor, ...]
    device_resources: Mapping[str, DeviceResource]

    pod_labels = ()

    @cached_property
    def resources(self) -> frozenset[str]:
        """All resource names of all vendors."""
        return frozenset(self._names)

    @cached_property
    def pod_annotations(self) -> tuple[str, ...]:
        """The pod annotations on which claims or the allocator depend."""
        options = (name for vendor in self.vendors if vendor.options for name in vendor.options.annotations)
        rules = (name for vendor in self.vendors for name in vendor.rules.all)
        return tuple(dict.fromkeys((*rules, *options, NUMA_BIND)))

    @cached_property
    def overrides(self) -> Mapping[str, tuple[str, ...]]:
        """Groups of these annotations, by their word in a policy's ``podOverrides``."""
        rules = [vendor.rules for vendor in self.vendors]
        found = {
            "deviceTypes": [name for keys in rules for name in (keys.use_types, keys.no_use_types) if name],
            "deviceUUIDs": [name for keys in rules for pair in keys.uuids for name in pair if name],
            MODE_WORD: [keys.mode for keys in rules if keys.mode],
            "numa": [NUMA_BIND],
        }
        for options in (vendor.options for vendor in self.vendors if vendor.options):
            for name, word in options.words.items():
                found.setdefault(word, []).append(name)
        return {word: tuple(dict.fromkeys(names)) for word, names in found.items()}

    @cached_property
    def completed_resources(self) -> frozenset[str]:
        """All resource names of the vendors with admission rules."""
        return frozenset(name for vendor in self.vendors if vendor.admit for name in vendor.claims.resources)

    @cached_property
    def followed_by_node(self) -> Mapping[str, NodeSideAnnotation]:
        """The annotations that plugins read themselves, independent of the decision."""
        found: dict[str, NodeSideAnnotation] = {}
        for vendor in self.vendors:
            for name, nothing in vendor.options.followed_by_node.items() if vendor.options else ():
                others = found[name].vendors if name in found else frozenset()
                found[name] = NodeSideAnnotation(others | {vendor.key}, nothing)
        return found

    @cached_property
    def annotation_words(self) -> Mapping[str, tuple[str, ...]]:
        """The annotations with a closed set of values, without booleans."""
        known = [vendor.options.known for vendor in self.vendors if vendor.options]
        return {name: words for each in known for name, words in each.items() if words}

    @cached_property
    def _names(self) -> Mapping[str, Vendor]:
        """The vendor of each resource."""
        return {name: vendor for vendor in self.vendors for name in vendor.claims.resources}

    def read(self, pod: Pod, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
        """Return what each container claims.

        Raises
        ------
        ClaimError
            If an amount is malformed; the message names the container, the resource and the fix.
        """
        return tuple(
            ContainerClaims(container.name, container.type, self._of_container(container, pod, defaults), NAME)
            for container in pod.spec.containers
        )

    def _of_container(self, container: Container, pod: Pod, defaults: ClaimDefaults) -> tuple[Claim, ...]:
        asked = asked_vendors(container, self._names)
        claims = (v.claims.read(v.key, container, defaults, v.mode_of(pod.annotations)) for v in asked)
        return tuple(sorted((claim for claim in claims if claim), key=lambda claim: claim.vendor))

    def request_warnings(self, container: Container, annotations: Mapping[str, str]) -> Iterator[RequestWarning]:
        """Yield warnings about amounts with an unexpected effect: 0, more than a whole card, conflicting ones."""
        for vendor in asked_vendors(container, self._names):
            yield from suspicious_amounts(container, vendor, vendor.mode_of(annotations))

    def suspicious_annotations(self, annotations: Mapping[str, str], claims: PodClaims) -> Iterator[RequestWarning]:
        """Yield warnings about annotations with an unexpected effect.

        Raises
        ------
        ClaimError
            If one names an unknown sharing mode.
        """
        return suspicious_annotations(annotations, self._asked(claims))

    def _asked(self, claims: PodClaims) -> list[Vendor]:
        asked = vendors_of(claims)
        return [vendor for vendor in self.vendors if vendor.key in asked]

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes its cards whole, by the rules of its vendor."""
        return next(vendor.claims.takes_whole(claim) for vendor in self.vendors if vendor.key == claim.vendor)

    def apart_from(self, annotations: Mapping[str, str]) -> None:
        """Return None: HAMi has no annotation to keep pods from sharing cards with each other."""
        del annotations

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> HamiAllocator:
        """Return the allocator for claims, by the pod's annotations and the policies' choice."""
        vendors = self._asked(claims)
        rules = parse_rules(annotations, vendors)
        checks = {vendor.key: vendor.fit_for(annotations) for vendor in vendors}
        policy = BEST_FIT if choice.best_fit else choice.policy
        order = card_order(policy, choice.order, numa_bind=rules.numa_bind or choice.numa_bind)
        return HamiAllocator(claims, rules, order, choice, self.device_resources, checks)

    def known_choice(self, choice: CardChoice) -> tuple[CardChoice, str]:
        """Return the choice unchanged: all orders are supported."""
        return choice, ""

    def scorers(self, scorers: Scorers) -> tuple[Scorers, tuple[str, ...]]:
        """Return the scorers unchanged: all of them support this dialect."""
        return scorers, ()

    def complete(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool) -> bool:
        """Let each vendor complete a container; tell whether it requests cards."""
        draft, asks = ContainerDraft(pod, container, unclaimed=unclaimed), False
        for vendor in self.vendors:
            asks = vendor.asked_at_admission(draft) or asks
        return asks


def asked_vendors(container: Container, names: Mapping[str, Vendor]) -> list[Vendor]:
    """Return the vendors of the resources that a container names."""
    found = {
        names[name].key: names[name]
        for amounts in (container.limits, container.requests)
        for name in amounts
        if name in names
    }
    return list(found.values())

"""The claims of Volcano's pods, and the allocator with Volcano's orders of cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vgpu_scheduler.allocators import CardChoice, CardOrder, HamiAllocator, card_order
from vgpu_scheduler.dialects.claims import NodeSideAnnotation, Scorers, names_any
from vgpu_scheduler.dialects.errors import UnsupportedChoiceError
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.dialects.volcano.claims import pod_claims
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests
from vgpu_scheduler.dialects.volcano.request_warnings import suspicious_amounts, suspicious_annotations
from vgpu_scheduler.dialects.volcano.rules import parse_rules
from vgpu_scheduler.kernels import KEY_INDEX, KEY_USED, KEY_USED_MEMORY, MEMORY
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, Container, Pod
from vgpu_scheduler.model import (
    BEST_FIT,
    BINPACK,
    DEVICE_POLICIES,
    MUTEX,
    NO_DEFAULTS,
    SPREAD,
    WHOLE,
    Claim,
    ClaimDefaults,
    OrderKind,
    PodClaims,
    policy_words,
)
from vgpu_scheduler.state import PeerKeys

_FOLLOWED = frozenset({BINPACK, SPREAD, MUTEX})
_GROUP = PeerKeys(annotations=VOLCANO_GROUP_ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class VolcanoClaims:
    """The claims of pods.

    Parameters
    ----------
    requests
        The resource names and their units.
    """

    requests: VolcanoRequests

    pod_annotations = keys.POD_ANNOTATIONS
    pod_labels = ()
    completed_resources: ClassVar[frozenset[str]] = frozenset()
    followed_by_node: ClassVar[Mapping[str, NodeSideAnnotation]] = {}
    annotation_words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "deviceTypes": (keys.USE_TYPE, keys.NO_USE_TYPE),
        "deviceUUIDs": (keys.USE_UUID, keys.NO_USE_UUID),
        "mode": (keys.MODE,),
    }

    @property
    def resources(self) -> frozenset[str]:
        """The resources for cards and for amounts of them."""
        return frozenset((self.requests.count, *self.requests.amounts))

    def read(self, pod: Pod, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
        """Return the claims of the regular containers; init containers cannot claim under Volcano.

        Raises
        ------
        ClaimError
            If an amount is malformed or not supported; the message names the container, the resource and the fix.
        """
        return pod_claims(pod, self.requests, defaults)

    def request_warnings(self, container: Container, annotations: Mapping[str, str]) -> Iterator[RequestWarning]:
        """Yield warnings about amounts with an unexpected effect; amounts that Volcano would ignore are refused."""
        del annotations
        return suspicious_amounts(container, self.requests)

    def suspicious_annotations(self, annotations: Mapping[str, str], claims: PodClaims) -> Iterator[RequestWarning]:
        """Yield warnings about annotations with an unexpected effect.

        Raises
        ------
        ClaimError
            If one names an unknown sharing mode.
        """
        del claims
        return suspicious_annotations(annotations)

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes all compute or all memory of its cards."""
        _, memory, cores = claim.amounts
        return cores >= WHOLE or (not memory and claim.percent[MEMORY] >= WHOLE)

    def apart_from(self, annotations: Mapping[str, str]) -> PeerKeys | None:
        """Return the keys of the pod's Volcano group, if its pods must not share cards; else None."""
        return _GROUP if annotations.get(keys.PODGROUP_POLICY) == keys.SPREAD_IN_GROUP else None

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> HamiAllocator:
        """Return the allocator for claims, by the pod's annotations and the policies' choice.

        Raises
        ------
        ClaimError
            If an annotation or the choice is not supported.
        """
        if choice.numa_bind:
            raise UnsupportedChoiceError("numa: Volcano's nodes do not register the NUMA nodes of their cards")
        policy = BEST_FIT if choice.best_fit else choice.policy
        if policy == MUTEX:
            choice = replace(choice, idle_only=True)
        return HamiAllocator(
            claims, parse_rules(annotations, self.requests.mig_geometries), volcano_order(policy), choice
        )

    def known_choice(self, choice: CardChoice) -> tuple[CardChoice, str]:
        """Return the choice without Koordinator's card score, HAMi's weights, and unsupported card orders."""
        known = replace(choice, device_share_order=None, weights=CardChoice().weights)
        unknown = [] if choice.device_share_order is None else ["Koordinator's card score"]
        unknown += [] if choice.weights == known.weights else ["devices.weights"]
        policy = BEST_FIT if choice.best_fit else choice.policy
        if "," in policy or frozenset(DEVICE_POLICIES).difference(_FOLLOWED).intersection(policy_words(policy)):
            known = replace(known, policy=SPREAD)
            unknown.append(f"the card order {policy!r}")
        return known, ", ".join(unknown)

    def scorers(self, scorers: Scorers) -> tuple[Scorers, tuple[str, ...]]:
        """Return the scorers unchanged: all of them support this dialect."""
        return scorers, ()

    def complete(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool) -> bool:
        """Tell whether a container requests cards; it is not changed."""
        del pod, unclaimed
        return names_any(container, self.resources)


# The last card of the sorted list is tried first, so the index key descends to try ties by ascending index.
_ORDERS = {
    "binpack": CardOrder((KEY_USED_MEMORY, -KEY_INDEX)),
    "spread": CardOrder((-KEY_USED, -KEY_INDEX)),
    BEST_FIT: card_order(BEST_FIT, OrderKind.NUMA_FIRST, numa_bind=False),
}
_ANY_OTHER = CardOrder((KEY_INDEX,))


def volcano_order(policy: str) -> CardOrder:
    """Translate a card policy.

    Parameters
    ----------
    policy
        ``binpack``: most memory in use first, then the lowest index. ``spread``: fewest slots in use first, then the
        lowest index. ``bestFit``, which is not Volcano's: as in all dialects. Anything else: the highest index first.
    """
    return _ORDERS.get(policy, _ANY_OTHER)

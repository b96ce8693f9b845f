"""The interface for the claims of an ecosystem's pods, and for their allocator and scorers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vgpu_scheduler.allocators import Allocator, CardChoice
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.kube import AMOUNT_FIELDS, Container, Pod
from vgpu_scheduler.model import NO_DEFAULTS, Claim, ClaimDefaults, PodClaims
from vgpu_scheduler.scorers import WeightedScorer
from vgpu_scheduler.state import PeerKeys

Scorers = tuple[WeightedScorer, ...]


@dataclass(frozen=True, slots=True)
class NodeSideAnnotation:
    """A pod annotation that the node side reads itself, independent of the decision.

    Attributes
    ----------
    vendors
        The vendors of the devices that it concerns.
    nothing
        A value that has no effect.
    """

    vendors: frozenset[str]
    nothing: str = ""


class Claims(Protocol):
    """The claims of pods.

    Attributes
    ----------
    resources
        All resource names that are part of claims.
    pod_annotations
        The annotations of a pod that its claims or its allocator depend on.
    pod_labels
        The labels of a pod that its claims depend on.
    overrides
        Groups of these annotations, by their word in a policy's ``podOverrides``; annotations without a word cannot be
        overruled.
    completed_resources
        The resources of containers that :meth:`complete` may refuse or change.
    followed_by_node
        Those of these annotations that the node side reads itself: if a policy overrules one of them, the pod cannot be
        placed.
    annotation_words
        Those of these annotations that accept only a few words, with these words.
    """

    @property
    def resources(self) -> frozenset[str]: ...  # noqa: D102 - see the class
    @property
    def pod_annotations(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def pod_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def overrides(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102
    @property
    def completed_resources(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def followed_by_node(self) -> Mapping[str, NodeSideAnnotation]: ...  # noqa: D102
    @property
    def annotation_words(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102

    def read(self, pod: Pod, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
        """Return what each container claims.

        Parameters
        ----------
        pod
            The pod.
        defaults
            Defaults for claims that policies set.

        Raises
        ------
        ClaimError
            If something is malformed or not supported; the message names the container, the field and the fix.
        """

    def request_warnings(self, container: Container, annotations: Mapping[str, str]) -> Iterable[RequestWarning]:
        """Return warnings about requests of a container that have an unexpected effect, given the pod's annotations."""

    def suspicious_annotations(self, annotations: Mapping[str, str], claims: PodClaims) -> Iterable[RequestWarning]:
        """Return warnings about annotations that have an unexpected effect.

        Parameters
        ----------
        annotations
            The annotations of the pod that are not overruled.
        claims
            The result of ``read``; at least one is not empty.

        Raises
        ------
        ClaimError
            If one names an unknown sharing mode.
        """

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim by itself takes its cards whole, so that no other pod can use them."""

    def apart_from(self, annotations: Mapping[str, str]) -> PeerKeys | None:
        """Return the keys of the peers with which a pod with these annotations shares no card; None for no peers."""

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> Allocator:
        """Return the allocator for claims, of which at least one is not empty.

        Parameters
        ----------
        annotations
            The annotations of the pod that are not overruled.
        claims
            The result of ``read``.
        choice
            The policies' rules for choosing cards, as returned by ``known_choice``.

        Raises
        ------
        ClaimError
            If an annotation or a restriction is not supported; the message names it.
        """

    def known_choice(self, choice: CardChoice) -> tuple[CardChoice, str]:
        """Return the choice without card orders that this dialect does not support, and a phrase that names these.

        Unsupported orders are replaced by the default; restrictions stay, even if they are not supported.
        """

    def scorers(self, scorers: Scorers) -> tuple[Scorers, tuple[str, ...]]:
        """Return the scorers that support this dialect, and the names of the others.

        Parameters
        ----------
        scorers
            The effective scorers.

        Returns
        -------
        tuple
            Scorers that support the dialect's devices, at least one; and the names of those that are left out.
        """

    def complete(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool) -> bool:
        """Complete a container of a pod at admission; tell whether it requests devices.

        Parameters
        ----------
        pod
            The pod as JSON, which may be changed; the types of its containers, resources and annotations are valid.
        container
            One of its containers.
        unclaimed
            Whether no policy sets defaults for claims. If one does, missing amounts are not written, because the
            decision applies the effective policy.

        Raises
        ------
        AdmissionDenied
            If the pod must not be admitted.
        """


def names_any(container: Mapping[str, Any], resources: frozenset[str]) -> bool:
    """Tell whether a container of a pod as JSON names any of some resources in its limits or requests."""
    amounts = container.get("resources") or {}
    return any(name in resources for kind in AMOUNT_FIELDS for name in amounts.get(kind) or ())

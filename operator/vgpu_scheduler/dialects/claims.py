"""What the pods of an ecosystem ask for, and how that is served: the allocator and the scorers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vgpu_scheduler.allocators import Allocator, CardChoice
from vgpu_scheduler.dialects.fixes import UsageWarning
from vgpu_scheduler.kube import Container, Pod
from vgpu_scheduler.model import NO_DEFAULTS, Claim, ClaimDefaults, PodClaims
from vgpu_scheduler.scorers import WeightedScorer
from vgpu_scheduler.state import PeerKeys

Scorers = tuple[WeightedScorer, ...]


@dataclass(frozen=True, slots=True)
class NodeSideAnnotation:
    """An annotation that the node side follows on the pod itself, whatever was decided.

    Attributes
    ----------
    vendors
        Whose devices it is about.
    nothing
        A value that asks for nothing.
    """

    vendors: frozenset[str]
    nothing: str = ""


class Claims(Protocol):
    """The claims of pods.

    Attributes
    ----------
    resources
        Every resource name that says anything about a claim.
    pod_annotations
        The annotations of a pod that its claims or its allocator depend on.
    pod_labels
        The labels of a pod that its claims depend on.
    overrides
        The word of a policy's ``podOverrides`` for each group of these annotations; a group without a word cannot be
        overruled.
    completed_resources
        The resources of containers that :meth:`complete` may refuse, or write otherwise.
    followed_by_node
        Those of these annotations that the node side follows itself: a pod for which one of them must not be followed
        must not be placed.
    annotation_words
        Those of these annotations that choose among cards by one of a few words, with these.
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
            What policies say about claims.

        Raises
        ------
        ClaimError
            If something is malformed or not understood; the message names the container, the field and the fix.
        """

    def usage_warnings(self, container: Container, annotations: Mapping[str, str]) -> Iterable[UsageWarning]:
        """Say what a container asks, under the pod's annotations, that is followed otherwise than it looks."""

    def odd_annotations(self, annotations: Mapping[str, str], claims: PodClaims) -> Iterable[UsageWarning]:
        """Name the annotations whose values have another effect than their author may expect.

        Parameters
        ----------
        annotations
            Those of the pod that are in force.
        claims
            What ``read`` returned; at least one is not empty.

        Raises
        ------
        ClaimError
            If one names a mode of sharing that there is not.
        """

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim leaves nothing of its cards to others, as far as it says itself."""

    def apart_from(self, annotations: Mapping[str, str]) -> PeerKeys | None:
        """Return what the pods have in common of which one with these annotations shares no card; None for nobody."""

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> Allocator:
        """Return the allocator for claims, of which at least one is not empty.

        Parameters
        ----------
        annotations
            Those of the pod that are in force.
        claims
            What ``read`` returned.
        choice
            How policies have the cards chosen, as ``known_choice`` leaves it.

        Raises
        ------
        ClaimError
            If an annotation or a restriction cannot be followed; the message names it.
        """

    def known_choice(self, choice: CardChoice) -> tuple[CardChoice, str]:
        """Return how cards are chosen without an order that this dialect does not know, and a word for what that is.

        What is left out gives way to the default; what restricts the choice stays, whether it can be followed or not.
        """

    def scorers(self, scorers: Scorers) -> tuple[Scorers, tuple[str, ...]]:
        """Return the scorers that rank the nodes of this dialect, and the names of those that it does not know.

        Parameters
        ----------
        scorers
            Those in force.

        Returns
        -------
        tuple
            Scorers that know the dialect's devices, at least one; and the names of those that are left out.
        """

    def complete(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool) -> bool:
        """Complete a container of a pod that is being admitted; tell whether it asks for devices.

        Parameters
        ----------
        pod
            The pod as JSON, which may be changed; its containers, resources and annotations have the types that they
            should have.
        container
            One of its containers.
        unclaimed
            No policy says how much a container claims that does not say it itself. Where one does, amounts that nobody
            asked for are not written: the decision knows what is in force then.

        Raises
        ------
        Refusal
            If the pod must not be let in.
        """


def names_any(container: Mapping[str, Any], resources: frozenset[str]) -> bool:
    """Tell whether a container of a pod as JSON names any of some resources in its limits or requests."""
    amounts = container.get("resources") or {}
    return any(name in resources for kind in ("limits", "requests") for name in amounts.get(kind) or ())

"""What a dialect is: one ecosystem's wire format, from Kubernetes objects to devices and claims and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vgpu_scheduler.allocators import Allocator, CardChoice
from vgpu_scheduler.dialects.node_side import NodeSide
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import (
    NO_TERMS,
    ClaimTerms,
    Device,
    DeviceResource,
    Dimension,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
    charges,
    kinds_of,
    makers,
)
from vgpu_scheduler.scorers import WeightedScorer


class ClaimError(ValueError):
    """A claim that is refused; the message names the container, the resource and the fix."""


class CodecError(ValueError):
    """A registration or an allocation that cannot be decoded; the message says what and where."""


class RegistrationError(CodecError):
    """A node of which the registrations of some makers cannot be decoded.

    Parameters
    ----------
    problems
        What cannot be decoded, and why, by maker.
    devices
        The devices of the other makers.
    """

    def __init__(self, problems: Mapping[str, str], devices: tuple[Device, ...]) -> None:
        super().__init__("; ".join(problems.values()))
        self.makers = frozenset(problems)
        self.devices = devices


Scorers = tuple[WeightedScorer, ...]

Inventory = Mapping[str, Any]
"""The object beside the node that lists its devices, as JSON, in dialects that have one."""


@dataclass(frozen=True, slots=True)
class Obeyed:
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


class Dialect(Protocol):
    """One ecosystem's wire format.

    Attributes
    ----------
    name
        What settings and messages call it.
    dimensions
        What a device has amounts of, in the order of every ``Amounts``.
    cards
        The vendors whose devices are cards; limits of policies are about these.
    memory, memory_unit
        The dimension that is memory, and how many bytes one of it is.
    cores
        The dimension that is compute in percent of a device.
    compute_units
        How much compute a device of a vendor has in the unit of its claims, where that is not percent.
    node_side
        How its node side finds a pod, and what proves that it has answered.
    pod_annotations
        The annotations of a pod that its claims or its allocator depend on.
    pod_labels
        The labels of a pod that its claims depend on.
    overrides
        The word of a policy's ``podOverrides`` for each group of these annotations; a group without a word cannot be
        overruled.
    obeyed
        Those of these annotations that the node side follows itself: a pod for which one of them must not be followed
        must not be placed.
    ignored_resources
        Resource names that the Kubernetes resource filter must leave alone: no node advertises them.
    device_resources
        Resource names that stand for amounts of devices.
    quota_resources
        Resource names whose ``limits.<name>`` in a ResourceQuota bounds what a namespace holds of devices.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class
    @property
    def dimensions(self) -> tuple[Dimension, ...]: ...  # noqa: D102
    @property
    def cards(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def memory(self) -> int: ...  # noqa: D102
    @property
    def memory_unit(self) -> int: ...  # noqa: D102
    @property
    def cores(self) -> int: ...  # noqa: D102
    @property
    def compute_units(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def node_side(self) -> NodeSide: ...  # noqa: D102
    @property
    def pod_annotations(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def pod_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def overrides(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102
    @property
    def obeyed(self) -> Mapping[str, Obeyed]: ...  # noqa: D102
    @property
    def ignored_resources(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def device_resources(self) -> Mapping[str, DeviceResource]: ...  # noqa: D102
    @property
    def quota_resources(self) -> Mapping[str, QuotaResource]: ...  # noqa: D102

    def devices(self, node: Node, inventory: Inventory | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, in the order written; none without a registration.

        Parameters
        ----------
        node
            The node.
        inventory
            The object beside the node that lists its devices, in dialects that have one.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation or the field. A
            :class:`RegistrationError` has the devices of the makers whose registration can.
        """

    def claims(self, pod: Pod, terms: ClaimTerms = NO_TERMS) -> PodClaims:
        """Return what each container claims.

        Parameters
        ----------
        pod
            The pod.
        terms
            What policies say about claims.

        Raises
        ------
        ClaimError
            If something is malformed or not understood; the message names the container, the field and the fix.
        """

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> Allocator:
        """Return the allocator for claims, of which at least one is not empty.

        Parameters
        ----------
        annotations
            Those of the pod that are in force.
        claims
            What ``claims`` returned.
        choice
            How policies have the cards chosen.

        Raises
        ------
        ClaimError
            If an annotation or the choice cannot be followed; the message names it.
        """

    def rankers(self, scorers: Scorers, *, chosen: bool) -> Scorers:
        """Return the scorers that rank the nodes of this dialect.

        Parameters
        ----------
        scorers
            Those in force.
        chosen
            Whether a policy or the pod named them; the settings' choice may be exchanged for one that fits.

        Raises
        ------
        ClaimError
            If one that was chosen knows nothing of this dialect's devices; the message names it.
        """

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to (design section 4, "who counts")."""

    def announced_node(self, pod: Pod) -> str:
        """Return the node that another scheduler of this ecosystem says it will bind an unbound pod to, if any."""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return what the Binding writes on the pod for the node side; nothing for a pod without devices.

        Parameters
        ----------
        placement
            The decision.
        unix_time
            Seconds since the epoch; some node sides order pods by fractions of them.
        pod
            The pod, where there is one. A Binding merges: what an earlier attempt, or somebody else, left in its
            annotations must be overwritten where the node side would read it.
        """

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the labels that the node side selects pods by."""


def placement_usage(placement: Placement, claims: PodClaims) -> Usage:
    """Return what a decided placement will use once it is bound."""
    return Usage(charges(kinds_of(claims), placement.containers), vendors=makers(placement.containers))

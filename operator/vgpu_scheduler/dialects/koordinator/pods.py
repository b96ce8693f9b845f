"""The claims of Koordinator's pods, and the allocator with Koordinator's score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vgpu_scheduler.allocators import (
    CardChoice,
    DeviceShareAllocator,
    DeviceWish,
    JointOrder,
    PartitionOrder,
    ScopeOrder,
    ShareChoice,
    ShareDimensions,
    ShareOrder,
    Strategy,
)
from vgpu_scheduler.dialects.claims import NodeSideAnnotation, Scorers, names_any
from vgpu_scheduler.dialects.errors import UnsupportedChoiceError
from vgpu_scheduler.dialects.fixes import AmountFix, RequestWarning
from vgpu_scheduler.dialects.koordinator.claims import pod_claims
from vgpu_scheduler.dialects.koordinator.codec import fill
from vgpu_scheduler.dialects.koordinator.hints import (
    NO_HINT,
    DeviceHint,
    read_hints,
    suspicious_hints,
    takes_gpus_whole,
)
from vgpu_scheduler.dialects.koordinator.joint import read_joint
from vgpu_scheduler.dialects.koordinator.names import (
    CORES,
    DEVICE_RESOURCES,
    FUNCTIONS_OF,
    GPU,
    GPU_MEMORY,
    HINT_ANNOTATION,
    ISOLATION_LABEL,
    JOINT_ANNOTATION,
    MEMORY,
    PARTITION_ANNOTATION,
    RATIO,
    TYPE_OF,
)
from vgpu_scheduler.dialects.koordinator.partitions import read_partition_spec
from vgpu_scheduler.dialects.values import number_of
from vgpu_scheduler.kube import Container, LabelSelector, Pod, to_milli
from vgpu_scheduler.model import MIB, NO_DEFAULTS, WHOLE, CardReason, Claim, ClaimDefaults, PodClaims
from vgpu_scheduler.scorers import KOORDINATOR_SHARE_WEIGHTS, DeviceShareScorer, WeightedScorer

_STRATEGIES = {"spread": Strategy.LEAST_ALLOCATED, "binpack": Strategy.MOST_ALLOCATED}
_MUTEX = "mutex"

_ALLOCATION = ShareDimensions(
    reasons=(
        CardReason.CardTimeSlicingExhausted,
        CardReason.CardInsufficientMemory,
        CardReason.CardInsufficientCore,
        CardReason.CardInsufficientMemory,
    ),
    memory=MEMORY,
    cores=CORES,
    cards=frozenset({GPU}),
    resources=DEVICE_RESOURCES,
    fill=fill,
)

_UNSUPPORTED_SCORERS = frozenset({"hami", "fragmentation"})
"""Scorers that need slots of cards, which these devices do not have."""


@dataclass(frozen=True, slots=True)
class KoordinatorClaims:
    """The claims of pods."""

    resources = frozenset(TYPE_OF)
    pod_annotations = (HINT_ANNOTATION, JOINT_ANNOTATION, PARTITION_ANNOTATION)
    pod_labels = (ISOLATION_LABEL,)
    completed_resources: ClassVar[frozenset[str]] = frozenset()
    followed_by_node: ClassVar[Mapping[str, NodeSideAnnotation]] = {}
    annotation_words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def read(self, pod: Pod, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
        """Return the pod's claims, one per device type; see :func:`pod_claims` for the container that has them.

        Raises
        ------
        ClaimError
            If the combination of requests is invalid, or something is not supported; the message names the fix.
        """
        return pod_claims(pod, defaults)

    def request_warnings(self, container: Container, annotations: Mapping[str, str]) -> Iterator[RequestWarning]:
        """Yield warnings about amounts with an unexpected effect."""
        del annotations
        return suspicious_amounts(container)

    def suspicious_annotations(self, annotations: Mapping[str, str], claims: PodClaims) -> tuple[RequestWarning, ...]:
        """Return warnings about hints without effect; unsupported hints are refused."""
        del claims
        return tuple(suspicious_hints(read_hints(annotations)))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes all compute or all memory of its devices."""
        return max(claim.amounts[CORES], claim.amounts[RATIO]) >= WHOLE

    def apart_from(self, annotations: Mapping[str, str]) -> None:
        """Return None: Koordinator has no annotation to keep pods from sharing cards with each other."""
        del annotations

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> DeviceShareAllocator:
        """Return the allocator for claims: by the order of ``choice``, else by the strategy of its policy word.

        ``spread`` is LeastAllocated, ``binpack`` MostAllocated, ``mutex`` LeastAllocated on unused devices only, each
        with Koordinator's own weights. If the places of all GPUs of a node are known, they come from the smallest scope
        of its topology tree with enough GPUs, within the scope that the pod's hint requires.

        Raises
        ------
        ClaimError
            If the choice is not supported for Koordinator's devices.
        """
        if choice.numa_bind:
            raise UnsupportedChoiceError("numa is not supported for Koordinator's devices by this version")
        if choice.limits.modes:
            raise UnsupportedChoiceError("modes: Koordinator's devices have no sharing modes; remove it")
        hints = read_hints(annotations)
        scopes = ScopeOrder(GPU, takes_gpus_whole, hints.get(GPU, NO_HINT).scope)
        order = choice.device_share_order
        if order is None:
            if choice.policy == _MUTEX:
                choice = replace(choice, policy="spread", idle_only=True)
            order = ShareOrder(_STRATEGIES[choice.policy], KOORDINATOR_SHARE_WEIGHTS)
        joint = _joint(annotations, claims, hints)
        chosen = ShareChoice(scopes, _partitions(annotations), _wishes(hints, claims), joint)
        return DeviceShareAllocator(claims, order, choice, _ALLOCATION, chosen)

    def known_choice(self, choice: CardChoice) -> tuple[CardChoice, str]:
        """Return the choice without card orders that only HAMi has."""
        if choice.device_share_order is not None or choice.policy in _STRATEGIES or choice.policy == _MUTEX:
            return choice, ""
        return replace(choice, policy=CardChoice().policy), f"the card order {choice.policy!r}"

    def scorers(self, scorers: Scorers) -> tuple[Scorers, tuple[str, ...]]:
        """Return the scorers without those that need slots of cards, which these devices do not have.

        If no other scorer is left, Koordinator's own score ranks the nodes.
        """
        unsupported = [
            entry.scorer.name for entry in scorers if entry.weight and entry.scorer.name in _UNSUPPORTED_SCORERS
        ]
        known = tuple(entry for entry in scorers if entry.scorer.name not in _UNSUPPORTED_SCORERS)
        if unsupported and not any(entry.weight for entry in known):
            known = (WeightedScorer(DeviceShareScorer(Strategy.LEAST_ALLOCATED, KOORDINATOR_SHARE_WEIGHTS)),)
        return known, tuple(unsupported)

    def complete(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool) -> bool:
        """Tell whether a container requests devices; it is not changed."""
        del pod, unclaimed
        return names_any(container, self.resources)


def _joint(annotations: Mapping[str, str], claims: PodClaims, hints: Mapping[str, DeviceHint]) -> JointOrder | None:
    """Return the joint order of a pod's devices; GPUs are never more than requested."""
    joint = read_joint(annotations, (claim for container in claims for claim in container.claims), hints)
    if joint is None or len(joint.types) < 2:
        return None
    return JointOrder(joint.types, frozenset({*joint.types} - {GPU}), joint.same_switch)


def _partitions(annotations: Mapping[str, str]) -> PartitionOrder:
    """Return the partition order of whole GPUs: required by the pod's annotation, else up to the node."""
    spec = read_partition_spec(annotations)
    if spec is None:
        return PartitionOrder(GPU, takes_gpus_whole)
    return PartitionOrder(GPU, takes_gpus_whole, required=True, first_only=spec.restricted, bandwidth=spec.bandwidth)


def _wishes(hints: Mapping[str, DeviceHint], claims: PodClaims) -> Mapping[str, DeviceWish]:
    """Return the requirements in the hints on the claimed devices and their virtual functions."""
    wishes: dict[str, DeviceWish] = {}
    for claim in (claim for container in claims for claim in container.claims if claim.vendor in hints):
        hint = hints[claim.vendor]
        functions = "" if hint.functions is None else FUNCTIONS_OF[claim.vendor]
        every = hint.every and claim.count == 1
        wishes[claim.vendor] = DeviceWish(_matches(hint.selector), every=every, functions=functions)
        if functions:
            wishes[functions] = DeviceWish(_matches(hint.functions))
    return wishes


def _matches(selector: LabelSelector | None) -> Callable[[Mapping[str, str]], bool] | None:
    return None if selector is None else selector.matches


def suspicious_amounts(container: Container) -> Iterator[RequestWarning]:
    """Yield warnings about zeros beside other amounts, fractions, and memory that is probably meant in MiB."""
    asked = {**container.requests, **container.limits}
    amounts = {name: number_of(asked[name]) for name in TYPE_OF if name in asked}
    kinds = {TYPE_OF[name] for name, amount in amounts.items() if amount}
    for name, amount in amounts.items():
        if amount == 0 and TYPE_OF[name] in kinds:
            what = f"{name}: {asked[name]}"
            yield RequestWarning(f"{what} has no effect", f"{what} is not an amount: leave it out")
        if amount is not None and to_milli(str(asked[name])) % 1000:
            what, fix = f"{name}: {asked[name]} is not a whole number", AmountFix("", name, str(asked[name]), amount)
            yield RequestWarning(f"{what}, and counts as {amount}", f"{what}: write {amount}", fix)
    memory = amounts.get(GPU_MEMORY)
    if memory and memory < MIB:
        yield RequestWarning(
            f"{GPU_MEMORY}: {asked[GPU_MEMORY]} is in bytes, and hardly any memory: for MiB write {memory}Mi"
        )

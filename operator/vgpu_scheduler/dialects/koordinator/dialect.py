"""The Koordinator dialect: from the Device object and the pod's requests to an allocation annotation and back.

A thin slice of it: cards on nodes with a complete topology are chosen by their score, as on other nodes, not by
Koordinator's tree of scopes; hints, joint allocation, partitions, isolation labels and NPUs are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from vgpu_scheduler.allocators import CardChoice, ShareAllocator, ShareDimensions, ShareOrder, Strategy
from vgpu_scheduler.dialects.base import ClaimError, CodecError, Inventory, Obeyed, Scorers
from vgpu_scheduler.dialects.koordinator.claims import device_requests, pod_claims
from vgpu_scheduler.dialects.koordinator.codec import (
    AllocatedDevice,
    decode_allocated,
    decode_devices,
    device_name,
    encode_allocated,
    fill,
)
from vgpu_scheduler.dialects.koordinator.names import (
    ALLOCATED_ANNOTATION,
    CORES,
    DEVICE_RESOURCES,
    DEVICE_TYPES,
    DIMENSIONS,
    GPU,
    GPU_SHARED,
    HINT_ANNOTATION,
    ISOLATION_LABEL,
    JOINT_ANNOTATION,
    MEMORY,
    PARTITION_ANNOTATION,
    RATIO,
    TYPE_OF,
)
from vgpu_scheduler.dialects.node_side import LocklessNodeSide, NodeSide
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import (
    NO_TERMS,
    NO_USAGE,
    Amounts,
    CardReason,
    Claim,
    ClaimTerms,
    ContainerClaims,
    ContainerKind,
    Device,
    DeviceResource,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
)
from vgpu_scheduler.scorers import KOORDINATOR_SHARE_WEIGHTS, DeviceShareScorer, WeightedScorer

_WHOLE = 100
_NOTHING = (0,) * len(DIMENSIONS)
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

_STRANGE_SCORERS = frozenset({"hami", "fragmentation"})
"""Scorers that look at shares of cards, which these devices do not have."""


@dataclass(frozen=True, slots=True)
class KoordinatorDialect:
    """Koordinator's wire format."""

    name = "koordinator"
    dimensions = DIMENSIONS
    memory, cores = MEMORY, CORES
    memory_unit = 1
    node_side: ClassVar[NodeSide] = LocklessNodeSide()  # koordlet finds the allocation on the pod that it starts
    pod_annotations = (HINT_ANNOTATION, JOINT_ANNOTATION, PARTITION_ANNOTATION)
    cards = frozenset({GPU})
    pod_labels = (ISOLATION_LABEL,)
    compute_units: ClassVar[Mapping[str, int]] = {}
    obeyed: ClassVar[Mapping[str, Obeyed]] = {}
    overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    ignored_resources = frozenset({GPU_SHARED})
    """Koordinator writes a node's totals of all its other names; of this one only where a feature gate says so."""
    device_resources: ClassVar[Mapping[str, DeviceResource]] = DEVICE_RESOURCES
    quota_resources: ClassVar[Mapping[str, QuotaResource]] = {}  # Koordinator has elastic quotas of its own

    def devices(self, node: Node, inventory: Inventory | None = None) -> tuple[Device, ...]:
        """Return the devices of the node's Device object, in the order written; none without one.

        Raises
        ------
        CodecError
            If the object is malformed, or is about something that this version does not follow.
        """
        if inventory is None:
            return ()
        try:
            return decode_devices(inventory, node)
        except CodecError as error:
            raise CodecError(f"Device {node.name}: {error}") from None

    def claims(self, pod: Pod, terms: ClaimTerms = NO_TERMS) -> PodClaims:
        """Return the pod's claims, one per device type; see :func:`pod_claims` for the container they stand at.

        Raises
        ------
        ClaimError
            If the requests do not go together, or something is not followed; the message names it and the fix.
        """
        return pod_claims(pod, terms)

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> ShareAllocator:
        """Return the allocator for claims: by the score of ``choice.share``, or the strategy that a word stands for.

        ``spread`` is LeastAllocated, ``binpack`` MostAllocated, ``mutex`` the former on idle devices only, each with
        Koordinator's own weights.

        Raises
        ------
        ClaimError
            If the choice needs what this version does not know about Koordinator's devices.
        """
        del annotations  # those that could matter were refused
        if choice.numa_bind:
            raise ClaimError("devices.numa is not followed for Koordinator's devices by this version")
        if choice.limits.modes:
            raise ClaimError("devices.modes: Koordinator's devices have no sharing modes; remove it")
        if choice.share is not None:
            return ShareAllocator(claims, choice.share, choice, _ALLOCATION)
        if choice.policy == _MUTEX:
            choice = replace(choice, policy="spread", idle_only=True)
        strategy = _STRATEGIES.get(choice.policy)
        if strategy is None:
            words = ", ".join((*_STRATEGIES, _MUTEX))
            raise ClaimError(f"the card order {choice.policy!r} is not one for Koordinator's devices: use {words}")
        return ShareAllocator(claims, ShareOrder(strategy, KOORDINATOR_SHARE_WEIGHTS), choice, _ALLOCATION)

    def rankers(self, scorers: Scorers, *, chosen: bool) -> Scorers:
        """Return the scorers; those that look at shares of cards know nothing of Koordinator's devices.

        Where nobody chose any, Koordinator's own score ranks the nodes.

        Raises
        ------
        ClaimError
            If a policy or the pod chose one of them.
        """
        strange = [entry.scorer.name for entry in scorers if entry.weight and entry.scorer.name in _STRANGE_SCORERS]
        if not strange:
            return scorers
        if chosen:
            raise ClaimError(
                f"nodes: the scorer {strange[0]} does not know Koordinator's devices: use binpack or deviceshare"
            )
        return (WeightedScorer(DeviceShareScorer(Strategy.LEAST_ALLOCATED, KOORDINATOR_SHARE_WEIGHTS)),)

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to (design section 4, "who counts").

        Its allocation annotation counts if the pod asks for devices at all. One that has started and whose annotation
        is missing, unreadable or silent about a type that it asks for may sit on any device of that type. So may one
        whose annotation gives no ids, as old ones do: the minor alone is not what devices are booked under.
        """
        asked = {TYPE_OF[name] for name in device_requests(pod)}
        if not pod.node_name or pod.terminal or not asked:
            return NO_USAGE
        value = pod.annotations.get(ALLOCATED_ANNOTATION)
        if value is None:
            return self._unreadable(pod, asked, f"annotation {ALLOCATED_ANNOTATION} is missing")
        try:
            allocated = decode_allocated(value)
        except CodecError as error:
            return self._unreadable(pod, asked, f"annotation {ALLOCATED_ANNOTATION}: {error}")
        rest = NO_USAGE
        if missing := asked - {device.type for device in allocated}:
            silent = f"annotation {ALLOCATED_ANNOTATION} has no {', '.join(sorted(missing))}"
            rest = self._unreadable(pod, missing, silent)
        unreadable, problem = rest.unreadable, rest.problem
        if nameless := [device for device in allocated if not device.id and device.type in DEVICE_TYPES]:
            unreadable = (*unreadable, _anywhere(nameless))
            problem = problem or f"annotation {ALLOCATED_ANNOTATION} has no ids"
        named = [device for device in allocated if device.id]
        return Usage(_charges(named), unreadable, problem, vendors={_name(device): device.type for device in named})

    def _unreadable(self, pod: Pod, types: Iterable[str], problem: str) -> Usage:
        """Return the claims on some types as charges on any device; one that has not started holds nothing yet."""
        if not pod.started:
            return NO_USAGE
        wanted = frozenset(types)
        try:
            claims = tuple(
                replace(
                    container, claims=tuple(_blanket(claim) for claim in container.claims if claim.vendor in wanted)
                )
                for container in pod_claims(pod)
            )
        except ClaimError:
            # Nobody can say how much: the pod may use a whole device wherever it sits.
            whole = tuple(Claim(kind, 1, _NOTHING, (_WHOLE,) * len(DIMENSIONS)) for kind in sorted(wanted))
            claims = (ContainerClaims("", ContainerKind.APP, whole),)
        return Usage({}, claims, problem)

    def announced_node(self, pod: Pod) -> str:
        """Return none: what is written on a pod before its binding is not relied upon."""
        del pod
        return ""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return what the Binding writes on the pod for koordlet; nothing for a pod without devices."""
        del pod  # every key that the node side reads is written
        del unix_time
        if not placement.vendors():
            return {}
        assignments = [assignment for container in placement.containers for assignment in container]
        return {ALLOCATED_ANNOTATION: encode_allocated(assignments)}

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return no labels: nothing on Koordinator's node side selects pods by any."""
        del placement
        return {}


def _charges(allocated: Iterable[AllocatedDevice]) -> dict[str, Amounts]:
    return {_name(device): device.amounts for device in allocated}


def _name(device: AllocatedDevice) -> str:
    return device_name(device.type, device.minor, device.id)


def _blanket(claim: Claim) -> Claim:
    """Return a claim as it may have been booked on some device.

    How much of the ratio an amount of memory is depends on the device, so the whole of it is taken.
    """
    percent = list(claim.percent)
    if claim.amounts[MEMORY] and not claim.amounts[RATIO]:
        percent[RATIO] = _WHOLE
    return replace(claim, percent=tuple(percent))


def _anywhere(allocated: Iterable[AllocatedDevice]) -> ContainerClaims:
    """Return, per type, the largest amounts of some devices as a claim on one of them."""
    most: dict[str, Amounts] = {}
    for device in allocated:
        most[device.type] = tuple(map(max, most.get(device.type, _NOTHING), device.amounts))
    claims = tuple(Claim(kind, 1, amounts, _NOTHING) for kind, amounts in sorted(most.items()))
    return ContainerClaims("", ContainerKind.APP, claims)

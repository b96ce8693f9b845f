"""The HAMi dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from vgpu_scheduler.allocators import BEST_FIT, CardChoice, HamiAllocator, card_order
from vgpu_scheduler.dialects.base import NOTHING_CARRIED, ClaimError, CodecError, Inventory, Scorers
from vgpu_scheduler.dialects.hami.claims import asks_for_devices, pod_claims
from vgpu_scheduler.dialects.hami.codec import (
    AssignedDevice,
    RegisteredDevice,
    decode_assignments,
    decode_register,
    encode_assignments,
    realign,
)
from vgpu_scheduler.dialects.hami.holdings import held
from vgpu_scheduler.dialects.hami.links import decode_pair_scores
from vgpu_scheduler.dialects.hami.lock import LOCK_ANNOTATION
from vgpu_scheduler.dialects.hami.mig import SLICES, Span, allocations_of, encode_allocations, pieces_of, slices_of
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.dialects.hami.templates import recorded, template_pieces
from vgpu_scheduler.dialects.hami.vendors import nvidia
from vgpu_scheduler.dialects.hami.vendors.nvidia import NvidiaNames, quota_resources
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import (
    NO_TERMS,
    NO_USAGE,
    Amounts,
    Assignment,
    Claim,
    ClaimTerms,
    ContainerClaims,
    Device,
    DeviceResource,
    Dimension,
    Piece,
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
_PLACED = 3
_MOST_CARDS = 1024
"""A node that lists more is not believed: its cards are sorted for every claim."""
_MOST_SHARES = 1024
"""Shares of a card that its templates are counted for: weights of placements must stay far below int64's bounds."""
_SEPARATORS = frozenset(",:;")
_WHOLE_CARD = (Claim(nvidia.VENDOR, 1, (1, 0, 0), (0, 100, 100)),)


@dataclass(frozen=True, slots=True)
class HamiDialect:
    """HAMi's wire format.

    Parameters
    ----------
    nvidia_names
        Resource names and defaults of NVIDIA cards.
    """

    nvidia_names: NvidiaNames = field(default_factory=NvidiaNames)

    name = "hami"
    dimensions = (
        Dimension("slots", "shares"),
        Dimension("memory", "MiB"),
        Dimension("cores", "percent"),
        Dimension("placements", "shares"),  # this and the others are of MIG cards only
        *(Dimension(f"slice {number}", "slices") for number in range(SLICES)),
    )
    memory, cores = 1, 2
    memory_unit = 2**20
    lock_annotation = LOCK_ANNOTATION
    pod_annotations = nvidia.POD_ANNOTATIONS
    cards = frozenset({nvidia.VENDOR})
    pod_labels = ()
    overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "deviceTypes": (nvidia.USE_TYPE, nvidia.NO_USE_TYPE),
        "deviceUUIDs": (nvidia.USE_UUID, nvidia.NO_USE_UUID),
        "mode": (nvidia.MODE,),
        "numa": (nvidia.NUMA_BIND,),
    }

    @property
    def ignored_resources(self) -> frozenset[str]:
        """Resource names that the Kubernetes resource filter must leave alone: no node advertises them."""
        return self.nvidia_names.ignored

    @property
    def device_resources(self) -> Mapping[str, DeviceResource]:
        """HAMi's names and Koordinator's for the same amounts: a policy may weigh either (D4-02)."""
        return _device_resources(self.nvidia_names)

    @property
    def quota_resources(self) -> Mapping[str, QuotaResource]:
        """Memory and cores; a quota on memory is in the unit of requests."""
        return quota_resources(self.nvidia_names)

    def devices(self, node: Node, inventory: Inventory | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, in the order written; none without a registration.

        Pair scores that cannot be read count as missing: HAMi hides such a node, though its cards are all right.
        Their health is what the plugin said. A plugin that is gone is seen in the node's allocatable amount of the
        count resource, which drops to 0: the resource filter then keeps new pods away.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation.
        """
        del inventory  # everything is in the node's annotations
        value = node.annotations.get(nvidia.REGISTER_ANNOTATION)
        if value is None:
            return ()
        try:
            return _registered(
                value,
                node.annotations.get(nvidia.CORDON_ANNOTATION, ""),
                node.annotations.get(nvidia.PAIR_SCORES_ANNOTATION, ""),
                self.nvidia_names,
            )
        except CodecError as error:
            raise CodecError(f"annotation {nvidia.REGISTER_ANNOTATION}: {error}") from None

    def claims(self, pod: Pod, terms: ClaimTerms = NO_TERMS) -> PodClaims:
        """Return what each container claims.

        Raises
        ------
        ClaimError
            If an amount is malformed; the message names the container, the resource and the fix.
        """
        return pod_claims(pod, self.nvidia_names, terms)

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> HamiAllocator:
        """Return the allocator for claims, under what the annotations and policies say."""
        rules = parse_rules(annotations)
        policy = BEST_FIT if choice.best_fit else choice.policy
        order = card_order(policy, choice.order, numa_bind=rules.numa_bind or choice.numa_bind)
        return HamiAllocator(claims, rules, order, choice, self.device_resources)

    def rankers(self, scorers: Scorers, *, chosen: bool) -> Scorers:
        """Return the scorers as they are: all of them know cards."""
        del chosen
        return scorers

    def asks(self, pod: Pod) -> bool:
        """Tell whether the pod asks for devices of this dialect, however malformed."""
        return any(asks_for_devices(container, self.nvidia_names) for container in pod.spec.containers)

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to (design section 4, "who counts").

        Its allocation annotation counts if it names that node. A pod that has started without a readable one may sit
        on any card; one that has not started holds nothing yet.
        """
        if not pod.node_name or pod.terminal or not self.asks(pod):
            return NO_USAGE
        claimants = [asks_for_devices(container, self.nvidia_names) for container in pod.spec.containers]
        value = pod.annotations.get(nvidia.ALLOCATED_ANNOTATION)
        problem = ""
        if value is None:
            problem = f"annotation {nvidia.ALLOCATED_ANNOTATION} is missing"
        elif pod.annotations.get(NODE_ANNOTATION) != pod.node_name:
            problem = f"annotation {NODE_ANNOTATION} does not name node {pod.node_name}"
        else:
            try:
                aligned = realign(decode_assignments(value), claimants)
            except CodecError as error:
                problem = f"annotation {nvidia.ALLOCATED_ANNOTATION}: {error}"
            else:
                if aligned is not None and any(aligned):
                    return held(pod, aligned)
                problem = f"annotation {nvidia.ALLOCATED_ANNOTATION} does not match the containers that claim devices"
        return Usage({}, self._unreadable(pod), problem) if pod.started else NO_USAGE

    def _unreadable(self, pod: Pod) -> PodClaims:
        try:
            return tuple(
                replace(container, claims=tuple(map(_as_allocated, container.claims))) for container in self.claims(pod)
            )
        except ClaimError:
            # Nobody can say how much: the pod may use a whole card wherever it sits.
            return tuple(
                ContainerClaims(
                    container.name,
                    container.kind,
                    _WHOLE_CARD if asks_for_devices(container, self.nvidia_names) else (),
                )
                for container in pod.spec.containers
            )

    def annotations(
        self, placement: Placement, unix_time: int, carried: Mapping[str, str] = NOTHING_CARRIED
    ) -> dict[str, str]:
        """Return what the Binding writes on the pod for the device plugin; nothing for a pod without devices."""
        if not placement.vendors():
            return {}
        value = encode_assignments([[_entry(a) for a in container] for container in placement.containers])
        placements = allocations_of(placement.containers)
        mig = {nvidia.MIG_ANNOTATION: encode_allocations(placements)}
        return {
            NODE_ANNOTATION: placement.node,
            TIME_ANNOTATION: str(unix_time),
            nvidia.TO_ALLOCATE_ANNOTATION: value,
            nvidia.ALLOCATED_ANNOTATION: value,
            **(mig if placements or nvidia.MIG_ANNOTATION in carried else {}),
            BIND_PHASE_ANNOTATION: PHASE_ALLOCATING,
            BIND_TIME_ANNOTATION: str(unix_time),
        }

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return the label that HAMi's monitor selects pods by."""
        return {NODE_ANNOTATION: placement.node} if placement.vendors() else {}

    def needs_lock(self, claims: PodClaims) -> bool:
        """Tell whether the plugin will look for this pod through the node lock: any container claims devices.

        HAMi takes none for pods whose init containers or sidecars alone claim devices, and the plugin may then hand
        them the entries of the pod that holds it.
        """
        return claims_devices(claims)

    def allocation_phase(self, annotations: Mapping[str, str]) -> str:
        """Return the node side's answer: ``allocating``, ``success``, ``failed`` or empty."""
        return annotations.get(BIND_PHASE_ANNOTATION, "")

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has consumed every entry of the pod."""
        value = annotations.get(nvidia.TO_ALLOCATE_ANNOTATION)
        return value is not None and not value.replace(";", "").strip()


@lru_cache(maxsize=_REMEMBERED)
def _registered(value: str, cordon: str, pair_scores: str, names: NvidiaNames) -> tuple[Device, ...]:
    """Decode a registration; remembered, because most events of a node leave it as it is."""
    cordoned = {uuid.strip() for uuid in cordon.split(",")}
    registered = decode_register(value)
    links = _links(pair_scores)
    if len(registered) > _MOST_CARDS:
        raise CodecError(f"{len(registered)} devices are more than a node has (at most {_MOST_CARDS})")
    seen: dict[str, Device] = {}
    for card in registered:
        if _SEPARATORS.intersection(card.id):
            raise CodecError(f"device {card.id!r} has a separator of the assignment format in its id")
        if card.id in seen:
            raise CodecError(f"device {card.id} is listed twice")
        seen[card.id] = _device(card, card.id in cordoned, links.get(card.id, {}), names)
    return tuple(seen.values())


def _links(pair_scores: str) -> Mapping[str, Mapping[str, int]]:
    try:
        return {entry.uuid: entry.score for entry in decode_pair_scores(pair_scores)} if pair_scores else {}
    except CodecError:
        return {}


def _device(card: RegisteredDevice, cordoned: bool, links: Mapping[str, int], names: NvidiaNames) -> Device:
    total: Amounts = (max(card.count, 0), max(card.devmem, 0), max(card.devcore, 0))
    pieces: tuple[Piece, ...] = ()
    if card.mode == nvidia.MODE_MIG:
        allowed = names.mig_profiles(card.type)
        templates = () if card.mig_profiles else names.mig_templates(card.type)  # C-15: each card by its registration
        possible = tuple(dict.fromkeys(pieces_of(card.mig_profiles) or template_pieces(templates)))
        pieces = tuple(piece for piece in possible if allowed is None or piece.profile in allowed)
        weight = max((piece.amounts[_PLACED] for piece in possible), default=1)
        slices = slices_of(Span(piece.start, piece.size) for piece in possible)
        total = (*total, weight * min(max(card.count, 1), _MOST_SHARES), *slices)
    return Device(
        uuid=card.id,
        vendor=nvidia.VENDOR,
        type=card.type,
        total=total,
        index=card.index,
        numa=card.numa,
        mode=card.mode,
        healthy=card.health,
        cordoned=cordoned,
        links=tuple(sorted(links.items())),
        pieces=pieces,
    )


def _entry(assignment: Assignment) -> AssignedDevice:
    _, memory, cores, *_ = assignment.amounts
    return AssignedDevice(recorded(assignment.uuid, assignment.piece), nvidia.VENDOR, memory, cores)


def _as_allocated(claim: Claim) -> Claim:
    """Cut the cores as the allocation would: nobody gets more than a whole card's."""
    slots, memory, cores = claim.amounts
    return replace(claim, amounts=(slots, memory, min(cores, _WHOLE)))


@lru_cache(maxsize=8)
def _device_resources(names: NvidiaNames) -> Mapping[str, DeviceResource]:
    def share(dimension: int, *, percent: bool = False) -> DeviceResource:
        return DeviceResource(nvidia.VENDOR, dimension, percent)

    return {
        names.count: share(0),
        names.memory: share(1),
        names.memory_percent: share(1, percent=True),
        names.cores: share(2),
        "koordinator.sh/gpu-memory": share(1),
        "koordinator.sh/gpu-memory-ratio": share(1, percent=True),
        "koordinator.sh/gpu-core": share(2),
    }

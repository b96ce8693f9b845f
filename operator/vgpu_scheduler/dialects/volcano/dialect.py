"""The Volcano dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations.

It covers cards that are shared by ``hami-core``. Cards in MIG mode are kept and never given out; a pod group's policy
about cards, NUMA nodes and Koordinator's card scores are refused by name. Volcano's own scheduler does not look at a
card's health; here an unhealthy card is given to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from vgpu_scheduler.allocators import (
    BEST_FIT,
    BINPACK,
    DEVICE_POLICIES,
    MUTEX,
    SPREAD,
    CardChoice,
    HamiAllocator,
    policy_words,
)
from vgpu_scheduler.dialects.base import ClaimError, CodecError, Inventory, Obeyed, Scorers
from vgpu_scheduler.dialects.hami.codec import realign
from vgpu_scheduler.dialects.node_side import NodeSide
from vgpu_scheduler.dialects.remembered import RememberedDevices
from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.dialects.volcano.claims import asks_for_cards, pod_claims, regular_containers
from vgpu_scheduler.dialects.volcano.codec import (
    AssignedDevice,
    decode_assignments,
    decode_register,
    encode_assignments,
)
from vgpu_scheduler.dialects.volcano.names import VolcanoNames
from vgpu_scheduler.dialects.volcano.node_side import VolcanoNodeSide
from vgpu_scheduler.dialects.volcano.order import volcano_order
from vgpu_scheduler.dialects.volcano.rules import parse_rules
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import (
    NO_TERMS,
    NO_USAGE,
    Assignment,
    Claim,
    ClaimTerms,
    ContainerClaims,
    ContainerKind,
    Device,
    DeviceResource,
    Dimension,
    Placement,
    PodClaims,
    QuotaResource,
    Usage,
    charges,
    makers,
)

_CORES = 100
"""Every card has 100 percent of itself; the plugin does not say so."""
_FOLLOWED = frozenset({BINPACK, SPREAD, MUTEX})
_MOST_CARDS = 1024
"""A node that lists more is not believed: its cards are sorted for every claim."""
_WHOLE_CARD = (Claim(keys.VENDOR, 1, (1, 0, 0), (0, 100, 100)),)


@dataclass(frozen=True, slots=True)
class VolcanoDialect:
    """Volcano's wire format.

    Parameters
    ----------
    names
        Resource names.
    """

    names: VolcanoNames = field(default_factory=VolcanoNames)

    name = "volcano"
    memory, cores = 1, 2
    node_side: ClassVar[NodeSide] = VolcanoNodeSide()
    pod_annotations = keys.POD_ANNOTATIONS
    cards = frozenset({keys.VENDOR})
    pod_labels = ()
    compute_units: ClassVar[Mapping[str, int]] = {}
    obeyed: ClassVar[Mapping[str, Obeyed]] = {}
    overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "deviceTypes": (keys.USE_TYPE, keys.NO_USE_TYPE),
        "deviceUUIDs": (keys.USE_UUID, keys.NO_USE_UUID),
        "mode": (keys.MODE,),
    }

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Slots, memory in blocks of ``memory_factor`` MiB, cores."""
        factor = self.names.memory_factor
        unit = "MiB" if factor == 1 else f"x {factor} MiB"
        return (Dimension("slots", "shares"), Dimension("memory", unit), Dimension("cores", "percent"))

    @property
    def memory_unit(self) -> int:
        """Bytes of one block of memory."""
        return 2**20 * self.names.memory_factor

    @property
    def ignored_resources(self) -> frozenset[str]:
        """The percentage: the plugin advertises cards, memory and cores, which the kubelet then counts, and no more."""
        return frozenset({self.names.memory_percent}) - {""}

    @property
    def device_resources(self) -> Mapping[str, DeviceResource]:
        """Volcano's names for amounts of cards."""
        return _device_resources(self.names)

    @property
    def quota_resources(self) -> Mapping[str, QuotaResource]:
        """None: Volcano's queues have capacities of their own."""
        return {}

    def devices(self, node: Node, inventory: Inventory | None = None) -> tuple[Device, ...]:
        """Return the cards that the node registered, in the order written; none without a registration.

        A node whose allocatable amount of cards, memory or cores is 0 has none either: that is how its plugin's end
        shows.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation.
        """
        del inventory  # everything is in the node's annotations
        value = node.annotations.get(keys.REGISTER_ANNOTATION)
        advertised = (self.names.count, self.names.memory, self.names.cores)
        if value is None or not all(node.allocatable.get(name) for name in advertised):
            return ()
        try:
            return _remembered.get(value, lambda: _registered(value))
        except CodecError as error:
            raise CodecError(f"annotation {keys.REGISTER_ANNOTATION}: {error}") from None

    def claims(self, pod: Pod, terms: ClaimTerms = NO_TERMS) -> PodClaims:
        """Return what each regular container claims; init containers claim nothing under Volcano and are left out.

        Raises
        ------
        ClaimError
            If an amount is malformed or cannot be followed; the message names the container, the resource and the fix.
        """
        return pod_claims(pod, self.names, terms)

    def allocator(self, annotations: Mapping[str, str], claims: PodClaims, choice: CardChoice) -> HamiAllocator:
        """Return the allocator for claims, under what the annotations and policies say.

        Raises
        ------
        ClaimError
            If an annotation or the choice cannot be followed.
        """
        if choice.numa_bind:
            raise ClaimError("devices.numa: Volcano's nodes do not register the NUMA nodes of their cards")
        if choice.share is not None:
            raise ClaimError("devices.policy: Koordinator's card scores are not supported for Volcano's cards")
        if choice.weights != CardChoice().weights:
            raise ClaimError("devices.weights: they are of HAMi's card score, which Volcano's orders do not use")
        policy = BEST_FIT if choice.best_fit else choice.policy
        beyond = [word for word in policy_words(policy) if word in DEVICE_POLICIES - _FOLLOWED]
        if beyond or "," in policy:
            raise ClaimError(
                f"devices.policy: {policy!r} is not one for Volcano's cards: use binpack, spread, mutex or bestFit"
            )
        if policy == MUTEX:
            choice = replace(choice, idle_only=True)
        return HamiAllocator(claims, parse_rules(annotations), volcano_order(policy), choice)

    def rankers(self, scorers: Scorers, *, chosen: bool) -> Scorers:
        """Return the scorers as they are: all of them know cards."""
        del chosen
        return scorers

    def asks(self, pod: Pod) -> bool:
        """Tell whether the pod asks for cards of this dialect, however malformed."""
        return any(self._claimants(pod))

    def usage(self, pod: Pod) -> Usage:
        """Return what a pod uses on the node that it is bound to (design section 4, "who counts").

        Its allocation annotation counts if it names that node. A pod that has started without a readable one may sit
        on any card; one that has not started holds nothing yet. An instance of a MIG card is charged on the card.
        """
        if not pod.node_name or pod.terminal or not self.asks(pod):
            return NO_USAGE
        value = pod.annotations.get(keys.ALLOCATED_ANNOTATION)
        problem = ""
        if value is None:
            problem = f"annotation {keys.ALLOCATED_ANNOTATION} is missing"
        elif pod.annotations.get(keys.NODE_ANNOTATION) != pod.node_name:
            problem = f"annotation {keys.NODE_ANNOTATION} does not name node {pod.node_name}"
        else:
            try:
                # Volcano writes an entry per container that claims cards, this scheduler one per regular container.
                aligned = realign(decode_assignments(value), self._claimants(pod))
            except CodecError as error:
                problem = f"annotation {keys.ALLOCATED_ANNOTATION}: {error}"
            else:
                if aligned is not None and any(aligned):
                    entries = _assignments(aligned)
                    kinds = [ContainerKind.APP] * len(entries)
                    return Usage(charges(kinds, entries), vendors=makers(entries))
                problem = f"annotation {keys.ALLOCATED_ANNOTATION} does not match the containers that claim cards"
        return Usage({}, self._unreadable(pod), problem) if pod.started else NO_USAGE

    def announced_node(self, pod: Pod) -> str:
        """Return none: what is written on a pod before its binding is not relied upon."""
        del pod
        return ""

    def annotations(self, placement: Placement, unix_time: float, pod: Pod | None = None) -> dict[str, str]:
        """Return what the Binding writes on the pod for the device plugin; nothing for a pod without cards."""
        del pod  # every key that the node side reads is written
        if not placement.vendors():
            return {}
        value = encode_assignments(
            [
                [AssignedDevice(a.uuid, keys.VENDOR, a.amounts[self.memory], a.amounts[self.cores]) for a in container]
                for container in placement.containers
            ]
        )
        return {
            keys.NODE_ANNOTATION: placement.node,
            keys.TIME_ANNOTATION: str(int(unix_time)),
            keys.ALLOCATED_ANNOTATION: value,
            keys.TO_ALLOCATE_ANNOTATION: value,
            keys.BIND_PHASE_ANNOTATION: keys.PHASE_ALLOCATING,
            keys.BIND_TIME_ANNOTATION: str(int(unix_time)),
        }

    def labels(self, placement: Placement) -> dict[str, str]:
        """Return no labels: the plugin finds pods by annotation."""
        del placement
        return {}

    def _claimants(self, pod: Pod) -> list[bool]:
        return [asks_for_cards(container, self.names) for container in regular_containers(pod)]

    def _unreadable(self, pod: Pod) -> PodClaims:
        try:
            return self.claims(pod)
        except ClaimError:
            # Nobody can say how much: the pod may use a whole card wherever it sits.
            return tuple(
                ContainerClaims(
                    container.name, container.kind, _WHOLE_CARD if asks_for_cards(container, self.names) else ()
                )
                for container in regular_containers(pod)
            )


_remembered = RememberedDevices()


def _registered(value: str) -> tuple[Device, ...]:
    registered = decode_register(value)
    if len(registered) > _MOST_CARDS:
        raise CodecError(f"{len(registered)} cards are more than a node has (at most {_MOST_CARDS})")
    # The mode of the last card is the node's (Volcano knows modes of nodes only); any but MIG is hami-core.
    whole_node = bool(registered) and registered[-1].mode == keys.MODE_MIG
    seen: dict[str, Device] = {}
    for index, card in enumerate(registered):
        if not card.uuid or set(";[").intersection(card.uuid):
            raise CodecError(f"card {card.uuid!r} has no id, or a separator of the assignment format in it")
        if card.uuid in seen:
            raise CodecError(f"card {card.uuid} is listed twice")
        mode = keys.MODE_MIG if whole_node or card.mode == keys.MODE_MIG else keys.MODE_CORE
        total = (card.count, card.memory, _CORES)
        seen[card.uuid] = Device(card.uuid, keys.VENDOR, card.type, total, index, 0, mode, card.health)
    return tuple(seen.values())


def _assignments(aligned: Sequence[Sequence[AssignedDevice]]) -> list[list[Assignment]]:
    return [
        [Assignment(keys.VENDOR, card.uuid.partition("[")[0], (1, card.memory, card.cores)) for card in container]
        for container in aligned
    ]


@lru_cache(maxsize=8)
def _device_resources(names: VolcanoNames) -> Mapping[str, DeviceResource]:
    resources = {
        names.count: DeviceResource(keys.VENDOR, 0),
        names.memory: DeviceResource(keys.VENDOR, 1),
        names.cores: DeviceResource(keys.VENDOR, 2),
    }
    if names.memory_percent:
        resources[names.memory_percent] = DeviceResource(keys.VENDOR, 1, percent=True)
    return resources

"""Reservations of pods on nodes, the inputs that assumed placements were decided on, and nominations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.kube import HostPort, Pod, PodSpec
from vgpu_scheduler.model import (
    NO_USAGE,
    NO_VOLUMES,
    Amounts,
    ClusterEvent,
    Device,
    Placement,
    PodClaims,
    Usage,
    Uses,
    VolumePlan,
    charges,
    kinds_of,
    peak,
)
from vgpu_scheduler.model.placement import Assignment
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable


class Phase(Enum):
    """How certain a reservation is."""

    ASSUMED = "assumed"
    """Decided here, not yet seen in the API."""
    IN_DOUBT = "in doubt"
    """Decided here; no Binding call is in flight any more, and its outcome is unknown."""
    CONFIRMED = "confirmed"
    """The API server confirmed the Binding; no observation shows it yet."""
    BOUND = "bound"
    """An observation shows the pod on the node."""
    HOLD = "hold"
    """Room that is kept for a pod that is not there yet; see :class:`Hold`."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a pod holds on a node: devices and Kubernetes resources.

    Attributes
    ----------
    uid, namespace, name
        The pod.
    uses
        Its device usage, by dialect.
    widened
        Whether the charges are the maximum of several allocations seen while the pod ran. A rebuild from the API sees
        only the allocation in its annotations now, and comes to less.
    placement
        The decided placement, for the check before binding; kept until an observation shows the pod bound.
    ports
        The host ports that the pod takes.
    pods
        The number of pods it counts as: 0 for a hold while a victim still counts in its place.
    quota_uses
        For a hold, the usage that quotas count: ``uses`` minus what victims of the same namespace still hold. None
        for all other reservations, whose ``uses`` quotas count.
    """

    uid: str
    namespace: str
    name: str
    node: str
    phase: Phase
    uses: Uses
    requests: Mapping[str, int]
    placement: Placement | None = None
    widened: bool = False
    ports: tuple[HostPort, ...] = ()
    pods: int = 1
    quota_uses: Uses | None = None

    @classmethod
    def of(
        cls,
        pod: Pod,
        node: str,
        phase: Phase,
        uses: Uses,
        requests: Mapping[str, int],
        placement: Placement | None = None,
        *,
        widened: bool = False,
    ) -> Reservation:
        """Return a reservation for a pod, host ports included."""
        who, ports = (pod.uid, pod.namespace, pod.name), pod.spec.host_ports
        return cls(*who, node, phase, uses, requests, placement, widened, ports)

    @property
    def counted_uses(self) -> Uses:
        """The device usage that quotas count."""
        return self.uses if self.quota_uses is None else self.quota_uses

    @property
    def pod(self) -> str:
        """``namespace/name`` of the pod."""
        return f"{self.namespace}/{self.name}"

    @property
    def volumes(self) -> VolumePlan:
        """The decisions about the claims of the pod, while the placement is assumed."""
        return self.placement.volumes if self.placement else NO_VOLUMES

    def charges_the_same(self, other: Reservation) -> bool:
        """Tell whether another reservation is charged the same, so that it can replace this one without a version."""
        return (
            self.node == other.node
            and self.uses == other.uses
            and self.requests == other.requests
            and self.ports == other.ports
        )

    @property
    def uses_devices(self) -> bool:
        """Whether the pod holds anything of any device."""
        return any(usage.charges or usage.unreadable for usage in self.uses.values())

    @property
    def closes_cards(self) -> bool:
        """Whether the cards of the pod are unknown, so that it is charged on every card that it may be on."""
        return any(usage.unreadable for usage in self.uses.values())

    def device_charges(self, dialect: str, devices: tuple[Device, ...]) -> dict[str, Amounts]:
        """Return what the pod is charged on each of the node's devices of a dialect; UUIDs not listed are left out.

        Claims that cannot be attributed to a card that is listed are charged on every card of their vendor.
        """
        usage = self.uses.get(dialect)
        if usage is None:
            return {}
        listed = {device.uuid: device for device in devices}
        result = {uuid: amounts for uuid, amounts in usage.charges.items() if uuid in listed}
        unlisted = {id(claims): claims for uuid, claims in usage.unlisted.items() if uuid not in listed}
        for claims in (usage.unreadable, *unlisted.values()):
            for device in devices if claims else ():
                blanket = blanket_charge(claims, device)
                if blanket:
                    result[device.uuid] = peak(result[device.uuid], blanket) if device.uuid in result else blanket
        return result

    def charges_on(self, dialect: str, matrix: DeviceMatrix, row: int) -> Sequence[tuple[int, Amounts]]:
        """Return the pod's charges on the devices of a node row, with their numbers in the matrix."""
        if dialect not in self.uses:
            return ()
        numbers = matrix.numbers_on(row)
        return [(numbers[uuid], amounts) for uuid, amounts in self.device_charges(dialect, matrix.devices(row)).items()]


def blanket_charge(claims: PodClaims, device: Device) -> Amounts | None:
    """Return the amounts on ``device`` if all claims on its vendor were placed there; None if there are none."""
    containers = [
        [
            Assignment(claim.vendor, device.uuid, claim.on(device.total))
            for claim in container.claims
            if claim.vendor == device.vendor
        ]
        for container in claims
    ]
    return charges(kinds_of(claims), containers).get(device.uuid)


def widen(old: Uses, new: Uses) -> Uses:
    """Return the maximum of two observed usages of a running pod, device by device."""
    return {dialect: _widen(old.get(dialect, NO_USAGE), new.get(dialect, NO_USAGE)) for dialect in {**old, **new}}


def _widen(old: Usage, new: Usage) -> Usage:
    merged = dict(new.charges)
    for uuid, amounts in old.charges.items():
        merged[uuid] = peak(merged[uuid], amounts) if uuid in merged else amounts
    unlisted = {**old.unlisted, **new.unlisted}
    vendors = {**old.vendors, **new.vendors}
    return Usage(merged, new.unreadable or old.unreadable, new.problem, unlisted, vendors)


_Basis = tuple[PodSpec, Mapping[str, str], int, int]
"""The inputs of a decision: pod spec, annotations, static version of the node row, number of the node's device list."""


class DecisionInputs:
    """The pods with an assumed placement, each with the inputs of its decision.

    Parameters
    ----------
    nodes, matrices
        The nodes, and their devices by dialect; only read.
    """

    def __init__(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> None:
        self._nodes = nodes
        self._matrices = matrices
        self._bases: dict[str, _Basis] = {}
        self._device_lists: dict[str, int] = {}
        self._lists = 0
        """Counts the device lists of all nodes, so that a recreated node never reuses a number."""

    def note(self, pod: Pod, node: str) -> None:
        """Note that a placement is valid for the pod and the node as they are now."""
        self._bases[pod.uid] = self._basis(pod, node)

    def drop(self, uid: str) -> None:
        """Forget a pod that is no longer assumed."""
        self._bases.pop(uid, None)

    def devices_listed(self, node: str) -> None:
        """Note that the list of devices of a node has changed."""
        self._lists += 1
        self._device_lists[node] = self._lists

    def node_went(self, node: str) -> None:
        """Forget a node that is gone; assumptions made on its device list become invalid."""
        self._device_lists.pop(node, None)

    def holds(self, reservation: Reservation, pod: Pod) -> bool:
        """Tell whether an assumed placement is still valid; see :meth:`State.unchanged_since_assumed`."""
        row = self._nodes.row(reservation.node)
        if row is None or self._bases.get(reservation.uid) != self._basis(pod, reservation.node):
            return False
        for devices in self._matrices.values():
            if devices.inconsistent(row):
                return False  # a pod's place on one of the node's cards is unknown
            if devices.over_capacity(row):
                return False
        if self._nodes.ports.contested(row, reservation.ports):
            return False
        return not self._over_allocatable(row, reservation.requests)

    def _basis(self, pod: Pod, node: str) -> _Basis:
        row = self._nodes.row(node)
        version = -1 if row is None else int(self._nodes.static_version[row])
        return (pod.spec, pod.annotations, version, self._device_lists.get(node, 0))

    def _over_allocatable(self, row: int, requests: Mapping[str, int]) -> bool:
        used, allocatable, columns = self._nodes.used, self._nodes.allocatable, self._nodes.resources.columns
        known = (columns[name] for name in ("pods", *requests) if name in columns)
        return any(used[row, column] > allocatable[row, column] for column in known)


_FREED = ClusterEvent.ASSIGNED_POD_DELETE | ClusterEvent.ASSIGNED_POD_CHANGE | ClusterEvent.DEVICE_FREED


class Nominations:
    """The pods that are not bound and name a node in ``status.nominatedNodeName``."""

    __slots__ = ("_node_of", "_on_node")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the nodes that pods are nominated to, sorted."""
        return iter(sorted(self._on_node))

    def on(self, node: str) -> frozenset[str]:
        """Return the UIDs of the pods that are nominated to a node."""
        return frozenset(self._on_node.get(node, ()))

    def observe(self, pod: Pod) -> ClusterEvent:
        """Take in a pod; return the cluster event if it is no longer nominated to the same node."""
        node = "" if pod.node_name or pod.terminal else pod.nominated_node_name
        if node == self._node_of.get(pod.uid, ""):
            return ClusterEvent.NONE
        event = self.remove(pod.uid)
        if node:
            self._node_of[pod.uid] = node
            self._on_node.setdefault(node, set()).add(pod.uid)
        return event

    def remove(self, uid: str) -> ClusterEvent:
        """Take in that a pod is gone; return the cluster event if it was nominated."""
        node = self._node_of.pop(uid, "")
        if not node:
            return ClusterEvent.NONE
        self._on_node[node].discard(uid)
        if not self._on_node[node]:
            del self._on_node[node]
        return _FREED

    def placed(self, uid: str) -> ClusterEvent:
        """Return the cluster event of placing a pod, which no longer counts on the node that it is nominated to."""
        return _FREED if uid in self._node_of else ClusterEvent.NONE

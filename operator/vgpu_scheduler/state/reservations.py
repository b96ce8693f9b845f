"""What a pod holds on a node, or keeps free of it: reservations, what assumed ones rest on, and nominations."""

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

__all__ = ["Assumptions", "Nominations"]


class Phase(Enum):
    """How sure a reservation is."""

    ASSUMED = "assumed"
    """Decided here, not yet seen in the API."""
    IN_DOUBT = "in doubt"
    """Decided here, and its Binding can no longer come; nobody can tell whether it has."""
    CONFIRMED = "confirmed"
    """The API answered that the pod is bound; no observation shows it yet."""
    BOUND = "bound"
    """An observation shows the pod on the node."""
    KEPT = "kept"
    """Room that is kept for a pod that is not there yet; see :class:`RoomReservation`."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod's hold on a node: devices and Kubernetes resources.

    Attributes
    ----------
    uses
        What it uses of devices, by dialect.
    widened
        The charges are the maximum of several allocations seen while the pod ran, not the one in its annotations now;
        a rebuild from the API would come to less.
    placement
        Kept until an observation shows the pod bound, for the re-check before binding.
    ports
        The host ports that the pod takes.
    pods
        As how many pods it counts: 0 for room that is kept while another pod is still there in its place.
    quota_uses
        Of room that is kept, what quotas count: ``uses`` without what pods of the same namespace, which have to leave,
        still hold there. None for every other reservation, of which quotas count ``uses``.
    """

    uid: str
    pod: str
    node: str
    phase: Phase
    uses: Uses
    requests: Mapping[str, int]
    placement: Placement | None = None
    widened: bool = False
    ports: tuple[HostPort, ...] = ()
    pods: int = 1
    quota_uses: Uses | None = None

    @property
    def counted_uses(self) -> Uses:
        """What quotas count of it."""
        return self.uses if self.quota_uses is None else self.quota_uses

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.pod.partition("/")[0]

    @property
    def volumes(self) -> VolumePlan:
        """What was decided about the claims of the pod, while the placement is assumed."""
        return self.placement.volumes if self.placement else NO_VOLUMES

    def charges_the_same(self, other: Reservation) -> bool:
        """Tell whether another one is charged the same, so that no version moves where it takes the place of this."""
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
        """Whether nobody can tell which cards the pod is on, so that it is charged on all that it may be on."""
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
        """Return what the pod is charged on the devices that its node's row lists, by their numbers in the matrix."""
        if dialect not in self.uses:
            return ()
        numbers = matrix.numbers_on(row)
        return [(numbers[uuid], amounts) for uuid, amounts in self.device_charges(dialect, matrix.devices(row)).items()]


def blanket_charge(claims: PodClaims, device: Device) -> Amounts | None:
    """Return what the pod would use of ``device`` if all its claims on that vendor sat there; None if it has none."""
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
    """Return the larger of what a running pod was seen to use, device by device."""
    return {dialect: _widen(old.get(dialect, NO_USAGE), new.get(dialect, NO_USAGE)) for dialect in {**old, **new}}


def _widen(old: Usage, new: Usage) -> Usage:
    merged = dict(new.charges)
    for uuid, amounts in old.charges.items():
        merged[uuid] = peak(merged[uuid], amounts) if uuid in merged else amounts
    unlisted = {**old.unlisted, **new.unlisted}
    vendors = {**old.vendors, **new.vendors}
    return Usage(merged, new.unreadable or old.unreadable, new.problem, unlisted, vendors)


_Basis = tuple[PodSpec, Mapping[str, str], int, int]
"""What a pod asks for (spec and annotations), the version of its node's columns, the number of its list of devices."""


class Assumptions:
    """The pods with an assumed placement, each with what it was decided on.

    Parameters
    ----------
    nodes, matrices
        What is known of the nodes, and of their devices by dialect; it is only read.
    """

    def __init__(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> None:
        self._nodes = nodes
        self._matrices = matrices
        self._bases: dict[str, _Basis] = {}
        self._device_lists: dict[str, int] = {}
        self._lists = 0
        """Counts the lists of all nodes: one of a node that is made anew never has the number of an earlier one."""

    def note(self, pod: Pod, node: str) -> None:
        """Note that a placement on a node holds for the pod and the node as they are now."""
        self._bases[pod.uid] = self._basis(pod, node)

    def drop(self, uid: str) -> None:
        """Forget a pod that is assumed no more."""
        self._bases.pop(uid, None)

    def devices_listed(self, node: str) -> None:
        """Note that the list of devices of a node has changed."""
        self._lists += 1
        self._device_lists[node] = self._lists

    def node_went(self, node: str) -> None:
        """Forget a node that is gone; what rests on its list of devices does not hold any more."""
        self._device_lists.pop(node, None)

    def holds(self, held: Reservation, pod: Pod) -> bool:
        """Tell whether an assumed placement needs no second look; see :meth:`State.unchanged_since_assumed`."""
        row = self._nodes.row(held.node)
        if row is None or self._bases.get(held.uid) != self._basis(pod, held.node):
            return False
        for devices in self._matrices.values():
            if devices.unexplained(row):
                return False  # somebody may be anywhere on a card of the node
            if devices.over_capacity(row):
                return False
        if self._nodes.ports.contested(row, held.ports):
            return False
        return not self._over_allocatable(row, held.requests)

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
        """Yield the nodes that pods are nominated to, by name."""
        return iter(sorted(self._on_node))

    def on(self, node: str) -> frozenset[str]:
        """Return the UIDs of the pods that are nominated to a node."""
        return frozenset(self._on_node.get(node, ()))

    def observe(self, pod: Pod) -> ClusterEvent:
        """Take in a pod; return what it may help that it is no longer nominated where it was."""
        node = "" if pod.node_name or pod.terminal else pod.nominated_node_name
        if node == self._node_of.get(pod.uid, ""):
            return ClusterEvent.NONE
        event = self.remove(pod.uid)
        if node:
            self._node_of[pod.uid] = node
            self._on_node.setdefault(node, set()).add(pod.uid)
        return event

    def remove(self, uid: str) -> ClusterEvent:
        """Take in that a pod is gone; return what that may help."""
        node = self._node_of.pop(uid, "")
        if not node:
            return ClusterEvent.NONE
        self._on_node[node].discard(uid)
        if not self._on_node[node]:
            del self._on_node[node]
        return _FREED

    def placed(self, uid: str) -> ClusterEvent:
        """Return what it may help that a pod was placed: where it is nominated it does not count any more."""
        return _FREED if uid in self._node_of else ClusterEvent.NONE

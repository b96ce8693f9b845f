"""Who holds what: a reservation is booked in every index in one call, and given back in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Hint
from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reservations import Phase, Reservation
from vgpu_scheduler.state.volumes import Volumes

__all__ = ["Books", "Indexes"]


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is known of who uses what, each part from its own side; all of it follows from the reservations.

    Attributes
    ----------
    nodes
        Requests and host ports by node.
    matrices
        Amounts of devices by dialect.
    quotas
        Amounts of devices by namespace.
    interpod
        Counts of the pods that inter-pod terms are about.
    volumes
        Claims, disks and attached volumes, and what was decided about claims.
    """

    nodes: NodeTable
    matrices: Mapping[str, DeviceMatrix]
    quotas: QuotaUsage
    interpod: InterPodCounts
    volumes: Volumes

    def copy(self) -> Indexes:
        """Return an independent copy."""
        matrices = {dialect: matrix.copy() for dialect, matrix in self.matrices.items()}
        return Indexes(self.nodes.copy(), matrices, self.quotas.copy(), self.interpod.copy(), self.volumes.copy())


class Books:
    """The reservations, by pod and by node.

    Parameters
    ----------
    indexes
        What every reservation is booked in.
    pod_of
        Returns a pod by its UID; asked for pods that hold something.
    """

    def __init__(self, indexes: Indexes, pod_of: Callable[[str], Pod]) -> None:
        self._indexes = indexes
        self._pod_of = pod_of
        self._reservations: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._reservations

    def __getitem__(self, uid: str) -> Reservation:
        return self._reservations[uid]

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    def get(self, uid: str) -> Reservation | None:
        """Return what a pod holds, or None."""
        return self._reservations.get(uid)

    def on(self, node: str) -> Iterable[Reservation]:
        """Return the reservations on a node, oldest first."""
        return (self._reservations[uid] for uid in self._on_node.get(node, ()))

    def hold(self, reservation: Reservation) -> None:
        """Book a reservation."""
        self._reservations[reservation.uid] = reservation
        self._on_node.setdefault(reservation.node, {})[reservation.uid] = None
        at = self._indexes
        at.quotas.charge(reservation.namespace, reservation.uses, 1, reservation.node)
        row = at.nodes.row(reservation.node)
        self._count(reservation)
        if row is not None:
            at.nodes.charge(row, reservation.requests, ports=reservation.ports)
            self._charge_devices(row, reservation, 1)

    def take_off(self, uid: str) -> Reservation:
        """Take a reservation off the books, without a word about whom that may help."""
        reservation = self._reservations.pop(uid)
        on_node = self._on_node[reservation.node]
        del on_node[uid]
        if not on_node:
            del self._on_node[reservation.node]
        at = self._indexes
        at.quotas.charge(reservation.namespace, reservation.uses, -1, reservation.node)
        row = at.nodes.row(reservation.node)
        self._uncount(reservation)
        if row is not None:
            at.nodes.discharge(row, reservation.requests, ports=reservation.ports)
            self._charge_devices(row, reservation, -1)
        return reservation

    def release(self, uid: str) -> Hint:
        """Give back what a pod holds, if anything; return what that may help."""
        if uid not in self._reservations:
            return Hint.NONE
        volumes = Hint.VOLUMES if self._indexes.volumes.uses_any(uid) else Hint.NONE
        reservation = self.take_off(uid)
        uses_devices = reservation.uses_devices
        if uses_devices:
            self._indexes.quotas.released(reservation.namespace)
        if self._indexes.nodes.row(reservation.node) is None:
            return volumes
        return volumes | Hint.AFFINITY | Hint.RESOURCES | (Hint.DEVICE_FREED if uses_devices else Hint.NONE)

    def restate(self, reservation: Reservation) -> None:
        """Replace a reservation by one that is charged the same, so that no version moves."""
        self._reservations[reservation.uid] = reservation

    def recount(self, held: Reservation) -> Hint:
        """Have a pod counted anew of which labels, terms or volumes changed."""
        self._uncount(held)
        self._count(held)
        return Hint.AFFINITY

    @contextmanager
    def uncounted(self, uid: str) -> Iterator[None]:
        """Leave a pod that holds something out of what depends on more than its node, for the time of a question."""
        held = self._reservations[uid]
        self._uncount(held)
        try:
            yield
        finally:
            self._count(held)

    def _count(self, held: Reservation) -> None:
        """Count a pod in what depends on more than its node."""
        pod = self._pod_of(held.uid)
        self._indexes.interpod.add(pod, held.node, self._indexes.nodes.row(held.node))
        self._indexes.volumes.add(pod, held.node, held.volumes)

    def _uncount(self, held: Reservation) -> None:
        self._indexes.interpod.remove(held.namespace, held.uid, self._indexes.nodes.row(held.node))
        self._indexes.volumes.remove(held.uid)

    def node_came(self, node: str, row: int) -> None:
        """Book what is held on a node that was not there, its devices aside: they are listed next."""
        for reservation in self.on(node):
            self._indexes.nodes.charge(row, reservation.requests, ports=reservation.ports)
        self._indexes.volumes.node_came(node, row)
        self._indexes.interpod.node_came(row, ((held.namespace, held.uid) for held in self.on(node)))

    def devices_replaced(self, dialect: str, node: str, row: int) -> None:
        """Book what is held of the devices that a node lists from now on."""
        for reservation in self.on(node):
            self._charge(dialect, row, reservation, 1)

    def doubt_confirmations(self) -> None:
        """Let pods tell from now on where they are: what the API server confirmed may have been undone."""
        for uid, held in self._reservations.items():
            if held.phase is Phase.CONFIRMED:
                self._reservations[uid] = replace(held, phase=Phase.BOUND)

    def copy(self, indexes: Indexes, pod_of: Callable[[str], Pod]) -> Books:
        """Return an independent copy over copies of the indexes."""
        twin = Books(indexes, pod_of)
        twin._reservations = dict(self._reservations)
        twin._on_node = {name: dict(uids) for name, uids in self._on_node.items()}
        return twin

    def _charge_devices(self, row: int, reservation: Reservation, sign: int) -> None:
        for dialect in reservation.uses:
            self._charge(dialect, row, reservation, sign)

    def _charge(self, dialect: str, row: int, reservation: Reservation, sign: int) -> None:
        """Add (``sign`` = 1) or give back (-1) what a reservation holds of the devices of one dialect."""
        matrix = self._indexes.matrices[dialect]
        for uuid, amounts in reservation.device_charges(dialect, matrix.devices(row)).items():
            device = matrix.position(row, uuid)
            assert device is not None
            matrix.charge(device, amounts, sign)

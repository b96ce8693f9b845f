"""The ledger of reservations: one call books a reservation in every index, and one releases it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, PendingEvents
from vgpu_scheduler.state.holds import HoldLedger
from vgpu_scheduler.state.reservations import Phase, Reservation
from vgpu_scheduler.state.usage_books import UsageBooks

_NONE: dict[str, int] = {}


class ReservationLedger:
    """The reservations, by pod and by node.

    Parameters
    ----------
    books
        The books in which every reservation is booked.
    pod_of
        Returns a pod with a reservation by its UID.
    pending_events
        Collects the namespaces in which devices were given back for good.
    """

    def __init__(self, books: UsageBooks, pod_of: Callable[[str], Pod], pending_events: PendingEvents) -> None:
        self._books = books
        self._pod_of = pod_of
        self._pending_events = pending_events
        self._reservations: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._starting: dict[str, dict[str, int]] = {}
        """By node, the pods no longer assumed and not yet started, with the number of their last change, ascending."""
        self._changes = 0
        self.hold_ledger = HoldLedger(books, self._reservations, pending_events, self._charge_devices, pod_of)
        self.closing: dict[str, None] = {}
        """The UIDs of the pods whose cards are unknown."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._reservations

    def __getitem__(self, uid: str) -> Reservation:
        return self._reservations[uid]

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    def get(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod, or None."""
        return self._reservations.get(uid)

    def on(self, node: str) -> Iterable[Reservation]:
        """Return the reservations on a node in arbitrary order: rebooking moves one to the end."""
        return (self._reservations[uid] for uid in self._on_node.get(node, ()))

    def starting(self, node: str) -> dict[str, int]:
        """Return the pods on a node that are no longer assumed and not yet started, as last observed.

        Maps each UID to the number of its last change, in ascending order; numbers are never reused.
        """
        return self._starting.get(node, _NONE)

    def note_change(self, uid: str) -> None:
        """Note that a pod with a reservation, or the phase of the reservation, has changed."""
        reservation = self._reservations[uid]
        there = self._starting.setdefault(reservation.node, {})
        there.pop(uid, None)
        if reservation.phase is not Phase.ASSUMED and not self._pod_of(uid).started:
            self._changes += 1
            there[uid] = self._changes

    def book(self, reservation: Reservation) -> ClusterEvent:
        """Book a reservation; return the cluster event for pods that may want to be near the pod."""
        self._reservations[reservation.uid] = reservation
        self._on_node.setdefault(reservation.node, {})[reservation.uid] = None
        if reservation.phase is not Phase.ASSUMED:
            self.note_change(reservation.uid)
        if reservation.closes_cards:
            self.closing[reservation.uid] = None
        return self._book(reservation, 1)

    def take_off(self, uid: str) -> ClusterEvent:
        """Take a reservation off the books; return the cluster event for pods with inter-pod terms."""
        reservation = self._reservations.pop(uid)
        self.closing.pop(uid, None)
        on_node = self._on_node[reservation.node]
        del on_node[uid]
        starting = self._starting.get(reservation.node)
        if starting is not None:
            starting.pop(uid, None)
        if not on_node:
            del self._on_node[reservation.node]
            self._starting.pop(reservation.node, None)
        return self._book(reservation, -1)

    def _book(self, reservation: Reservation, sign: int) -> ClusterEvent:
        """Charge a reservation in every index (``sign`` = 1), or give it back (-1); return the cluster event."""
        at = self._books
        at.quota_usage.charge(reservation.namespace, reservation.counted_uses, sign, reservation.node)
        row = at.nodes.row(reservation.node)
        event = self._count(reservation) if sign > 0 else self._uncount(reservation)
        if row is not None:
            at.nodes.charge(row, reservation.requests, ports=reservation.ports, sign=sign)
            self._charge_devices(row, reservation, sign)
        self.hold_ledger.follow(reservation.uid)
        return event

    def release(self, uid: str) -> ClusterEvent:
        """Release the reservation of a pod, if any; return the cluster event."""
        if uid not in self._reservations:
            return ClusterEvent.NONE
        volumes = ClusterEvent.STORAGE if self._books.volumes.uses_any(uid) else ClusterEvent.NONE
        reservation = self._reservations[uid]
        counted = self.take_off(uid)
        uses_devices = reservation.uses_devices
        if uses_devices:
            self._pending_events.quota_freed.add(reservation.namespace)
        if self._books.nodes.row(reservation.node) is None:
            return volumes
        return (
            volumes
            | counted
            | ClusterEvent.ASSIGNED_POD_DELETE
            | (ClusterEvent.DEVICE_FREED if uses_devices else ClusterEvent.NONE)
        )

    def restate(self, reservation: Reservation) -> None:
        """Replace a reservation by one that is charged the same, so that no usage version changes."""
        if self._reservations[reservation.uid].phase is Phase.ASSUMED:
            self.note_holder(reservation)
        self._reservations[reservation.uid] = reservation
        self.note_change(reservation.uid)

    def note_holder(self, reservation: Reservation) -> None:
        """Note a change of a pod that matters to preemption, although its charges are the same."""
        row = self._books.nodes.row(reservation.node)
        if row is not None:
            self._books.nodes.note_holders(row)

    def recount(self, reservation: Reservation) -> ClusterEvent:
        """Recount a pod whose labels, terms or volumes changed; return the cluster event."""
        pod, row = self._pod_of(reservation.uid), self._books.nodes.row(reservation.node)
        event = self._books.volumes.add(pod, reservation.node, reservation.volumes)
        interpod = self._books.interpod
        moved = (interpod.remove(reservation.namespace, reservation.uid, row), interpod.add(pod, reservation.node, row))
        return event | (ClusterEvent.ASSIGNED_POD_CHANGE if any(moved) else ClusterEvent.NONE)

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[None]:
        """Release the reservations of some pods inside the ``with`` block; missing and repeated UIDs are allowed."""
        taken = [reservation for uid in dict.fromkeys(uids) if (reservation := self._reservations.get(uid)) is not None]
        for reservation in taken:
            self.take_off(reservation.uid)
        try:
            yield
        finally:
            for reservation in reversed(taken):
                self.book(reservation)

    @contextmanager
    def having(self, reservation: Reservation) -> Iterator[None]:
        """Book a reservation inside the ``with`` block."""
        self.book(reservation)
        try:
            yield
        finally:
            self.take_off(reservation.uid)

    @contextmanager
    def counting_across_nodes(
        self, without: Sequence[Reservation] = (), added: Sequence[Reservation] = ()
    ) -> Iterator[None]:
        """Leave out or add reservations in the cross-node counters (quotas, terms, volumes) inside the ``with`` block.

        The usage of nodes and their versions stay unchanged.

        Parameters
        ----------
        without
            Booked reservations to leave out.
        added
            Reservations to count that are not booked.
        """
        for reservation in without:
            self._recount_elsewhere(reservation, -1)
        for reservation in added:
            self._recount_elsewhere(reservation, 1)
        try:
            yield
        finally:
            for reservation in reversed(added):
                self._recount_elsewhere(reservation, -1)
            for reservation in reversed(without):
                self._recount_elsewhere(reservation, 1)

    def _recount_elsewhere(self, reservation: Reservation, sign: int) -> None:
        self._books.quota_usage.charge(reservation.namespace, reservation.counted_uses, sign, reservation.node)
        if reservation.phase is Phase.HOLD:  # terms and volumes count only pods that are there
            self.hold_ledger.count_as_peer(reservation.uid, sign)
            return
        if sign > 0:
            self._count(reservation)
        else:
            self._uncount(reservation)

    def _count(self, reservation: Reservation) -> ClusterEvent:
        """Count a pod in the cross-node indexes: peers, volumes, inter-pod terms."""
        pod, row = self._pod_of(reservation.uid), self._books.nodes.row(reservation.node)
        if self._books.peers:
            self._books.peers.add(pod, reservation)
        event = self._books.volumes.add(pod, reservation.node, reservation.volumes)
        return event | (
            ClusterEvent.ASSIGNED_POD_CHANGE
            if self._books.interpod.add(pod, reservation.node, row)
            else ClusterEvent.NONE
        )

    def _uncount(self, reservation: Reservation) -> ClusterEvent:
        row = self._books.nodes.row(reservation.node)
        if self._books.peers:
            self._books.peers.remove(self._pod_of(reservation.uid))
        event = self._books.volumes.remove(reservation.uid)
        gone = self._books.interpod.remove(reservation.namespace, reservation.uid, row)
        return event | (ClusterEvent.ASSIGNED_POD_CHANGE if gone else ClusterEvent.NONE)

    def carried_out(self, reservation: Reservation) -> ClusterEvent:
        """Replace a reservation by one with the same charges whose volume plan has been carried out."""
        self.restate(reservation)
        return ClusterEvent.STORAGE | self._books.volumes.add(self._pod_of(reservation.uid), reservation.node)

    def use_volumes(self, node: str) -> bool:
        """Tell whether a pod on a node uses claims or disks."""
        return any(self._books.volumes.uses_any(reservation.uid) for reservation in self.on(node))

    def node_came(self, node: str, row: int) -> None:
        """Book the reservations on a node that was added, except their devices, which are listed next."""
        for reservation in self.on(node):
            self._books.nodes.charge(row, reservation.requests, ports=reservation.ports)
        for held in self.hold_ledger.on(node):
            self._books.nodes.charge(row, held.requests, held.pods, held.ports)
        self._books.volumes.node_came(node, row)
        self._books.interpod.node_came(row, ((reservation.namespace, reservation.uid) for reservation in self.on(node)))

    def devices_replaced(self, dialect: str, node: str, row: int) -> None:
        """Book the reservations on a node's new list of devices."""
        for reservation in (*self.on(node), *self.hold_ledger.on(node)):
            self._charge(dialect, row, reservation, 1)

    def correct(self, node: str, rebuilt: ReservationLedger) -> list[str]:
        """Replace wrong bookings on a node by those of a rebuild; return one sentence for each.

        Widened reservations are kept: they come from allocations that the objects no longer show.
        """
        wrong = []
        for reservation in list(self.on(node)):
            twin = rebuilt.get(reservation.uid)
            if reservation.widened or (
                twin is not None and (twin.node, twin.uses) == (reservation.node, reservation.uses)
            ):
                continue
            self.take_off(reservation.uid)
            if twin is None:
                wrong.append(f"pod {reservation.pod} is in the ledger, but holds nothing there")
            else:
                self.book(twin)
                wrong.append(f"pod {reservation.pod} is in the ledger with other amounts than it holds")
        for twin in rebuilt.on(node):
            if twin.uid not in self:
                self.book(twin)
                wrong.append(f"pod {twin.pod} is not in the ledger")
        return wrong

    def doubt_confirmations(self) -> None:
        """Treat confirmed reservations like bound ones, which follow observations: a restore may have undone them."""
        for uid, reservation in self._reservations.items():
            if reservation.phase is Phase.CONFIRMED:
                self._reservations[uid] = replace(reservation, phase=Phase.BOUND)

    def _charge_devices(self, row: int, reservation: Reservation, sign: int) -> None:
        for dialect in reservation.uses:
            self._charge(dialect, row, reservation, sign)

    def _charge(self, dialect: str, row: int, reservation: Reservation, sign: int) -> None:
        """Charge a reservation on the devices of one dialect (``sign`` = 1), or give it back (-1)."""
        matrix = self._books.matrices[dialect]
        for device, amounts in reservation.charges_on(dialect, matrix, row):
            matrix.charge(device, amounts, sign)

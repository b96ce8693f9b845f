"""Who holds what: a reservation is booked in every index in one call, and given back in one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, Hint, WakeSet
from vgpu_scheduler.state.holds import Hold, Holds, kept_now
from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reservations import Phase, Reservation
from vgpu_scheduler.state.volumes import Volumes

__all__ = ["Books", "Indexes", "Supposed"]


_NONE: dict[str, int] = {}


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


class Supposed(NamedTuple):
    """What is charged otherwise for the time of a question.

    Attributes
    ----------
    without
        What is charged, and is left out.
    beside
        What is not charged, and is counted.
    """

    without: list[Reservation]
    beside: list[Reservation]


class Books:
    """The reservations, by pod and by node.

    Parameters
    ----------
    indexes
        What every reservation is booked in.
    pod_of
        Returns a pod by its UID; asked for pods that hold something.
    wakes
        Where it is noted in which namespaces devices were given back for good.
    """

    def __init__(self, indexes: Indexes, pod_of: Callable[[str], Pod], wakes: WakeSet) -> None:
        self._indexes = indexes
        self._pod_of = pod_of
        self._wakes = wakes
        self._reservations: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._starting: dict[str, dict[str, int]] = {}
        """By node, the pods that hold something beyond a decision and have not started, by when they changed last."""
        self._changes = 0
        self.holds = Holds()
        """Room that is kept for pods that are not there yet."""
        self.closing: dict[str, None] = {}
        """The UIDs of the pods of which nobody can tell which cards they are on."""

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
        """Return the reservations on a node, in no order to rely upon: who is booked anew comes last."""
        return (self._reservations[uid] for uid in self._on_node.get(node, ()))

    def starting(self, node: str) -> dict[str, int]:
        """Return the pods that hold something beyond a decision and have not started, as last observed.

        Each has the number of its last change; the pods are in the order of these numbers, which never come twice.
        """
        return self._starting.get(node, _NONE)

    def note_change(self, uid: str) -> None:
        """Note that a pod that holds something was observed anew, or how sure that is."""
        held = self._reservations[uid]
        there = self._starting.setdefault(held.node, {})
        there.pop(uid, None)
        if held.phase is not Phase.ASSUMED and not self._pod_of(uid).started:
            self._changes += 1
            there[uid] = self._changes

    def hold(self, reservation: Reservation) -> Hint:
        """Book a reservation; return what that may help: others may want to be near the pod."""
        self._reservations[reservation.uid] = reservation
        self._on_node.setdefault(reservation.node, {})[reservation.uid] = None
        if reservation.phase is not Phase.ASSUMED:
            self.note_change(reservation.uid)
        if reservation.closes_cards:
            self.closing[reservation.uid] = None
        at = self._indexes
        at.quotas.charge(reservation.namespace, reservation.uses, 1, reservation.node)
        row = at.nodes.row(reservation.node)
        hint = self._count(reservation)
        if row is not None:
            at.nodes.charge(row, reservation.requests, ports=reservation.ports)
            self._charge_devices(row, reservation, 1)
        self._keep_less_than(reservation.uid)
        return hint

    def take_off(self, uid: str) -> Hint:
        """Take a reservation off the books; return hints for pods with inter-pod terms that this may help."""
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
        at = self._indexes
        at.quotas.charge(reservation.namespace, reservation.uses, -1, reservation.node)
        row = at.nodes.row(reservation.node)
        hint = self._uncount(reservation)
        if row is not None:
            at.nodes.discharge(row, reservation.requests, ports=reservation.ports)
            self._charge_devices(row, reservation, -1)
        self._keep_less_than(uid)
        return hint

    def keep(self, hold: Hold) -> None:
        """Keep room for a pod that is not there yet; what was kept for it before is given back."""
        self.give_up(hold.uid)
        kept = self._kept_now(hold, {other.uid: self.holds.kept(other.uid) for other in self.holds.on(hold.node)})
        self.holds.add(hold, kept)
        self._charge_kept(kept, 1)

    def give_up(self, uid: str) -> Hint:
        """Keep no room for a pod any more; return what that may help."""
        if self.holds.get(uid) is None:
            return Hint.NONE
        kept = self.holds.kept(uid)
        self._charge_kept(kept, -1)
        self._keep_anew_on(self.holds.remove(uid).node)
        if kept.uses_devices:
            self._wakes.returned.add(kept.namespace)
        return Hint.RESOURCES | (Hint.DEVICE_FREED if kept.uses_devices else Hint.NONE)

    def _keep_less_than(self, uid: str) -> None:
        """Have what is kept follow what a pod holds that leaves for others."""
        if self.holds:
            holds = (self.holds.get(kept_for) for kept_for in self.holds.left_for(uid))
            for node in dict.fromkeys(hold.node for hold in holds if hold is not None):
                self._keep_anew_on(node)

    def _keep_anew_on(self, node: str) -> None:
        """Have what is kept on a node follow what is there now."""
        earlier: dict[str, Reservation] = {}
        for hold in self.holds.on(node):
            kept, before = self._kept_now(hold, earlier), self.holds.kept(hold.uid)
            earlier[hold.uid] = kept
            if kept != before:
                self._charge_kept(before, -1)
                self.holds.keep(hold.uid, kept)
                self._charge_kept(kept, 1)

    def supposing(self, node: str, gone: Sequence[Reservation], uid: str, priority: int) -> Supposed:
        """Return what is charged otherwise for a pod if some pods of a node were gone.

        Parameters
        ----------
        gone
            What is not in use there any more; what others leave for somebody is kept for that pod instead.
        uid, priority
            The pod that is asked about: its own room is open to it, and that which is kept for lower priorities.
        """
        without, beside = list(gone), list[Reservation]()
        absent = {held.uid for held in gone}
        earlier: dict[str, Reservation] = {}
        for hold in self.holds.on(node) if self.holds else ():
            kept = self.holds.kept(hold.uid)
            if hold.uid == uid or hold.priority < priority:
                without.append(kept)
                continue
            then = earlier[hold.uid] = self._kept_now(hold, earlier, absent)
            if then != kept:
                without.append(kept)
                beside.append(then)
        return Supposed(without, beside)

    def _kept_now(self, hold: Hold, earlier: Mapping[str, Reservation], absent: Collection[str] = ()) -> Reservation:
        """Return what has to be kept for a pod beside what is kept for those before it on its node."""
        row = self._indexes.nodes.row(hold.node)
        before = [(other, earlier[other.uid]) for other in self.holds.on(hold.node) if other.uid in earlier]
        sharing = [(other, kept) for other, kept in before if not other.leaving.isdisjoint(hold.leaving)]
        all_leaving = hold.leaving.union(*(other.leaving for other, _ in sharing))
        there = (self._reservations.get(uid) for uid in sorted(all_leaving.difference(absent)))
        leaving = [held for held in there if held is not None and held.node == hold.node]

        def charges(dialect: str, held: Reservation) -> Mapping[str, Amounts]:
            devices = () if row is None else self._indexes.matrices[dialect].devices(row)
            return held.device_charges(dialect, devices)

        return kept_now(hold, leaving, charges, [(other.claim, kept) for other, kept in sharing])

    def _charge_kept(self, kept: Reservation, sign: int) -> None:
        """Book room that is kept (``sign`` = 1), or give it back (-1)."""
        at, row = self._indexes, self._indexes.nodes.row(kept.node)
        at.quotas.charge(kept.namespace, kept.uses, sign, kept.node)
        if row is not None:
            charge = at.nodes.charge if sign > 0 else at.nodes.discharge
            charge(row, kept.requests, kept.pods, kept.ports)
            self._charge_devices(row, kept, sign)

    def release(self, uid: str) -> Hint:
        """Give back what a pod holds, if anything; return what that may help."""
        if uid not in self._reservations:
            return Hint.NONE
        volumes = Hint.VOLUMES if self._indexes.volumes.uses_any(uid) else Hint.NONE
        reservation = self._reservations[uid]
        counted = self.take_off(uid)
        uses_devices = reservation.uses_devices
        if uses_devices:
            self._wakes.returned.add(reservation.namespace)
        if self._indexes.nodes.row(reservation.node) is None:
            return volumes
        return volumes | counted | Hint.RESOURCES | (Hint.DEVICE_FREED if uses_devices else Hint.NONE)

    def restate(self, reservation: Reservation) -> None:
        """Replace a reservation by one that is charged the same, so that no version moves."""
        self._reservations[reservation.uid] = reservation
        self.note_change(reservation.uid)

    def recount(self, held: Reservation) -> Hint:
        """Have a pod counted anew of which labels, terms or volumes changed."""
        pod, row = self._pod_of(held.uid), self._indexes.nodes.row(held.node)
        hint = self._indexes.volumes.add(pod, held.node, held.volumes)
        interpod = self._indexes.interpod
        moved = (interpod.remove(held.namespace, held.uid, row), interpod.add(pod, held.node, row))
        return hint | (Hint.AFFINITY if any(moved) else Hint.NONE)

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[None]:
        """Release what some pods hold for the time of a question; pods that hold nothing may be named."""
        taken = [held for uid in uids if (held := self._reservations.get(uid)) is not None]
        for held in taken:
            self.take_off(held.uid)
        try:
            yield
        finally:
            for held in reversed(taken):
                self.hold(held)

    @contextmanager
    def having(self, reservation: Reservation) -> Iterator[None]:
        """Have a pod hold something for the time of a question."""
        self.hold(reservation)
        try:
            yield
        finally:
            self.take_off(reservation.uid)

    @contextmanager
    def counting(self, without: Sequence[Reservation] = (), beside: Sequence[Reservation] = ()) -> Iterator[None]:
        """Count other pods in what depends on more than one node (quotas, terms, volumes) for the time of a question.

        What is in use of nodes stays, and so do their versions.

        Parameters
        ----------
        without
            Reservations that are there, and are left out.
        beside
            Reservations that are not there, and are counted.
        """
        for held in without:
            self._recount_elsewhere(held, -1)
        for held in beside:
            self._recount_elsewhere(held, 1)
        try:
            yield
        finally:
            for held in reversed(beside):
                self._recount_elsewhere(held, -1)
            for held in reversed(without):
                self._recount_elsewhere(held, 1)

    def _recount_elsewhere(self, held: Reservation, sign: int) -> None:
        self._indexes.quotas.charge(held.namespace, held.uses, sign, held.node)
        if held.phase is Phase.HELD:
            return  # terms and volumes count pods that are there
        if sign > 0:
            self._count(held)
        else:
            self._uncount(held)

    def _count(self, held: Reservation) -> Hint:
        """Count a pod in what depends on more than its node."""
        pod, row = self._pod_of(held.uid), self._indexes.nodes.row(held.node)
        hint = self._indexes.volumes.add(pod, held.node, held.volumes)
        return hint | (Hint.AFFINITY if self._indexes.interpod.add(pod, held.node, row) else Hint.NONE)

    def _uncount(self, held: Reservation) -> Hint:
        row = self._indexes.nodes.row(held.node)
        hint = self._indexes.volumes.remove(held.uid)
        gone = self._indexes.interpod.remove(held.namespace, held.uid, row)
        return hint | (Hint.AFFINITY if gone else Hint.NONE)

    def carried_out(self, reservation: Reservation) -> Hint:
        """Replace a reservation by one that is charged the same and has no plan for volumes any more."""
        self.restate(reservation)
        return Hint.VOLUMES | self._indexes.volumes.add(self._pod_of(reservation.uid), reservation.node)

    def use_volumes(self, node: str) -> bool:
        """Tell whether a pod on a node uses claims or disks."""
        return any(self._indexes.volumes.uses_any(held.uid) for held in self.on(node))

    def node_came(self, node: str, row: int) -> None:
        """Book what is held on a node that was not there, its devices aside: they are listed next."""
        for reservation in self.on(node):
            self._indexes.nodes.charge(row, reservation.requests, ports=reservation.ports)
        for hold in self.holds.on(node):
            kept = self.holds.kept(hold.uid)
            self._indexes.nodes.charge(row, kept.requests, kept.pods, kept.ports)
        self._indexes.volumes.node_came(node, row)
        self._indexes.interpod.node_came(row, ((held.namespace, held.uid) for held in self.on(node)))

    def devices_replaced(self, dialect: str, node: str, row: int) -> None:
        """Book what is held of the devices that a node lists from now on."""
        holds = self.holds.on(node)
        for reservation in (*self.on(node), *(self.holds.kept(hold.uid) for hold in holds)):
            self._charge(dialect, row, reservation, 1)
        self._keep_anew_on(node)  # pods that leave may be charged on other devices

    def correct(self, node: str, rebuilt: Books) -> list[str]:
        """Book on a node what a rebuild from the objects has there; return what was wrong, a sentence each.

        What is widened is no mistake: it is known from allocations that nobody can see any more.
        """
        wrong = []
        for held in list(self.on(node)):
            twin = rebuilt.get(held.uid)
            if held.widened or (twin is not None and (twin.node, twin.uses) == (held.node, held.uses)):
                continue
            self.take_off(held.uid)
            if twin is None:
                wrong.append(f"pod {held.pod} was booked, but does not hold anything there")
            else:
                self.hold(twin)
                wrong.append(f"pod {held.pod} was booked with other amounts than it holds")
        for twin in rebuilt.on(node):
            if twin.uid not in self:
                self.hold(twin)
                wrong.append(f"pod {twin.pod} was not booked")
        return wrong

    def doubt_confirmations(self) -> None:
        """Let pods tell from now on where they are: what the API server confirmed may have been undone."""
        for uid, held in self._reservations.items():
            if held.phase is Phase.CONFIRMED:
                self._reservations[uid] = replace(held, phase=Phase.BOUND)

    def copy(self, indexes: Indexes, pod_of: Callable[[str], Pod], wakes: WakeSet) -> Books:
        """Return an independent copy over copies of the indexes."""
        twin = Books(indexes, pod_of, wakes)
        twin._reservations = dict(self._reservations)
        twin.closing = dict(self.closing)
        twin._on_node = {name: dict(uids) for name, uids in self._on_node.items()}
        twin._starting = {name: dict(uids) for name, uids in self._starting.items()}
        twin._changes = self._changes
        twin.holds = self.holds.copy()
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

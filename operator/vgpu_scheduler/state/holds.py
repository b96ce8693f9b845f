"""Room that is kept on a node for a pod that is not there yet, while its victims are still there.

The kept room is what the pod will hold minus what its victims still hold, per card and amount, and at least 0. It is
charged as if the pod were there and grows as victims leave: usage never exceeds capacity, and no other pod takes what
the victims free. Quotas count what the pod will hold minus what victims of its own namespace still hold, because
victims of other namespaces free nothing of that namespace's quota.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, ClusterEvent, PendingEvents, Usage, Uses
from vgpu_scheduler.state.reservations import Reservation
from vgpu_scheduler.state.usage_books import UsageBooks


@dataclass(frozen=True, slots=True)
class RoomReservation:
    """Room for a pod that is not bound yet.

    Attributes
    ----------
    reservation
        What the pod will hold: its phase is ``Phase.KEPT``.
    priority
        The priority of the pod: only pods of this priority or a lower one are kept away.
    leaving
        The UIDs of the victims; those without a reservation have left.
    """

    reservation: Reservation
    priority: int
    leaving: frozenset[str] = frozenset()

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.reservation.uid

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.reservation.node


class Holds:
    """The room that is kept, by pod and by node."""

    def __init__(self) -> None:
        self._holds: dict[str, RoomReservation] = {}
        self._kept: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._beneficiaries: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._holds)

    def __iter__(self) -> Iterator[RoomReservation]:
        return iter(self._holds.values())

    def get(self, uid: str) -> RoomReservation | None:
        """Return what is kept for a pod, or None."""
        return self._holds.get(uid)

    def kept(self, uid: str) -> Reservation:
        """Return the room that is charged now for a pod with a hold."""
        return self._kept[uid]

    def on(self, node: str) -> list[RoomReservation]:
        """Return the holds on a node, the highest priority first, then by the UIDs of the pods."""
        found = (self._holds[uid] for uid in self._on_node.get(node, ()))
        return sorted(found, key=lambda hold: (-hold.priority, hold.uid))

    def open_to(self, node: str, uid: str, priority: int) -> list[str]:
        """Return the pods whose kept room on a node a pod may use: itself, then pods of lower priority."""
        holds = self.on(node) if self._on_node else []
        own = [hold.uid for hold in holds if hold.uid == uid]
        return own + [hold.uid for hold in reversed(holds) if hold.uid != uid and hold.priority < priority]

    def nodes(self) -> Iterable[str]:
        """Return the names of the nodes with holds, sorted."""
        return sorted(self._on_node)

    def beneficiaries_of(self, uid: str) -> tuple[str, ...]:
        """Return the UIDs of the pods that a victim has to make room for."""
        return tuple(self._beneficiaries.get(uid, ()))

    def nodes_to_leave(self, uid: str) -> list[str]:
        """Return the names of the nodes where a pod is a victim, sorted."""
        return sorted({self._holds[kept_for].node for kept_for in self._beneficiaries.get(uid, ())})

    def add(self, hold: RoomReservation, kept: Reservation) -> None:
        """Add a hold with the room that is charged now; the pod must have none."""
        assert hold.uid not in self._holds, f"room is kept for pod {hold.reservation.pod} already"
        self._holds[hold.uid], self._kept[hold.uid] = hold, kept
        self._on_node.setdefault(hold.node, {})[hold.uid] = None
        for uid in sorted(hold.leaving):
            self._beneficiaries.setdefault(uid, {})[hold.uid] = None

    def keep(self, uid: str, kept: Reservation) -> None:
        """Replace the room that is charged for a pod."""
        self._kept[uid] = kept

    def remove(self, uid: str) -> RoomReservation:
        """Forget a hold."""
        hold = self._holds.pop(uid)
        del self._kept[uid]
        _discard(self._on_node, hold.node, uid)
        for leaving in hold.leaving:
            _discard(self._beneficiaries, leaving, uid)
        return hold


def _discard(sets: dict[str, dict[str, None]], key: str, uid: str) -> None:
    sets[key].pop(uid, None)
    if not sets[key]:
        del sets[key]


def kept_now(holds: Iterable[RoomReservation], there: Mapping[str, Reservation]) -> list[Reservation]:
    """Return the room to charge on a node for each hold while victims are still there.

    If a victim makes room for several holds, what it frees is credited to the first hold as far as that needs it, then
    to the next; never twice.

    Parameters
    ----------
    holds
        The holds, in the order in which they are credited.
    there
        The reservations of the victims that are still there, by UID; charges of pods on unknown cards do not count.
    """
    left = {uid: _Left(reservation) for uid, reservation in there.items()}
    of_quotas = {uid: _Left(reservation) for uid, reservation in there.items()}
    found = []
    for hold in holds:
        leaving = [uid for uid in sorted(hold.leaving) if uid in left and left[uid].node == hold.node]
        own = [of_quotas[uid] for uid in leaving if there[uid].namespace == hold.reservation.namespace]
        counted = _less_devices(hold.reservation.uses, own)
        found.append(replace(_kept(hold, [left[uid] for uid in leaving]), quota_uses=counted))
    return found


class _Left:
    """What a victim holds and is not yet credited to a hold."""

    def __init__(self, reservation: Reservation) -> None:
        self.node = reservation.node
        self.requests = dict(reservation.requests)
        self.ports = set(reservation.ports)
        self.pods = reservation.pods
        self.uses = {dialect: dict(usage.charges) for dialect, usage in reservation.uses.items()}

    def take(self, amounts: dict[str, int], name: str) -> None:
        """Credit what is left of a resource to an amount that is needed."""
        taken = min(amounts[name], self.requests.get(name, 0))
        if taken > 0:
            amounts[name] -= taken
            self.requests[name] -= taken

    def take_devices(self, dialect: str, charges: dict[str, Amounts]) -> None:
        """Credit what is left of the devices to the amounts that are needed of them."""
        mine = self.uses.get(dialect, {})
        for uuid in mine.keys() & charges.keys():
            needed, has = charges[uuid], mine[uuid] + (0,) * (len(charges[uuid]) - len(mine[uuid]))
            charges[uuid] = tuple(max(need - own, 0) for need, own in zip(needed, has, strict=False))
            mine[uuid] = tuple(max(own - need, 0) for need, own in zip(needed, has, strict=False))


def _kept(hold: RoomReservation, leaving: Sequence[_Left]) -> Reservation:
    reservation, pods = hold.reservation, hold.reservation.pods
    requests, ports = dict(reservation.requests), set(reservation.ports)
    for left in leaving:
        taken = min(pods, left.pods)
        pods, left.pods = pods - taken, left.pods - taken
        shared = ports & left.ports
        ports -= shared
        left.ports -= shared
        for name in requests:
            left.take(requests, name)
    return replace(
        reservation,
        uses=_less_devices(reservation.uses, leaving),
        requests={name: amount for name, amount in requests.items() if amount > 0},
        ports=tuple(port for port in reservation.ports if port in ports),
        pods=pods,
    )


def _less_devices(uses: Uses, leaving: Sequence[_Left]) -> Uses:
    """Return the device amounts that are needed beyond what victims hold."""
    needed = {dialect: dict(usage.charges) for dialect, usage in uses.items()}
    for left in leaving:
        for dialect, charges in needed.items():
            left.take_devices(dialect, charges)
    kept = {
        dialect: Usage({uuid: a for uuid, a in charges.items() if any(a)}, vendors=uses[dialect].vendors)
        for dialect, charges in needed.items()
    }
    return {dialect: usage for dialect, usage in kept.items() if usage.charges}


class Adjustment(NamedTuple):
    """The reservations that a hypothetical question leaves out and adds.

    Attributes
    ----------
    without
        Reservations that are charged, and are left out.
    added
        Reservations that are not charged, and are counted.
    """

    without: list[Reservation]
    added: list[Reservation]


class KeptRoom:
    """Keeps room for pods, and grows it as their victims leave.

    Parameters
    ----------
    books
        The books in which kept room is charged.
    reservations
        The reservations, by UID.
    pending_events
        Collects the namespaces in which devices were given back for good.
    charge_devices
        Adds (1) or gives back (-1) what a reservation holds of the devices of a node row.
    pod_of
        Returns a pod by its UID.
    """

    def __init__(
        self,
        books: UsageBooks,
        reservations: Mapping[str, Reservation],
        pending_events: PendingEvents,
        charge_devices: Callable[[int, Reservation, int], None],
        pod_of: Callable[[str], Pod],
    ) -> None:
        self.holds = Holds()
        self._books = books
        self._reservations = reservations
        self._pending_events = pending_events
        self._charge_devices = charge_devices
        self._pod_of = pod_of

    def on(self, node: str) -> list[Reservation]:
        """Return the room that is charged on a node now."""
        return [self.holds.kept(hold.uid) for hold in self.holds.on(node)]

    def keep(self, hold: RoomReservation) -> None:
        """Keep room for a pod that is not there yet; replaces its earlier hold."""
        self.give_up(hold.uid)
        nothing = replace(hold.reservation, uses={}, requests={}, ports=(), pods=0, quota_uses={})
        self.holds.add(hold, nothing)
        self.count_as_peer(hold.uid, 1)
        self._keep_anew(hold.node)

    def give_up(self, uid: str) -> ClusterEvent:
        """Give up the room that is kept for a pod; return the cluster event."""
        if self.holds.get(uid) is None:
            return ClusterEvent.NONE
        kept = self.holds.kept(uid)
        self.count_as_peer(uid, -1)
        self._charge_kept(kept, -1)
        self._keep_anew(self.holds.remove(uid).node)
        if kept.uses_devices or kept.counted_uses:
            self._pending_events.quota_freed.add(kept.namespace)
        return ClusterEvent.ASSIGNED_POD_DELETE | (
            ClusterEvent.DEVICE_FREED if kept.uses_devices else ClusterEvent.NONE
        )

    def count_as_peer(self, uid: str, sign: int) -> None:
        """Make the cards that are kept for a pod count as held by it for its peers (``sign`` = 1), or not (-1)."""
        hold, peers = self.holds.get(uid), self._books.peers
        if hold is None or not peers:
            return
        if sign > 0:
            peers.keep(self._pod_of(uid), hold.reservation)
        else:
            peers.give_up(uid)
        row = self._books.nodes.row(hold.node)
        if row is not None:
            self._books.nodes.touch(row)

    def follow(self, uid: str) -> None:
        """Update the room that a pod is a victim for, after the pod's own reservation changed."""
        for node in self.holds.nodes_to_leave(uid) if self.holds else ():
            self._keep_anew(node)

    def _keep_anew(self, node: str) -> None:
        """Update the kept room on a node to the victims that are there now."""
        holds = self.holds.on(node)
        for hold, kept in zip(holds, self._kept_now(holds), strict=True):
            before = self.holds.kept(hold.uid)
            if kept != before:
                self._charge_kept(before, -1)
                self.holds.keep(hold.uid, kept)
                self._charge_kept(kept, 1)

    def adjustment_if_gone(self, node: str, gone: Sequence[Reservation], open_: Collection[str]) -> Adjustment:
        """Return the reservations to leave out and to add if some pods of a node were gone.

        Parameters
        ----------
        gone
            The reservations of these pods; if some are victims, the room kept for others grows instead.
        open_
            The UIDs of the pods whose kept room the pod in question may use.
        """
        without, added, absent = list(gone), list[Reservation](), {reservation.uid for reservation in gone}
        holds = self.holds.on(node) if self.holds else []
        without += [self.holds.kept(hold.uid) for hold in holds if hold.uid in open_]
        others = [hold for hold in holds if hold.uid not in open_]
        for hold, kept in zip(others, self._kept_now(others, absent), strict=True):
            now = self.holds.kept(hold.uid)
            if kept != now:
                without.append(now)
                added.append(kept)
        return Adjustment(without, added)

    def _kept_now(self, holds: Sequence[RoomReservation], absent: Collection[str] = ()) -> list[Reservation]:
        """Return the room to charge for each hold, with the victims that are there except the absent ones."""
        uids = {uid for hold in holds for uid in hold.leaving}.difference(absent)
        there = {uid: reservation for uid in sorted(uids) if (reservation := self._reservations.get(uid)) is not None}
        return kept_now(holds, there)

    def _charge_kept(self, kept: Reservation, sign: int) -> None:
        """Book room that is kept (``sign`` = 1), or give it back (-1)."""
        at, row = self._books, self._books.nodes.row(kept.node)
        at.quota_usage.charge(kept.namespace, kept.counted_uses, sign, kept.node)
        if row is not None:
            at.nodes.charge(row, kept.requests, kept.pods, kept.ports, sign)
            self._charge_devices(row, kept, sign)

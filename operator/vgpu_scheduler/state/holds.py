"""Room that is kept on a node for a pod that is not there yet, while its victims are still there.

A hold takes what the pod will hold minus what its victims still hold, per card and amount, and at least 0. It is
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
class Hold:
    """Room for a pod that is not bound yet.

    Attributes
    ----------
    reservation
        What the pod will hold: its phase is ``Phase.HOLD``.
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
    """The holds, by pod and by node."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._charged: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._beneficiaries: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def get(self, uid: str) -> Hold | None:
        """Return the hold for a pod, or None."""
        return self._holds.get(uid)

    def charged(self, uid: str) -> Reservation:
        """Return the room that is charged now for a pod with a hold."""
        return self._charged[uid]

    def on(self, node: str) -> list[Hold]:
        """Return the holds on a node, the highest priority first, then by the UIDs of the pods."""
        found = (self._holds[uid] for uid in self._on_node.get(node, ()))
        return sorted(found, key=lambda hold: (-hold.priority, hold.uid))

    def usable_by(self, node: str, uid: str, priority: int) -> list[str]:
        """Return the pods whose holds on a node a pod may use: itself, then pods of lower priority."""
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
        return sorted({self._holds[holder].node for holder in self._beneficiaries.get(uid, ())})

    def add(self, hold: Hold, charged: Reservation) -> None:
        """Add a hold with the room that is charged now; the pod must have none."""
        assert hold.uid not in self._holds, f"room is kept for pod {hold.reservation.pod} already"
        self._holds[hold.uid], self._charged[hold.uid] = hold, charged
        self._on_node.setdefault(hold.node, {})[hold.uid] = None
        for uid in sorted(hold.leaving):
            self._beneficiaries.setdefault(uid, {})[hold.uid] = None

    def charge(self, uid: str, charged: Reservation) -> None:
        """Replace the room that is charged for a pod."""
        self._charged[uid] = charged

    def remove(self, uid: str) -> Hold:
        """Forget a hold."""
        hold = self._holds.pop(uid)
        del self._charged[uid]
        _discard(self._on_node, hold.node, uid)
        for leaving in hold.leaving:
            _discard(self._beneficiaries, leaving, uid)
        return hold


def _discard(sets: dict[str, dict[str, None]], key: str, uid: str) -> None:
    sets[key].pop(uid, None)
    if not sets[key]:
        del sets[key]


def charged_now(holds: Iterable[Hold], there: Mapping[str, Reservation]) -> list[Reservation]:
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
        found.append(replace(_to_charge(hold, [left[uid] for uid in leaving]), quota_uses=counted))
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


def _to_charge(hold: Hold, leaving: Sequence[_Left]) -> Reservation:
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
    charged = {
        dialect: Usage({uuid: a for uuid, a in charges.items() if any(a)}, vendors=uses[dialect].vendors)
        for dialect, charges in needed.items()
    }
    return {dialect: usage for dialect, usage in charged.items() if usage.charges}


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


class HoldLedger:
    """Keeps room for pods, and grows it as their victims leave.

    Parameters
    ----------
    books
        The books in which holds are charged.
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
        return [self.holds.charged(hold.uid) for hold in self.holds.on(node)]

    def add(self, hold: Hold) -> None:
        """Keep room for a pod that is not there yet; replaces its earlier hold."""
        self.give_up(hold.uid)
        nothing = replace(hold.reservation, uses={}, requests={}, ports=(), pods=0, quota_uses={})
        self.holds.add(hold, nothing)
        self.count_as_peer(hold.uid, 1)
        self._recharge(hold.node)

    def give_up(self, uid: str) -> ClusterEvent:
        """Give up the hold for a pod; return the cluster event."""
        if self.holds.get(uid) is None:
            return ClusterEvent.NONE
        charged = self.holds.charged(uid)
        self.count_as_peer(uid, -1)
        self._charge(charged, -1)
        self._recharge(self.holds.remove(uid).node)
        if charged.uses_devices or charged.counted_uses:
            self._pending_events.quota_freed.add(charged.namespace)
        return ClusterEvent.ASSIGNED_POD_DELETE | (
            ClusterEvent.DEVICE_FREED if charged.uses_devices else ClusterEvent.NONE
        )

    def count_as_peer(self, uid: str, sign: int) -> None:
        """Make the cards that are kept for a pod count as held by it for its peers (``sign`` = 1), or not (-1)."""
        hold, peers = self.holds.get(uid), self._books.peers
        if hold is None or not peers:
            return
        if sign > 0:
            peers.add_hold(self._pod_of(uid), hold.reservation)
        else:
            peers.give_up(uid)
        row = self._books.nodes.row(hold.node)
        if row is not None:
            self._books.nodes.touch(row)

    def follow(self, uid: str) -> None:
        """Update the room that a pod is a victim for, after the pod's own reservation changed."""
        for node in self.holds.nodes_to_leave(uid) if self.holds else ():
            self._recharge(node)

    def _recharge(self, node: str) -> None:
        """Update what is charged for the holds on a node to the victims that are there now."""
        holds = self.holds.on(node)
        for hold, charged in zip(holds, self._charged_now(holds), strict=True):
            before = self.holds.charged(hold.uid)
            if charged != before:
                self._charge(before, -1)
                self.holds.charge(hold.uid, charged)
                self._charge(charged, 1)

    def adjustment_if_gone(self, node: str, gone: Sequence[Reservation], usable_holds: Collection[str]) -> Adjustment:
        """Return the reservations to leave out and to add if some pods of a node were gone.

        Parameters
        ----------
        gone
            The reservations of these pods; if some are victims, what is charged for the holds of others grows instead.
        usable_holds
            The UIDs of the pods whose holds the pod in question may use.
        """
        without, added, absent = list(gone), list[Reservation](), {reservation.uid for reservation in gone}
        holds = self.holds.on(node) if self.holds else []
        without += [self.holds.charged(hold.uid) for hold in holds if hold.uid in usable_holds]
        others = [hold for hold in holds if hold.uid not in usable_holds]
        for hold, charged in zip(others, self._charged_now(others, absent), strict=True):
            now = self.holds.charged(hold.uid)
            if charged != now:
                without.append(now)
                added.append(charged)
        return Adjustment(without, added)

    def _charged_now(self, holds: Sequence[Hold], absent: Collection[str] = ()) -> list[Reservation]:
        """Return the room to charge for each hold, with the victims that are there except the absent ones."""
        uids = {uid for hold in holds for uid in hold.leaving}.difference(absent)
        there = {uid: reservation for uid in sorted(uids) if (reservation := self._reservations.get(uid)) is not None}
        return charged_now(holds, there)

    def _charge(self, charged: Reservation, sign: int) -> None:
        """Charge what a hold takes now (``sign`` = 1), or give it back (-1)."""
        at, row = self._books, self._books.nodes.row(charged.node)
        at.quota_usage.charge(charged.namespace, charged.counted_uses, sign, charged.node)
        if row is not None:
            at.nodes.charge(row, charged.requests, charged.pods, charged.ports, sign)
            self._charge_devices(row, charged, sign)

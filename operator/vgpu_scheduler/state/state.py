"""The one owner of what is known: nodes, devices, pods, and who uses what.

Everything is keyed by UID and idempotent: observations may come twice, late or out of order. The rule that the rest
follows from: *usage is a pure function of the bound or assumed, non-terminal pods*, so the ledger always equals the
one that :meth:`State.rebuild` makes from the objects alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import ClusterEvent, Device, Placement, Usage, Uses, VendorKey
from vgpu_scheduler.state.device_lists import distinct
from vgpu_scheduler.state.holds import RoomReservation
from vgpu_scheduler.state.indexes import Indexes
from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reader import KnownPod, StateReader, UsedAmounts, differences
from vgpu_scheduler.state.reservations import Phase, Reservation, widen
from vgpu_scheduler.state.volumes import Volumes

Registered = Mapping[str, Sequence[Device]]
"""The devices of a node by dialect; of a dialect that is missing the last good list stays."""


_DECIDED = frozenset((Phase.ASSUMED, Phase.IN_DOUBT))
"""The phases of what rests on a decision alone."""


class State(StateReader):
    """Nodes, devices, pods and reservations: what :class:`StateReader` answers, kept by observations and decisions.

    Parameters
    ----------
    dimensions
        The number of amounts per device of each dialect, by its name, in the order in which the dialects are listed.
    by_card
        What of namespaces is kept card by card; see :class:`QuotaUsage`.
    """

    def __init__(self, dimensions: Mapping[str, int], by_card: Iterable[tuple[VendorKey, int]] = ()) -> None:
        matrices = {name: DeviceMatrix(size) for name, size in dimensions.items()}
        super().__init__(Indexes(NodeTable(), matrices, QuotaUsage(by_card), InterPodCounts(), Volumes()))

    # Nodes -----------------------------------------------------------------------------------------------------------

    def observe_node(self, node: Node, devices: Registered) -> ClusterEvent:
        """Take in a node and the devices that it registered.

        Parameters
        ----------
        node
            The node; an older resource version than the one known, or a node that was removed, is ignored.
        devices
            Its devices by dialect; of one that is missing the last good list stays (the registration could not be
            decoded).

        Returns
        -------
        ClusterEvent
            What this may help.
        """
        known = self._node_objects.get(node.name)
        if not self._node_objects.put(node.name, node):
            return ClusterEvent.NONE
        event = self.nodes.upsert(node)
        row = self.nodes.row(node.name)
        assert row is not None
        fresh = known is None
        if fresh:
            self._ledger.node_came(node.name, row)
        for dialect, listed in devices.items():
            if self._list_devices(row, node.name, dialect, listed):
                event |= ClusterEvent.DEVICE_ADD
        if fresh:
            for matrix in self.matrices.values():
                matrix.ensure_rows(row + 1)
        return event

    def remove_node(self, name: str, version: int | None = None) -> ClusterEvent:
        """Forget a node; the reservations on it stay, for it may come back (ghosts).

        Parameters
        ----------
        version
            As of which resource version it is gone; its own unless one is given.

        Returns
        -------
        ClusterEvent
            What this may help: the pods on it keep nobody away any more, and it is no domain to spread over.
        """
        row, known = self.nodes.row(name), self._node_objects.get(name)
        if row is None or known is None:
            return ClusterEvent.NONE
        gone_at = self._node_objects.version(name) if version is None else version
        if not self._node_objects.remove(name, known.uid, gone_at):
            return ClusterEvent.NONE
        for matrix in self.matrices.values():
            matrix.clear(row)
        self.interpod.node_went(row)
        self._assumptions.node_went(name)
        self.volumes.node_went(name)
        self.nodes.remove(name)
        return ClusterEvent.ASSIGNED_POD_CHANGE | (
            ClusterEvent.STORAGE if self._ledger.use_volumes(name) else ClusterEvent.NONE
        )

    def _list_devices(self, row: int, node: str, dialect: str, devices: Sequence[Device]) -> bool:
        ordered, matrix = tuple(devices), self.matrices[dialect]
        if matrix.devices(row) == ordered:
            return False
        assert distinct(ordered), f"node {node} lists a device twice"
        matrix.replace(row, ordered)
        self._ledger.devices_replaced(dialect, node, row)
        for reservation in tuple(self.reservations(node)):
            known = self._pods.get(reservation.uid)
            if known is not None and any(usage.by_place for usage in known.uses.values()):
                self._hold_bound(
                    known.pod, self.as_listed(node, known.uses), reservation if reservation.widened else None
                )
        self._assumptions.devices_listed(node)
        self.nodes.touch(row)
        return True

    # Pods ------------------------------------------------------------------------------------------------------------

    def observe_pod(self, pod: Pod, uses: Uses) -> ClusterEvent:
        """Take in a pod and what its objects say that it uses.

        Parameters
        ----------
        pod
            The pod; an older resource version, or one that was removed, is ignored.
        uses
            What it uses on ``pod.node_name``, by dialect; meaningless while it is unbound.

        Returns
        -------
        ClusterEvent
            What this may help: resources and devices given back.
        """
        known = self._pods.get(pod.uid)
        if not self._pods.put(pod.uid, KnownPod(pod, uses)):
            return ClusterEvent.NONE
        if known is None:
            self._uids[pod.key] = pod.uid
        self._bound.move(pod.uid, known.pod.node_name if known else "", pod.node_name)
        reservation = self._ledger.get(pod.uid)
        event = self.nominations.observe(pod)
        if reservation and known and known.pod.deleting != pod.deleting:
            self._ledger.note_holder(reservation)
        if reservation and known and known.counts_otherwise(pod):
            event |= self._ledger.recount(reservation)
        if reservation and known and self._indexes.peers and self._indexes.peers.change(known.pod, pod, reservation):
            event |= self._peers_changed(reservation.node)
        if pod.terminal or pod.node_name:
            event |= self._ledger.room.give_up(pod.uid)
        if pod.terminal:
            return event | self._release(pod.uid)
        if not pod.node_name:
            if reservation:
                self._ledger.note_change(pod.uid)
            # A reservation of ours outlives observations from before its binding; nothing else holds an unbound pod.
            return event | (
                self._release(pod.uid) if reservation and reservation.phase is Phase.BOUND else ClusterEvent.NONE
            )
        return event | self._hold_bound(pod, self.as_listed(pod.node_name, uses), reservation)

    def as_listed(self, node: str, uses: Uses) -> Uses:
        """Return what is used of a node with the UUIDs of its devices, where allocations name these by their places."""
        row = self.nodes.row(node) if any(usage.by_place for usage in uses.values()) else None
        if row is None:
            return uses
        return {dialect: usage.as_listed(self.matrices[dialect].devices(row)) for dialect, usage in uses.items()}

    def _peers_changed(self, node: str) -> ClusterEvent:
        """Have a node looked at anew by those who share no card with some pods there."""
        row = self.nodes.row(node)
        if row is None:
            return ClusterEvent.NONE
        self.nodes.touch(row)
        return ClusterEvent.DEVICE_FREED

    def _hold_bound(self, pod: Pod, uses: Uses, reservation: Reservation | None) -> ClusterEvent:
        widened = False
        if reservation and reservation.phase is Phase.BOUND and reservation.node == pod.node_name and pod.started:
            wider = widen(reservation.uses, uses)
            widened = wider != uses
            uses = wider
        fresh = Reservation(
            pod.uid, pod.key, pod.node_name, Phase.BOUND, uses, pod.used_requests, None, widened, pod.spec.host_ports
        )
        if reservation and reservation.charges_the_same(fresh):
            self._assumptions.drop(pod.uid)
            if reservation.volumes:
                return self._ledger.carried_out(fresh)
            self._ledger.restate(fresh)
            return ClusterEvent.NONE
        return self._release(pod.uid) | self._ledger.book(fresh)

    def remove_pod(self, uid: str, version: int | None = None) -> ClusterEvent:
        """Forget a pod, so that a late answer does not raise the dead.

        Parameters
        ----------
        version
            As of which resource version it does not count any more, if it may count again later; None if it is deleted.

        Returns
        -------
        ClusterEvent
            What this may help.
        """
        event = self._release(uid) | self._ledger.room.give_up(uid) | self.nominations.remove(uid)
        known = self._pods.get(uid)
        if known is not None:
            self._bound.move(uid, known.pod.node_name, "")
            if self._uids.get(known.pod.key) == uid:
                del self._uids[known.pod.key]
        if version is None:
            self._pods.remove_forever(uid)
        else:
            self._pods.remove_up_to(uid, version)
        return event

    def assume(self, uid: str, placement: Placement, usage: Usage, requests: Mapping[str, int]) -> ClusterEvent:
        """Reserve a placement that was just decided; ``settled`` must follow once its writes are over.

        Returns
        -------
        ClusterEvent
            What this may help: others may want to be near the pod, or were kept away by its nomination.

        Raises
        ------
        ValueError
            If the pod is not known or holds something already.
        """
        known = self._pods.get(uid)
        if known is None or uid in self._ledger:
            raise ValueError(f"pod {uid} cannot be assumed: it is unknown or holds a reservation")
        self._in_flight.add(uid)
        given_up = self._ledger.room.give_up(uid) | self.nominations.placed(uid)
        self._assumptions.note(known.pod, placement.node)
        ports = known.pod.spec.host_ports
        uses = {placement.dialect: usage} if usage.charges else {}
        reservation = Reservation(
            uid, known.pod.key, placement.node, Phase.ASSUMED, uses, requests, placement, ports=ports
        )
        return given_up | self._ledger.book(reservation)

    def keep(self, hold: RoomReservation) -> None:
        """Keep room for a pod that holds nothing yet, until it is placed, ends, or the room is given up."""
        pod = self.pod(hold.uid)
        if pod is not None and not pod.terminal and not pod.node_name and hold.uid not in self._ledger:
            self._ledger.room.keep(hold)

    def give_up(self, uid: str) -> ClusterEvent:
        """Keep no room for a pod any more; return what that may help."""
        return self._ledger.room.give_up(uid)

    def reassume(self, uid: str, placement: Placement, usage: Usage, requests: Mapping[str, int]) -> ClusterEvent:
        """Reserve another placement for an assumed pod; where that fails it goes on to hold what it held."""
        reservation = self._ledger[uid]
        assert reservation.phase is Phase.ASSUMED, f"pod {reservation.pod} is bound"
        event = self._release(uid)
        try:
            return event | self.assume(uid, placement, usage, requests)
        except Exception:
            self._release(uid)
            self._ledger.book(reservation)
            raise

    def confirm(self, uid: str) -> None:
        """Note that the API answered that an assumed pod is bound; from then on only an observation can release it."""
        reservation = self._ledger.get(uid)
        if reservation and reservation.phase in _DECIDED:
            self._assumptions.drop(uid)
            self._ledger.restate(replace(reservation, phase=Phase.CONFIRMED))

    def mark_in_doubt(self, uid: str) -> None:
        """Note that no write for an assumed pod is in flight any more, and that nobody can tell what came of it."""
        reservation = self._ledger.get(uid)
        if reservation and reservation.phase is Phase.ASSUMED:
            self._assumptions.drop(uid)
            self._ledger.restate(replace(reservation, phase=Phase.IN_DOUBT))
        self.settled(uid)

    def forget(self, uid: str) -> ClusterEvent:
        """Give back an assumed reservation; a bound one is not touched."""
        reservation = self._ledger.get(uid)
        if reservation is None or reservation.phase not in _DECIDED:
            return ClusterEvent.NONE
        return self._release(uid)

    def undo(self, uid: str) -> None:
        """Take an assumption back within the decision that made it: versions rise, and nobody is to be woken by it."""
        assert self._ledger[uid].phase is Phase.ASSUMED, f"pod {self._ledger[uid].pod} is bound"
        self._assumptions.drop(uid)
        self._ledger.take_off(uid)
        self._in_flight.discard(uid)

    def mark_rechecked(self, uid: str) -> None:
        """Note that an assumed placement was checked and holds for the pod and the node as they are now."""
        self._assumptions.note(self._pods[uid].pod, self._ledger[uid].node)

    def settled(self, uid: str) -> None:
        """Say that no write for this pod is in flight any more."""
        self._in_flight.discard(uid)

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None) -> ClusterEvent:
        """Take in the labels of a namespace, None if it is gone; return what this may help."""
        return (
            ClusterEvent.ASSIGNED_POD_CHANGE
            if self.interpod.observe_namespace(name, labels, self.nodes.row)
            else ClusterEvent.NONE
        )

    def forget_versions(self) -> None:
        """Accept any resource version from now on: the store was restored from an older copy.

        What was confirmed may have been undone: from now on the pod tells, as if it had been seen bound.
        """
        self._pods.forget_versions()
        self._node_objects.forget_versions()
        self._ledger.doubt_confirmations()

    def _release(self, uid: str) -> ClusterEvent:
        self._assumptions.drop(uid)
        return self._ledger.release(uid)

    # The whole -------------------------------------------------------------------------------------------------------

    def rebuild(self, names: Collection[str] | None = None) -> State:
        """Return a state made from the observed objects and the open assumptions alone, of all nodes or of some.

        Namespaces and storage objects are those of the whole cluster; without all nodes there are none, and nothing is
        looked at but these nodes and the pods there.
        """
        dimensions = {dialect: matrix.dimensions for dialect, matrix in self.matrices.items()}
        twin = State(dimensions, self.quota_usage.by_card)
        twin.selecting = self.selecting
        if names is None:
            for store in self.volumes.objects.stores():
                for obj in store:
                    twin.volumes.observe(obj)
            for name, labels in self.interpod.namespaces.items():
                twin.observe_namespace(name, labels)
        for node in self._node_objects if names is None else filter(None, map(self._node_objects.get, names)):
            row = self.nodes.row(node.name)
            twin.observe_node(node, {} if row is None else {d: m.devices(row) for d, m in self.matrices.items()})
        booked = self._ledger if names is None else chain.from_iterable(map(self._ledger.on, names))
        unseen = [reservation for reservation in booked if reservation.phase is not Phase.BOUND]
        if names is None:
            pods: Iterable[KnownPod] = self._pods
        else:
            on_their_way = (self._pods[reservation.uid] for reservation in unseen)
            pods = chain(chain.from_iterable(map(self._pods_bound_to, names)), on_their_way)
        for known in pods:
            twin.observe_pod(known.pod, known.uses)
        for reservation in unseen:
            if reservation.uid not in twin._ledger:
                twin._ledger.book(reservation)
        for hold in self.holds if names is None else chain.from_iterable(map(self.holds.on, names)):
            twin._ledger.room.keep(hold)
        return twin

    def drift(self, names: Collection[str] | None = None) -> dict[str, tuple[UsedAmounts, UsedAmounts]]:
        """Compare the ledger with its rebuild: per node, what is booked and what the objects say; empty when equal.

        All nodes, or some. Nodes that hold a widened reservation (see :class:`Reservation`) are expected here and named
        by it.
        """
        return differences(self.ledger(names), self.rebuild(names).ledger())

    def repair(self, name: str) -> list[str]:
        """Bring what is booked on a node in line with the objects; return what was wrong, a sentence each.

        It is never wrong unless there is an error in this program: the caller has something to report.
        """
        wrong = self._ledger.correct(name, self.rebuild({name})._ledger)
        row, before = self.nodes.row(name), self.ledger([name])
        if row is not None:
            for dialect, matrix in self.matrices.items():
                matrix.replace(row, matrix.devices(row))
                self._ledger.devices_replaced(dialect, name, row)
            self.nodes.touch(row)
        if self.ledger([name]) != before:
            wrong.append("the amounts of its cards were not those that its pods hold")
        return wrong


__all__ = ["State", "UsedAmounts"]

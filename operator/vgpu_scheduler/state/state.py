"""The single owner of all cluster state: nodes, devices, pods, and which pod uses what.

Everything is keyed by UID and idempotent: observations may come twice, late or out of order. The main invariant:
*usage is a pure function of the bound or assumed, non-terminal pods*, so the ledger always equals the one that
:meth:`State.rebuild` makes from the objects alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import ClusterEvent, Device, Placement, PodClaims, Usage, Uses, VendorKey
from vgpu_scheduler.state.holds import Hold
from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reader import KnownPod, StateReader, UsedAmounts, differences
from vgpu_scheduler.state.reservations import Phase, Reservation, widen
from vgpu_scheduler.state.usage_books import UsageBooks
from vgpu_scheduler.state.volumes import Volumes

Registered = Mapping[str, Sequence[Device]]
"""The devices of a node by dialect; a dialect that is missing keeps its last good list."""


_DECIDED = frozenset((Phase.ASSUMED, Phase.IN_DOUBT))
"""The phases of reservations that this scheduler decided and the API server has not confirmed."""


class State(StateReader):
    """Nodes, devices, pods and reservations, updated by observations and decisions; :class:`StateReader` reads them.

    Parameters
    ----------
    dimensions
        The number of amounts per device of each dialect, by its name, in the order in which the dialects are listed.
    by_card
        The vendors and dimensions whose usage is kept per card for quotas; see :class:`QuotaUsage`.
    """

    def __init__(self, dimensions: Mapping[str, int], by_card: Iterable[tuple[VendorKey, int]] = ()) -> None:
        matrices = {name: DeviceMatrix(size) for name, size in dimensions.items()}
        super().__init__(UsageBooks(NodeTable(), matrices, QuotaUsage(by_card), InterPodCounts(), Volumes()))

    # Nodes -----------------------------------------------------------------------------------------------------------

    def observe_node(self, node: Node, devices: Registered) -> ClusterEvent:
        """Take in a node and the devices that it registered.

        Parameters
        ----------
        node
            The node; an older resource version than the one known, or a node that was removed, is ignored.
        devices
            Its devices by dialect; a dialect that is missing keeps its last good list (its registration could not be
            decoded).

        Returns
        -------
        ClusterEvent
            The kinds of waiting pods that this may help.
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
            The resource version as of which the node is gone; by default its last known one.

        Returns
        -------
        ClusterEvent
            The pods that this may help: the node's pods repel no other pods now, and it is no topology domain any more.
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
        self._decision_inputs.node_went(name)
        self.volumes.node_went(name)
        self.nodes.remove(name)
        return ClusterEvent.ASSIGNED_POD_CHANGE | (
            ClusterEvent.STORAGE if self._ledger.use_volumes(name) else ClusterEvent.NONE
        )

    def _list_devices(self, row: int, node: str, dialect: str, devices: Sequence[Device]) -> bool:
        ordered, matrix = tuple(devices), self.matrices[dialect]
        if matrix.devices(row) == ordered:
            return False
        assert len({device.uuid for device in ordered}) == len(ordered), f"node {node} lists a device twice"
        matrix.replace(row, ordered)
        self._ledger.devices_replaced(dialect, node, row)
        for reservation in tuple(self.reservations(node)):
            known = self._pods.get(reservation.uid)
            if known is not None and any(usage.by_place for usage in known.uses.values()):
                self._hold_bound(
                    known.pod, self.as_listed(node, known.uses), reservation if reservation.widened else None
                )
        self._decision_inputs.devices_listed(node)
        self.nodes.touch(row)
        return True

    # Pods ------------------------------------------------------------------------------------------------------------

    def observe_pod(self, pod: Pod, uses: Uses) -> ClusterEvent:
        """Take in a pod and the devices that its annotations say it uses.

        Parameters
        ----------
        pod
            The pod; an older resource version, or a pod that was removed, is ignored.
        uses
            What it uses on ``pod.node_name``, by dialect; meaningless while it is unbound.

        Returns
        -------
        ClusterEvent
            The kinds of waiting pods that this may help: those that need the resources or devices given back.
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
        if reservation and known and self._books.peers and self._books.peers.change(known.pod, pod, reservation):
            event |= self._peers_changed(reservation.node)
        if pod.terminal or pod.node_name:
            event |= self._ledger.hold_ledger.give_up(pod.uid)
        if pod.terminal:
            return event | self._release(pod.uid)
        if not pod.node_name:
            if reservation:
                self._ledger.note_change(pod.uid)
            # An assumed reservation survives observations from before its Binding; an unbound pod has no other kind.
            return event | (
                self._release(pod.uid) if reservation and reservation.phase is Phase.BOUND else ClusterEvent.NONE
            )
        return event | self._hold_bound(pod, self.as_listed(pod.node_name, uses), reservation)

    def as_listed(self, node: str, uses: Uses) -> Uses:
        """Return the usage on a node by device UUID, where allocations name devices by their position."""
        row = self.nodes.row(node) if any(usage.by_place for usage in uses.values()) else None
        if row is None:
            return uses
        return {dialect: usage.as_listed(self.matrices[dialect].devices(row)) for dialect, usage in uses.items()}

    def _peers_changed(self, node: str) -> ClusterEvent:
        """Invalidate what was computed for a node after the peers of one of its pods changed."""
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
        fresh = Reservation.of(pod, pod.node_name, Phase.BOUND, uses, pod.used_requests, widened=widened)
        if reservation and reservation.charges_the_same(fresh):
            self._decision_inputs.drop(pod.uid)
            if reservation.volumes:
                return self._ledger.carried_out(fresh)
            self._ledger.restate(fresh)
            return ClusterEvent.NONE
        return self._release(pod.uid) | self._ledger.book(fresh)

    def remove_pod(self, uid: str, version: int | None = None) -> ClusterEvent:
        """Forget a pod; late observations of it are ignored.

        Parameters
        ----------
        version
            The resource version up to which observations are ignored, if the pod may come back; None if it is deleted.

        Returns
        -------
        ClusterEvent
            The kinds of waiting pods that this may help.
        """
        event = self._release(uid) | self._ledger.hold_ledger.give_up(uid) | self.nominations.remove(uid)
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

    def assume(self, uid: str, placement: Placement, claims: PodClaims) -> ClusterEvent:
        """Reserve a placement that was just decided; ``settled`` must follow once its writes are over.

        Parameters
        ----------
        claims
            The pod's claims, which the placement serves.

        Returns
        -------
        ClusterEvent
            The pods that this may help: those with affinity to the pod, or those that its nomination kept away.

        Raises
        ------
        ValueError
            If the pod is not known or holds something already.
        """
        known = self._pods.get(uid)
        if known is None or uid in self._ledger:
            raise ValueError(f"pod {uid} cannot be assumed: it is unknown or holds a reservation")
        usage = Usage.of_placement(placement, claims)
        uses = {placement.dialect: usage} if usage.charges else {}
        requests = known.pod.spec.requests
        reservation = Reservation.of(known.pod, placement.node, Phase.ASSUMED, uses, requests, placement)
        self._in_flight.add(uid)
        given_up = self._ledger.hold_ledger.give_up(uid) | self.nominations.placed(uid)
        self._decision_inputs.note(known.pod, placement.node)
        return given_up | self._ledger.book(reservation)

    def add_hold(self, hold: Hold) -> None:
        """Keep room for a pod without a reservation until it is placed, ends, or the room is given up."""
        pod = self.pod(hold.uid)
        if pod is not None and not pod.terminal and not pod.node_name and hold.uid not in self._ledger:
            self._ledger.hold_ledger.add(hold)

    def give_up(self, uid: str) -> ClusterEvent:
        """Give up the hold for a pod; return the cluster event."""
        return self._ledger.hold_ledger.give_up(uid)

    def reassume(self, uid: str, placement: Placement, claims: PodClaims) -> ClusterEvent:
        """Replace the placement of an assumed pod; if that fails, its old reservation stays."""
        reservation = self._ledger[uid]
        assert reservation.phase is Phase.ASSUMED, f"pod {reservation.pod} is bound"
        event = self._release(uid)
        try:
            return event | self.assume(uid, placement, claims)
        except Exception:
            self._release(uid)
            self._ledger.book(reservation)
            raise

    def confirm(self, uid: str) -> None:
        """Note that the API server confirmed the Binding of an assumed pod; only an observation can release it now."""
        reservation = self._ledger.get(uid)
        if reservation and reservation.phase in _DECIDED:
            self._decision_inputs.drop(uid)
            self._ledger.restate(replace(reservation, phase=Phase.CONFIRMED))

    def mark_in_doubt(self, uid: str) -> None:
        """Note that no write for an assumed pod is in flight any more, and that its outcome is unknown."""
        reservation = self._ledger.get(uid)
        if reservation and reservation.phase is Phase.ASSUMED:
            self._decision_inputs.drop(uid)
            self._ledger.restate(replace(reservation, phase=Phase.IN_DOUBT))
        self.write_finished(uid)

    def unreserve(self, uid: str) -> ClusterEvent:
        """Release an assumed or in-doubt reservation; others are left alone."""
        reservation = self._ledger.get(uid)
        if reservation is None or reservation.phase not in _DECIDED:
            return ClusterEvent.NONE
        return self._release(uid)

    def undo(self, uid: str) -> None:
        """Take an assumption back within the decision that made it: versions rise, but no waiting pod is woken."""
        assert self._ledger[uid].phase is Phase.ASSUMED, f"pod {self._ledger[uid].pod} is bound"
        self._decision_inputs.drop(uid)
        self._ledger.take_off(uid)
        self._in_flight.discard(uid)

    def mark_rechecked(self, uid: str) -> None:
        """Note that an assumed placement was checked again and is valid for the pod and the node as they are now."""
        self._decision_inputs.note(self._pods[uid].pod, self._ledger[uid].node)

    def write_finished(self, uid: str) -> None:
        """Note that no write for this pod is in flight any more."""
        self._in_flight.discard(uid)

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None) -> ClusterEvent:
        """Take in the labels of a namespace, None if it is gone; return the cluster event."""
        return (
            ClusterEvent.ASSIGNED_POD_CHANGE
            if self.interpod.observe_namespace(name, labels, self.nodes.row)
            else ClusterEvent.NONE
        )

    def forget_versions(self) -> None:
        """Accept any resource version from now on: the store was restored from an older copy.

        The restore may have undone Bindings, so confirmed reservations now follow observations like bound ones.
        """
        self._pods.forget_versions()
        self._node_objects.forget_versions()
        self._ledger.doubt_confirmations()

    def _release(self, uid: str) -> ClusterEvent:
        self._decision_inputs.drop(uid)
        return self._ledger.release(uid)

    # The whole -------------------------------------------------------------------------------------------------------

    def rebuild(self, names: Collection[str] | None = None) -> State:
        """Return a state made only from the observed objects and the reservations not yet seen bound.

        With ``names`` only these nodes and the pods there are read; namespaces and storage objects are left out.
        """
        dimensions = {dialect: matrix.dimensions for dialect, matrix in self.matrices.items()}
        twin = State(dimensions, self.quota_usage.by_card)
        twin.spread_selectors = self.spread_selectors
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
            twin._ledger.hold_ledger.add(hold)
        return twin

    def drift(self, names: Collection[str] | None = None) -> dict[str, tuple[UsedAmounts, UsedAmounts]]:
        """Compare the ledger with its rebuild: per node, the booked and the rebuilt amounts; empty when equal.

        Nodes with a widened reservation (see :class:`Reservation`) are expected to differ.
        """
        return differences(self.ledger(names), self.rebuild(names).ledger())

    def repair(self, name: str) -> list[str]:
        """Rebook a node from the observed objects; return one sentence for each booking that was wrong.

        A wrong booking is always a bug in this program, so the caller reports it.
        """
        wrong = self._ledger.correct(name, self.rebuild({name})._ledger)
        row, before = self.nodes.row(name), self.ledger([name])
        if row is not None:
            for dialect, matrix in self.matrices.items():
                matrix.replace(row, matrix.devices(row))
                self._ledger.devices_replaced(dialect, name, row)
            self.nodes.touch(row)
        if self.ledger([name]) != before:
            wrong.append("the amounts of its cards differed from those that its pods hold")
        return wrong

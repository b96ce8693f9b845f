"""Read access to the state: nodes, devices, pods and reservations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vgpu_scheduler.kernels import CardPrices
from vgpu_scheduler.kube import Node, Pod, VersionedStore
from vgpu_scheduler.model import Amounts, Device, PendingEvents, Uses
from vgpu_scheduler.state.holds import Adjustment, Holds
from vgpu_scheduler.state.in_use import HypotheticalUsage
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.non_zero_requests import NonZeroRequests
from vgpu_scheduler.state.peers import PeerCards, Peers
from vgpu_scheduler.state.reservation_ledger import ReservationLedger
from vgpu_scheduler.state.reservations import DecisionInputs, Nominations, Phase, Reservation
from vgpu_scheduler.state.selecting import DefaultSpreadSelectors
from vgpu_scheduler.state.usage_books import UsageBooks


@dataclass(frozen=True, slots=True)
class KnownPod:
    """The last accepted observation of a pod."""

    pod: Pod
    uses: Uses

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid

    @property
    def resource_version(self) -> int:
        """The pod's version."""
        return self.pod.resource_version

    def counts_otherwise(self, pod: Pod) -> bool:
        """Tell whether a newer observation may count differently for inter-pod terms, spread constraints or volumes."""
        before = self.pod
        return before.labels != pod.labels or before.spec is not pod.spec or before.deleting is not pod.deleting


class BoundPods:
    """The pods that are bound to each node as last observed, whether or not they have reservations."""

    __slots__ = ("_on_node",)

    def __init__(self) -> None:
        self._on_node: dict[str, dict[str, None]] = {}

    def on(self, node: str) -> Iterable[str]:
        """Return the UIDs of the pods whose objects name a node."""
        return self._on_node.get(node, ())

    def move(self, uid: str, before: str, now: str) -> None:
        """Note that the node name of a pod changed; empty for none."""
        if before == now:
            return
        if before:
            pods = self._on_node[before]
            del pods[uid]
            if not pods:
                del self._on_node[before]
        if now:
            self._on_node.setdefault(now, {})[uid] = None


class StateReader:
    """Read access to the current state, and hypothetical variants of it; :class:`State` changes it.

    Parameters
    ----------
    books
        The books in which every reservation is booked.
    """

    def __init__(self, books: UsageBooks) -> None:
        self._books = books
        self.pending_events = PendingEvents()
        """Which waiting pods changes may help; a rebuild has its own."""
        self.nodes = books.nodes
        self.matrices = books.matrices
        """A device matrix per dialect over the same node rows, because dialects count in different units."""
        self.quota_usage = books.quota_usage
        self.interpod = books.interpod
        self.volumes = books.volumes
        self.node_usage_if = HypotheticalUsage(books.nodes, books.matrices)
        """Computes hypothetical usage of a node; each answer is valid until the next call."""
        self._in_flight: set[str] = set()
        self._pods: VersionedStore[str, KnownPod] = VersionedStore(self._in_flight.__contains__)
        self._uids: dict[str, str] = {}
        self._bound = BoundPods()
        self._node_objects: VersionedStore[str, Node] = VersionedStore()
        self._ledger = ReservationLedger(self._books, self._known_pod, self.pending_events)
        self.unrequested = NonZeroRequests(self.nodes, self._ledger, self._known_pod)
        """Per node, kube-scheduler's default requests for the containers that request nothing."""
        self._decision_inputs = DecisionInputs(self.nodes, self.matrices)
        self.nominations = Nominations()
        self.spread_selectors = DefaultSpreadSelectors()
        """Services and controllers; shared with rebuilds, because no reservation depends on them."""
        self.prices: Mapping[str, CardPrices] = {}
        """The learned card prices, by dialect."""
        self.price_epoch = 0
        """Rises whenever prices are replaced."""

    def replace_prices(self, prices: Mapping[str, CardPrices]) -> None:
        """Replace the card prices of all dialects."""
        self.prices = prices
        self.price_epoch += 1

    def _known_pod(self, uid: str) -> Pod:
        return self._pods[uid].pod

    def held_cards(self, peers: Peers, dialect: str, vendors: frozenset[str]) -> PeerCards:
        """Return the cards of a dialect's vendors that some peers hold; the result stays up to date."""
        holding = ((self._known_pod(reservation.uid), reservation) for reservation in self._ledger)
        waiting = ((self._known_pod(hold.uid), hold.reservation) for hold in self._ledger.hold_ledger.holds)
        index = self._books.peers
        return PeerCards(index, index.of(peers, holding, waiting), dialect, vendors, self.nodes)

    def ignoring_peers(self) -> AbstractContextManager[None]:
        """Ignore the cards of peers inside the ``with`` block, as if they held none."""
        return self._books.peers.ignored()

    @property
    def devices(self) -> DeviceMatrix:
        """The devices of the dialect that is listed first."""
        return next(iter(self.matrices.values()))

    def matrix(self, dialect: str) -> DeviceMatrix:
        """Return the devices of a dialect; an empty name stands for the dialect that is listed first."""
        return self.matrices[dialect] if dialect else self.devices

    def devices_on(self, node: str, dialect: str) -> tuple[Device, ...]:
        """Return the devices that a node lists in a dialect, named as for :meth:`matrix`; none if it is not known."""
        row = self.nodes.row(node)
        return () if row is None else self.matrix(dialect).devices(row)

    def usage_on(self, node: str, dialect: str) -> Iterator[tuple[Device, Amounts]]:
        """Yield the devices that a node lists in a dialect with what is used of them; none if it is not known."""
        row, matrix = self.nodes.row(node), self.matrix(dialect)
        if row is not None:
            yield from zip(matrix.devices(row), (used for _, used in matrix.usage(row)), strict=True)

    def devices_by_dialect(self, node: str) -> dict[str, tuple[Device, ...]]:
        """Return the devices that a node lists, by dialect: all of them, in the order in which they are listed."""
        return {dialect: self.devices_on(node, dialect) for dialect in self.matrices}

    def pod(self, uid: str) -> Pod | None:
        """Return a pod as last observed."""
        known = self._pods.get(uid)
        return known.pod if known else None

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the pod that has this name now, as last observed."""
        return self.pod(self._uids.get(f"{namespace}/{name}", ""))

    def _pods_bound_to(self, node: str) -> Iterator[KnownPod]:
        """Yield the pods that are bound to a node as last observed, whether or not they have reservations."""
        return (known for uid in self._bound.on(node) if (known := self._pods.get(uid)) is not None)

    def holds_something(self, uid: str) -> bool:
        """Tell whether a pod has a reservation or a nomination."""
        return uid in self._ledger or uid in self.nominations

    def listed_vendors(self) -> frozenset[tuple[str, str]]:
        """Return the vendors whose cards nodes have, as (dialect, vendor)."""
        return frozenset((name, vendor) for name, matrix in self.matrices.items() for vendor in matrix.live_vendors())

    def closing_cards(self) -> list[Reservation]:
        """Return the reservations of pods whose cards are not known, by name of the pod."""
        return sorted(
            (self._ledger[uid] for uid in self._ledger.closing),
            key=lambda reservation: (reservation.pod, reservation.uid),
        )

    def pods(self) -> Iterable[Pod]:
        """Return all known pods."""
        return (known.pod for known in self._pods)

    def pod_version(self, uid: str) -> int:
        """Return the resource version up to which a pod is known; 0 if any would be accepted."""
        return self._pods.version(uid)

    def missing_pods(self, listed: Collection[str], version: int) -> list[Pod]:
        """Return the pods missing from a consistent list of a version, except those with a write in flight."""
        gone = self._pods.missing(listed, version)
        return [known.pod for known in gone if known.uid not in self._in_flight]

    def assumed(self) -> list[Reservation]:
        """Return the reservations of pods that are not bound yet, by UID."""
        reservations = (self._ledger.get(uid) for uid in sorted(self._in_flight))
        return [each for each in reservations if each is not None and each.phase is Phase.ASSUMED]

    def was_removed(self, uid: str) -> bool:
        """Tell whether a pod is known to be gone."""
        return self._pods.was_removed(uid)

    def in_flight(self, uid: str) -> bool:
        """Tell whether a write for this pod may still be on its way."""
        return uid in self._in_flight

    def node(self, name: str) -> Node | None:
        """Return a node as last observed."""
        return self._node_objects.get(name)

    def all_nodes(self) -> Iterable[Node]:
        """Return all known nodes."""
        return iter(self._node_objects)

    def node_version(self, name: str) -> int:
        """Return the resource version up to which a node is known; 0 if any would be accepted."""
        return self._node_objects.version(name)

    def missing_nodes(self, listed: Collection[str], version: int) -> list[Node]:
        """Return the nodes missing from a consistent list of a version."""
        return self._node_objects.missing(listed, version)

    def reservation(self, uid: str) -> Reservation | None:
        """Return what a pod holds, or None."""
        return self._ledger.get(uid)

    def reservations(self, node: str | None = None) -> Iterable[Reservation]:
        """Return all reservations, or those on one node, in arbitrary order."""
        return iter(self._ledger) if node is None else self._ledger.on(node)

    def starting_pods(self, node: str) -> dict[str, int]:
        """Return the pods on a node whose reservations are no longer assumed and that have neither started nor ended.

        Maps each UID to the number of its pod's last change, in ascending order, so that a caller can skip the changes
        that it has seen.
        """
        return self._ledger.starting(node)

    def adjustment_if_gone(self, node: str, gone: Sequence[Reservation], usable_holds: Collection[str]) -> Adjustment:
        """Return the reservations to leave out and to add if some pods of a node were gone; see :class:`HoldLedger`."""
        return self._ledger.hold_ledger.adjustment_if_gone(node, gone, usable_holds)

    @property
    def holds(self) -> Holds:
        """The holds for pods that are not bound yet."""
        return self._ledger.hold_ledger.holds

    def unchanged_since_assumed(self, uid: str, pod: Pod) -> bool:
        """Tell whether an assumed placement is still valid without another check.

        It is valid while the pod asks for the same, its node is the same (labels, taints, allocatable, devices and
        their health), and nothing on the node is over capacity, ports included. Pods assumed since then do not matter:
        their decisions took this reservation into account.
        """
        return self._decision_inputs.holds(self._ledger[uid], pod)

    def without(self, uids: Iterable[str]) -> AbstractContextManager[None]:
        """Release the reservations of some pods inside the ``with`` block; pods without one are allowed."""
        return self._ledger.without(uids)

    def having(self, reservation: Reservation) -> AbstractContextManager[None]:
        """Book a reservation inside the ``with`` block."""
        return self._ledger.having(reservation)

    def counting_across_nodes(
        self, without: Sequence[Reservation] = (), added: Sequence[Reservation] = ()
    ) -> AbstractContextManager[None]:
        """Leave out or add reservations in the cross-node counters; see :class:`ReservationLedger`."""
        return self._ledger.counting_across_nodes(without, added)

    def ledger(self, names: Iterable[str] | None = None) -> UsedAmounts:
        """Return the used amounts of every device in use, on all nodes or on some."""
        return read_ledger(self.nodes, self.matrices, self._node_names() if names is None else names)

    def over_capacity(self) -> dict[str, list[str]]:
        """Return the devices used beyond their capacity, by node."""
        return over_capacity(self.nodes, self.matrices, self._node_names())

    def _node_names(self) -> Iterator[str]:
        return (node.name for node in self._node_objects)


UsedAmounts = dict[str, dict[str, Amounts]]
"""Node name to UUID to used amounts; devices with nothing used are left out.

If two dialects use the same UUID, the later dialect's entry is prefixed with its name, as in ``volcano/GPU-1``.
"""

Matrices = Mapping[str, DeviceMatrix]


def read_ledger(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> UsedAmounts:
    """Return the used amounts of every device in use on the named nodes."""
    result: UsedAmounts = {}
    for name in names:
        row = nodes.row(name)
        if row is None:
            continue
        used: dict[str, Amounts] = {}
        for dialect, devices in matrices.items():
            for uuid, amounts in devices.usage(row):
                if any(amounts):
                    used[f"{dialect}/{uuid}" if uuid in used else uuid] = amounts
        if used:
            result[name] = used
    return result


def differences(ours: UsedAmounts, theirs: UsedAmounts) -> dict[str, tuple[UsedAmounts, UsedAmounts]]:
    """Return both entries for each node where two ledgers differ."""
    return {
        name: ({name: ours.get(name, {})}, {name: theirs.get(name, {})})
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    }


def over_capacity(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the devices used beyond their capacity, by node."""
    crowded = [matrix for matrix in matrices.values() if matrix.any_over_capacity()]
    if not crowded:
        return {}
    result = {}
    for name in names:
        row = nodes.row(name)
        over = [uuid for matrix in crowded for uuid in matrix.over_capacity(row)] if row is not None else []
        if over:
            result[name] = over
    return result

"""What is known of nodes, devices, pods and reservations, to be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vgpu_scheduler.kernels import CardPrices
from vgpu_scheduler.kube import Node, Pod, VersionedStore
from vgpu_scheduler.model import Amounts, Device, Uses, WakeSet
from vgpu_scheduler.state.holds import Adjustment, Holds
from vgpu_scheduler.state.in_use import HypotheticalUsage
from vgpu_scheduler.state.indexes import Indexes
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.non_zero_requests import NonZeroRequests
from vgpu_scheduler.state.peers import PeerCards, Peers
from vgpu_scheduler.state.reservation_ledger import ReservationLedger
from vgpu_scheduler.state.reservations import Assumptions, Nominations, Phase, Reservation
from vgpu_scheduler.state.selecting import SelectingObjects

__all__ = ["KnownPod", "StateReader", "UsedAmounts", "differences"]


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
        """Tell whether inter-pod terms, spread constraints or volumes see a difference in a newer observation."""
        before = self.pod
        return before.labels != pod.labels or before.spec is not pod.spec or before.deleting is not pod.deleting


class BoundPods:
    """Which pods are bound to each node as last observed, whatever is booked for them."""

    __slots__ = ("_on_node",)

    def __init__(self) -> None:
        self._on_node: dict[str, dict[str, None]] = {}

    def on(self, node: str) -> Iterable[str]:
        """Return the UIDs of the pods whose objects name a node."""
        return self._on_node.get(node, ())

    def move(self, uid: str, before: str, now: str) -> None:
        """Note that a pod names another node than before; an empty name stands for none."""
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
    """What is known, as it is now, and as it would be; :class:`State` is what changes it.

    Parameters
    ----------
    indexes
        What every reservation is booked in.
    """

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self.wakes = WakeSet()
        """Whom changes may help; a rebuild has one of its own."""
        self.nodes = indexes.nodes
        self.matrices = indexes.matrices
        """The devices of each dialect over the same node rows, so that a column means one thing."""
        self.quota_usage = indexes.quota_usage
        self.interpod = indexes.interpod
        self.volumes = indexes.volumes
        self.node_usage_if = HypotheticalUsage(indexes.nodes, indexes.matrices)
        """Says what would be in use of a node; each answer is void when the next is asked for."""
        self._in_flight: set[str] = set()
        self._pods: VersionedStore[str, KnownPod] = VersionedStore(self._in_flight.__contains__)
        self._uids: dict[str, str] = {}
        self._bound = BoundPods()
        self._node_objects: VersionedStore[str, Node] = VersionedStore()
        self._ledger = ReservationLedger(self._indexes, self._known_pod, self.wakes)
        self.unrequested = NonZeroRequests(self.nodes, self._ledger, self._known_pod)
        """What the pods of nodes are taken to use beyond what they request."""
        self._assumptions = Assumptions(self.nodes, self.matrices)
        self.nominations = Nominations()
        self.selecting = SelectingObjects()
        """Services and controllers; shared with rebuilds, for nothing that is held depends on them."""
        self.prices: Mapping[str, CardPrices] = {}
        """What cards are worth, by dialect, where that was learned."""
        self.price_epoch = 0
        """Rises whenever prices are replaced."""

    def replace_prices(self, prices: Mapping[str, CardPrices]) -> None:
        """Take in what cards are worth from now on, by dialect."""
        self.prices = prices
        self.price_epoch += 1

    def _known_pod(self, uid: str) -> Pod:
        return self._pods[uid].pod

    def held_cards(self, peers: Peers, dialect: str, vendors: frozenset[str]) -> PeerCards:
        """Return the cards of a dialect's vendors that some peers hold, kept up to date for as long as it is used."""
        holding = ((self._known_pod(reservation.uid), reservation) for reservation in self._ledger)
        waiting = ((self._known_pod(hold.uid), hold.reservation) for hold in self._ledger.room.holds)
        index = self._indexes.peers
        return PeerCards(index, index.of(peers, holding, waiting), dialect, vendors, self.nodes)

    def ignoring_peers(self) -> AbstractContextManager[None]:
        """Take all cards for free of pods that others share no card with, for the time of a question."""
        return self._indexes.peers.ignored()

    @property
    def devices(self) -> DeviceMatrix:
        """The devices of the dialect that is listed first."""
        return next(iter(self.matrices.values()))

    def matrix(self, dialect: str) -> DeviceMatrix:
        """Return the devices of a dialect; of the one that is listed first for an empty name."""
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
        """Yield the pods that are bound to a node as last observed, whatever is booked for them."""
        return (known for uid in self._bound.on(node) if (known := self._pods.get(uid)) is not None)

    def holds_something(self, uid: str) -> bool:
        """Tell whether a pod keeps others from something: by a reservation, or by its nomination."""
        return uid in self._ledger or uid in self.nominations

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
        """Return the pods that a consistent list of a version does not have; those with a write in flight are kept."""
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
        """Return the nodes that a consistent list of a version does not have."""
        return self._node_objects.missing(listed, version)

    def reservation(self, uid: str) -> Reservation | None:
        """Return what a pod holds, or None."""
        return self._ledger.get(uid)

    def reservations(self, node: str | None = None) -> Iterable[Reservation]:
        """Return all reservations, or those on one node, in no order to rely upon."""
        return iter(self._ledger) if node is None else self._ledger.on(node)

    def starting_pods(self, node: str) -> dict[str, int]:
        """Return the pods that hold something on a node beyond a decision and have neither started nor ended.

        Each UID has the number of the last change of its pod; they are in the order of these numbers, and who has
        seen all changes up to one need not look at those before.
        """
        return self._ledger.starting(node)

    def adjustment_if_gone(self, node: str, gone: Sequence[Reservation], open_: Collection[str]) -> Adjustment:
        """Return what is charged otherwise if some pods of a node were gone; see :class:`KeptRoom`."""
        return self._ledger.room.adjustment_if_gone(node, gone, open_)

    @property
    def holds(self) -> Holds:
        """Room that is kept for pods that are not bound yet."""
        return self._ledger.room.holds

    def unchanged_since_assumed(self, uid: str, pod: Pod) -> bool:
        """Tell whether an assumed placement needs no second look.

        That is so while the pod asks for the same, its node looks the same (labels, taints, allocatable, devices and
        their health), and nothing on the node is used beyond what it has, its ports included: other pods assumed since
        then were decided with this one in sight.
        """
        return self._assumptions.holds(self._ledger[uid], pod)

    def without(self, uids: Iterable[str]) -> AbstractContextManager[None]:
        """Release what some pods hold for the time of a question; pods that hold nothing may be named."""
        return self._ledger.without(uids)

    def having(self, reservation: Reservation) -> AbstractContextManager[None]:
        """Have a pod hold something for the time of a question."""
        return self._ledger.having(reservation)

    def counting_across_nodes(
        self, without: Sequence[Reservation] = (), added: Sequence[Reservation] = ()
    ) -> AbstractContextManager[None]:
        """Count other pods in what depends on more than one node, for a question; see :class:`ReservationLedger`."""
        return self._ledger.counting_across_nodes(without, added)

    def ledger(self, names: Iterable[str] | None = None) -> UsedAmounts:
        """Return the used amounts of every device in use, of all nodes or of some."""
        return read_ledger(self.nodes, self.matrices, self._node_names() if names is None else names)

    def over_capacity(self) -> dict[str, list[str]]:
        """Return the devices used beyond what they have, by node."""
        return over_capacity(self.nodes, self.matrices, self._node_names())

    def _node_names(self) -> Iterator[str]:
        return (node.name for node in self._node_objects)


UsedAmounts = dict[str, dict[str, Amounts]]
"""Node name to UUID to used amounts; devices with nothing used are left out.

A UUID that two dialects have used amounts of has the name of the later one before it, as in ``volcano/GPU-1``.
"""

Matrices = Mapping[str, DeviceMatrix]


def read_ledger(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> UsedAmounts:
    """Return the used amounts of every device in use, of the nodes among these names."""
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
    """Return, for each node where two ledgers differ, what either says of it."""
    return {
        name: ({name: ours.get(name, {})}, {name: theirs.get(name, {})})
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    }


def over_capacity(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the devices used beyond what they have, by node."""
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

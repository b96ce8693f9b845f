"""Nodes as columns: what Kubernetes' filters ask of every node, in arrays by row, and whom changes of a node help."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import PREFER_NO_SCHEDULE, HostPort, Node, Taint
from vgpu_scheduler.model import Hint
from vgpu_scheduler.state.columns import InternedColumn, NodeLabels
from vgpu_scheduler.state.images import NodeImages
from vgpu_scheduler.state.node_resources import HostPorts, NodeResources

__all__ = ["NodeTable", "changes"]


def changes(before: Node, after: Node) -> Hint:
    """Return what of all that filters look at differs between two observations of a node; NONE if nothing does."""
    if before.uid != after.uid:
        return Hint.NODE  # made anew
    found = Hint.NONE
    if before.labels != after.labels:
        found |= Hint.LABELS
    if before.taints != after.taints or before.unschedulable != after.unschedulable:
        found |= Hint.TAINTS
    if before.allocatable != after.allocatable:
        found |= Hint.ALLOCATABLE
    if before.declared_features != after.declared_features:
        found |= Hint.FEATURES
    return found


_FIRST_CAPACITY: Final = 16


class NodeTable:
    """Columns over nodes.

    A node keeps its row for as long as it is there; rows of removed nodes are reused. All arrays have ``capacity``
    rows, dead ones included, and are replaced when the table grows: read them from the table each time.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._nodes: list[Node | None] = [None] * _FIRST_CAPACITY
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))
        self._generation = 0
        self._resources = NodeResources(_FIRST_CAPACITY)
        self.ports = HostPorts()
        self._alive = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self._unschedulable = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self._version = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._clock = 0
        self._static_version = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._holders_noted = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(_FIRST_CAPACITY)
        self._soft_taints = 0
        self._features: InternedColumn[tuple[str, ...]] = InternedColumn(_FIRST_CAPACITY)
        self._labels = NodeLabels(_FIRST_CAPACITY)
        self.images = NodeImages(_FIRST_CAPACITY)
        self._ranked: tuple[int, NDArray[np.int64], NDArray[np.int64]] | None = None

    # Reading ---------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    @property
    def capacity(self) -> int:
        """Number of rows, dead ones included."""
        return self._alive.shape[0]

    @property
    def generation(self) -> int:
        """Changes when a node comes or goes."""
        return self._generation

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which rows hold a node; shape (capacity,)."""
        return self._alive

    @property
    def version(self) -> NDArray[np.int64]:
        """Version of each row, raised by all that can alter a decision about the node alone; shape (capacity,).

        All rows take their versions from one clock: no two changes have the same version, a later one has a higher one,
        and a remembered version means a remembered state, even when a row changes hands.
        """
        return self._version

    @property
    def clock(self) -> int:
        """The version of the last change of any row."""
        return self._clock

    def changed_since(self, clock: int) -> NDArray[np.int64]:
        """Return the live rows that have changed since the clock said so, ascending."""
        return np.flatnonzero((self._version > clock) & self._alive)

    @property
    def static_version(self) -> NDArray[np.int64]:
        """Like ``version``, for labels, taints, cordon and allocatable amounts only; shape (capacity,)."""
        return self._static_version

    @property
    def holders_version(self) -> NDArray[np.int64]:
        """Like ``version``; it rises, too, with what else matters of the pods there to those who have them end.

        Shape (capacity,).
        """
        return self._version + self._holders_noted

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """``spec.unschedulable`` of each row; shape (capacity,)."""
        return self._unschedulable

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """What each row offers, cpu in milli and all else in whole units; shape (capacity, resources).

        A column of it is contiguous, a row is not.
        """
        return self._resources.allocatable

    @property
    def used(self) -> NDArray[np.int64]:
        """What is charged to each row, in the units of ``allocatable``; shape (capacity, resources)."""
        return self._resources.used

    def offered(self) -> frozenset[str]:
        """Return the resources of which some node has more than nothing."""
        return self._resources.offered(self._alive)

    @property
    def taint_set(self) -> NDArray[np.int32]:
        """Position in ``taint_sets`` of each row's taints, -1 for dead rows; shape (capacity,)."""
        return self._taints.ids

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """The distinct tuples of taints."""
        return self._taints.values

    @property
    def taints(self) -> InternedColumn[tuple[Taint, ...]]:
        """The taints as a column."""
        return self._taints

    @property
    def any_soft_taints(self) -> bool:
        """Whether any node has a taint with the effect PreferNoSchedule."""
        return self._soft_taints > 0

    @property
    def features(self) -> InternedColumn[tuple[str, ...]]:
        """The declared features as a column."""
        return self._features

    def row(self, name: str) -> int | None:
        """Row of a node; None if it is not there."""
        return self._rows.get(name)

    def name(self, row: int) -> str:
        """Name of the node in a live row."""
        return self._node(row).name

    def rows(self) -> NDArray[np.int64]:
        """Live rows, ascending; shape (nodes,). Shared: do not write to it."""
        return self._ranking()[1]

    def rows_without(self, names: Collection[str]) -> NDArray[np.int64]:
        """Return the live rows but for those of some nodes, ascending; shape (n,)."""
        left_out = [row for name in names if (row := self.row(name)) is not None]
        return self.rows()[~np.isin(self.rows(), left_out)]

    @property
    def rank(self) -> NDArray[np.int64]:
        """Position of each row's name among the sorted names; ``capacity`` for dead rows; shape (capacity,).

        Sorted anew only after a node came or went.
        """
        return self._ranking()[2]

    # Resources -------------------------------------------------------------------------------------------------------

    @property
    def resources(self) -> Mapping[str, int]:
        """Column of each resource that has one."""
        return self._resources.columns

    def resource_column(self, name: str) -> int:
        """Column of a resource, made now if there is none."""
        return self._resources.column(name)

    def charge(self, row: int, requests: Mapping[str, int], pods: int = 1, ports: Sequence[HostPort] = ()) -> None:
        """Count a pod on a node.

        Parameters
        ----------
        row
            A live row.
        requests
            Amount per resource: cpu in milli, all others in whole units.
        pods
            How many pods it is; 0 if only amounts change.
        ports
            The host ports that it takes.
        """
        self._resources.charge(row, requests, pods, 1)
        self._tick(row)
        self.ports.charge(row, ports, 1)

    def discharge(self, row: int, requests: Mapping[str, int], pods: int = 1, ports: Sequence[HostPort] = ()) -> None:
        """Take back exactly what :meth:`charge` counted."""
        self._resources.charge(row, requests, pods, -1)
        self._tick(row)
        self.ports.charge(row, ports, -1)

    def charge_in(self, used: NDArray[np.int64], requests: Mapping[str, int], sign: int, pods: int = 1) -> None:
        """Count pods (``sign`` = 1), or take them back (-1), in what is used of a row elsewhere; shape (resources,)."""
        self._resources.charge_in(used, requests, pods, sign)

    def over_capacity(self, row: int) -> list[str]:
        """Return the resources that a live row offers and has given out more of than it has, sorted."""
        return self._resources.over_capacity(row, self._node(row).allocatable)

    # Labels ----------------------------------------------------------------------------------------------------------

    def label(self, key: str) -> InternedColumn[str]:
        """Values of a label as a column, which is kept up to date from the first time it is asked for."""
        return self._labels.column(key)

    def label_column(self, key: str) -> NDArray[np.int32]:
        """Value of a label as a position in ``label_values(key)``, -1 where it is absent; shape (capacity,)."""
        return self.label(key).ids

    def label_values(self, key: str) -> Sequence[str]:
        """Distinct values of a label."""
        return self.label(key).values

    # Changing --------------------------------------------------------------------------------------------------------

    def upsert(self, node: Node) -> Hint:
        """Take in an observation of a node.

        Returns
        -------
        Hint
            What of all that filters look at changed. A heartbeat changes nothing and keeps the versions; nor do images,
            which filters do not look at.
        """
        row = self._rows.get(node.name)
        if row is None:
            self._fill(self._new_row(node.name), node, None)
            return Hint.NODE
        old = self._node(row)
        changed = changes(old, node)
        if changed:
            self._fill(row, node, old)
        elif old.images != node.images:
            self._nodes[row] = node
            self.images.set(row, node.images)
        return changed

    def remove(self, name: str) -> bool:
        """Forget a node and all that is charged to it.

        Returns
        -------
        bool
            Whether it was there.
        """
        row = self._rows.pop(name, None)
        if row is None:
            return False
        self._soft_taints -= _has_soft_taint(self._node(row))
        self._nodes[row] = None
        self._free.append(row)
        self._resources.clear(row)
        self.ports.clear(row)
        self._alive[row] = False
        self._unschedulable[row] = False
        self._taints.set(row, None)
        self._features.set(row, None)
        self._labels.set(row, {})
        self.images.set(row, ())
        self.images.counted_anew()
        self._static_version[row] += 1
        self._tick(row)
        self._generation += 1
        return True

    def touch(self, row: int, *, static: bool = False) -> None:
        """Raise a row's version, and its static version if asked, for a change that this table does not see."""
        self._static_version[row] += int(static)
        self._tick(row)

    def note_holders(self, row: int) -> None:
        """Note that pods that hold something of a node were bound, or that their group has another priority."""
        self._holders_noted[row] += 1

    def _tick(self, row: int) -> None:
        self._clock += 1
        self._version[row] = self._clock

    # Inside ----------------------------------------------------------------------------------------------------------

    def _node(self, row: int) -> Node:
        node = self._nodes[row]
        if node is None:
            raise LookupError(f"row {row} holds no node")
        return node

    def _ranking(self) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Sort the names if a node came or went since; return the generation, the live rows and the ranks."""
        if self._ranked is None or self._ranked[0] != self._generation:
            live = np.flatnonzero(self._alive)
            by_name = [row for _, row in sorted(self._rows.items())]
            rank = np.full(self.capacity, self.capacity, dtype=np.int64)
            rank[by_name] = np.arange(len(by_name), dtype=np.int64)
            self._ranked = (self._generation, live, rank)
        return self._ranked

    def _new_row(self, name: str) -> int:
        if not self._free:
            self._grow(2 * self.capacity)
        row = self._free.pop()
        self._rows[name] = row
        self._alive[row] = True
        self._generation += 1
        self.images.counted_anew()
        return row

    def _fill(self, row: int, node: Node, old: Node | None) -> None:
        """Write the static columns of a row."""
        self._resources.offer(row, node.allocatable)
        self._nodes[row] = node
        self._unschedulable[row] = node.unschedulable
        self._taints.set(row, node.taints)
        self._soft_taints += _has_soft_taint(node) - (old is not None and _has_soft_taint(old))
        self._features.set(row, node.declared_features)
        self._labels.set(row, node.labels)
        self.images.set(row, node.images)
        self._static_version[row] += 1
        self._tick(row)

    def _grow(self, capacity: int) -> None:
        more = capacity - self.capacity
        self._free.extend(range(capacity - 1, self.capacity - 1, -1))
        self._nodes.extend([None] * more)
        self._alive = np.pad(self._alive, (0, more))
        self._unschedulable = np.pad(self._unschedulable, (0, more))
        self._version = np.pad(self._version, (0, more))
        self._static_version = np.pad(self._static_version, (0, more))
        self._holders_noted = np.pad(self._holders_noted, (0, more))
        self._resources.grow(capacity)
        self._taints.grow(capacity)
        self._features.grow(capacity)
        self._labels.grow(capacity)
        self.images.grow(capacity)
        self._ranked = None


def _has_soft_taint(node: Node) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in node.taints)

"""Nodes as columns: the node fields that filters read, in arrays by row, and the events that node changes cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import PREFER_NO_SCHEDULE, HostPort, Node, Taint
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.state.columns import InternedColumn, NodeLabels
from vgpu_scheduler.state.images import NodeImages
from vgpu_scheduler.state.node_resources import HostPorts, NodeResources


def changes(before: Node, after: Node) -> ClusterEvent:
    """Return which fields that filters read differ between two observations of a node; NONE if none does."""
    if before.uid != after.uid:
        return ClusterEvent.NODE_ADD  # deleted and created again
    found = ClusterEvent.NONE
    if before.labels != after.labels:
        found |= ClusterEvent.NODE_LABELS
    if before.taints != after.taints or before.unschedulable != after.unschedulable:
        found |= ClusterEvent.NODE_TAINTS
    if before.allocatable != after.allocatable:
        found |= ClusterEvent.NODE_ALLOCATABLE
    if before.declared_features != after.declared_features:
        found |= ClusterEvent.NODE_FEATURES
    return found


_FIRST_CAPACITY: Final = 16


class NodeTable:
    """Columns over nodes.

    A node keeps its row until it is removed; rows of removed nodes are reused. All arrays have ``capacity`` rows, dead
    ones included, and are replaced when the table grows: do not keep references to them.

    Attributes
    ----------
    generation
        Changes when a node comes or goes.
    alive
        Which rows hold a node; shape (capacity,).
    version
        Version of each row, raised by every change that can alter a decision about the node alone; shape (capacity,).
        All rows take their versions from one counter, so an equal version means an unchanged row, even if the row was
        reused for another node.
    latest_version
        The version of the last change of any row.
    static_version
        Like ``version``, for labels, taints, cordon and allocatable amounts only; shape (capacity,).
    unschedulable
        ``spec.unschedulable`` of each row; shape (capacity,).
    resources, ports, labels, taints, features, images
        Resources, host ports and other node fields, as columns.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._nodes: list[Node | None] = [None] * _FIRST_CAPACITY
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))
        self.generation = 0
        self.resources = NodeResources(_FIRST_CAPACITY)
        self.ports = HostPorts()
        self.alive = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.unschedulable = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        self.version = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.latest_version = 0
        self.static_version = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._holders_noted = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(_FIRST_CAPACITY)
        self._soft_taints = 0
        self.features: InternedColumn[tuple[str, ...]] = InternedColumn(_FIRST_CAPACITY)
        self.labels = NodeLabels(_FIRST_CAPACITY)
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
        return self.alive.shape[0]

    def changed_since(self, version: int) -> NDArray[np.int64]:
        """Return the live rows that have changed since a version, ascending."""
        return np.flatnonzero((self.version > version) & self.alive)

    @property
    def holders_version(self) -> NDArray[np.int64]:
        """Like ``version``, and also raised by changes that matter only to preemption; shape (capacity,).

        Such a change is a pod there that was bound or is being deleted, or a pod group with a new priority.
        """
        return self.version + self._holders_noted

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """Allocatable amounts of each row, cpu in milli, all else in whole units; shape (capacity, resources).

        Columns are contiguous, rows are not.
        """
        return self.resources.allocatable

    @property
    def used(self) -> NDArray[np.int64]:
        """What is charged to each row, in the units of ``allocatable``; shape (capacity, resources)."""
        return self.resources.used

    def offered(self) -> frozenset[str]:
        """Return the resources of which some node has more than 0."""
        return self.resources.offered(self.alive)

    @property
    def any_soft_taints(self) -> bool:
        """Whether any node has a taint with the effect PreferNoSchedule."""
        return self._soft_taints > 0

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
        """Return the live rows except those of some nodes, ascending; shape (n,)."""
        left_out = [row for name in names if (row := self.row(name)) is not None]
        return self.rows()[~np.isin(self.rows(), left_out)]

    @property
    def name_order(self) -> NDArray[np.int64]:
        """Position of each row's name among the sorted names; ``capacity`` for dead rows; shape (capacity,).

        Sorted anew only after a node came or went.
        """
        return self._ranking()[2]

    # Resources -------------------------------------------------------------------------------------------------------

    def charge(
        self, row: int, requests: Mapping[str, int], pods: int = 1, ports: Sequence[HostPort] = (), sign: int = 1
    ) -> None:
        """Count a pod on a node (``sign`` = 1), or take back exactly what was counted (-1).

        Parameters
        ----------
        row
            A live row.
        requests
            Amount per resource: cpu in milli, all others in whole units.
        pods
            The number of pods to count; 0 if only amounts change.
        ports
            The host ports that it takes.
        """
        self.resources.charge(row, requests, pods, sign)
        self._tick(row)
        self.ports.charge(row, ports, sign)

    # Changing --------------------------------------------------------------------------------------------------------

    def upsert(self, node: Node) -> ClusterEvent:
        """Take in an observation of a node.

        Returns
        -------
        ClusterEvent
            The changes that filters can see. Heartbeats and new images are none, and keep the versions.
        """
        row = self._rows.get(node.name)
        if row is None:
            self._fill(self._new_row(node.name), node, None)
            return ClusterEvent.NODE_ADD
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
        self.resources.clear(row)
        self.ports.clear(row)
        self.alive[row] = False
        self.unschedulable[row] = False
        self.taints.set(row, None)
        self.features.set(row, None)
        self.labels.set(row, {})
        self.images.set(row, ())
        self.images.counted_anew()
        self.static_version[row] += 1
        self._tick(row)
        self.generation += 1
        return True

    def touch(self, row: int, *, static: bool = False) -> None:
        """Raise a row's version (and its static version if ``static``) for a change outside this table."""
        self.static_version[row] += int(static)
        self._tick(row)

    def note_holders(self, row: int) -> None:
        """Raise ``holders_version``: a pod there was bound or is being deleted, or its group's priority changed."""
        self._holders_noted[row] += 1

    def _tick(self, row: int) -> None:
        self.latest_version += 1
        self.version[row] = self.latest_version

    # Inside ----------------------------------------------------------------------------------------------------------

    def _node(self, row: int) -> Node:
        node = self._nodes[row]
        if node is None:
            raise LookupError(f"row {row} holds no node")
        return node

    def _ranking(self) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Sort the names if a node came or went since; return the generation, the live rows and the ranks."""
        if self._ranked is None or self._ranked[0] != self.generation:
            live = np.flatnonzero(self.alive)
            by_name = [row for _, row in sorted(self._rows.items())]
            rank = np.full(self.capacity, self.capacity, dtype=np.int64)
            rank[by_name] = np.arange(len(by_name), dtype=np.int64)
            self._ranked = (self.generation, live, rank)
        return self._ranked

    def _new_row(self, name: str) -> int:
        if not self._free:
            self._grow(2 * self.capacity)
        row = self._free.pop()
        self._rows[name] = row
        self.alive[row] = True
        self.generation += 1
        self.images.counted_anew()
        return row

    def _fill(self, row: int, node: Node, old: Node | None) -> None:
        """Write the static columns of a row."""
        self.resources.offer(row, node.allocatable)
        self._nodes[row] = node
        self.unschedulable[row] = node.unschedulable
        self.taints.set(row, node.taints)
        self._soft_taints += _has_soft_taint(node) - (old is not None and _has_soft_taint(old))
        self.features.set(row, node.declared_features)
        self.labels.set(row, node.labels)
        self.images.set(row, node.images)
        self.static_version[row] += 1
        self._tick(row)

    def _grow(self, capacity: int) -> None:
        more = capacity - self.capacity
        self._free.extend(range(capacity - 1, self.capacity - 1, -1))
        self._nodes.extend([None] * more)
        self.alive = np.pad(self.alive, (0, more))
        self.unschedulable = np.pad(self.unschedulable, (0, more))
        self.version = np.pad(self.version, (0, more))
        self.static_version = np.pad(self.static_version, (0, more))
        self._holders_noted = np.pad(self._holders_noted, (0, more))
        self.resources.grow(capacity)
        self.taints.grow(capacity)
        self.features.grow(capacity)
        self.labels.grow(capacity)
        self.images.grow(capacity)
        self._ranked = None


def _has_soft_taint(node: Node) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in node.taints)

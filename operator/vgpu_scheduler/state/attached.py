"""Volumes attached to each node by CSI driver, and the attach limits of the drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import AttachedVolume, CSINode
from vgpu_scheduler.state.columns import InternedColumn

UNLIMITED: Final = 1 << 31
"""Stands for no limit; limits are int32."""


class DriverColumns:
    """One driver's columns over node rows.

    Attributes
    ----------
    limit : NDArray[int64], shape (rows,)
        How many volumes the driver can attach; :data:`UNLIMITED` where it states no limit.
    remaining : NDArray[int64], shape (rows,)
        How many more it can attach; negative where the limit is exceeded.
    """

    __slots__ = ("limit", "remaining")

    def __init__(self, rows: int) -> None:
        self.limit: NDArray[np.int64] = np.full(rows, UNLIMITED, dtype=np.int64)
        self.remaining: NDArray[np.int64] = self.limit.copy()

    def set_limit(self, row: int, limit: int) -> None:
        """Set the driver's attach limit on a node."""
        self.remaining[row] += limit - self.limit[row]
        self.limit[row] = limit

    def grow(self, rows: int) -> None:
        """Make room for more rows."""
        more = rows - self.limit.shape[0]
        self.limit = np.pad(self.limit, (0, more), constant_values=UNLIMITED)
        self.remaining = np.pad(self.remaining, (0, more), constant_values=UNLIMITED)


class AttachedVolumes:
    """The volumes attached to each node: those that its pods use or VolumeAttachments name, each counted once.

    Columns exist for drivers with a limit on some node. Attached volumes are kept by node name, even for unknown nodes.
    """

    def __init__(self) -> None:
        self._by_pods: dict[str, dict[AttachedVolume, int]] = {}
        self._attachments: dict[str, dict[AttachedVolume, int]] = {}
        self._nodes_of: dict[AttachedVolume, dict[str, None]] = {}  # of volumes that pods use
        self._csi_nodes: dict[str, CSINode] = {}
        self._limited: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._capacity = 0
        self._columns: dict[str, DriverColumns] = {}
        self._gained: dict[tuple[str, int], int] = {}  # by driver and row: gain in room since the last take_freed
        self._shared = False
        self.migrated: InternedColumn[frozenset[str]] = InternedColumn(0)
        """The in-tree plugins that are migrated to CSI on each node; absent for nodes without a CSINode."""

    # Reading ---------------------------------------------------------------------------------------------------------

    def driver(self, name: str, capacity: int) -> DriverColumns | None:
        """Return the columns of a driver, with this many rows; None if no node limits it."""
        self._grow(capacity)
        return self._columns.get(name)

    def migrated_column(self, capacity: int) -> InternedColumn[frozenset[str]]:
        """Return the column of migrated plugins with this many rows."""
        self._grow(capacity)
        return self.migrated

    def used_on(self, volume: AttachedVolume) -> Iterable[int]:
        """Return the rows of the nodes with a pod that uses a volume."""
        return (self._rows[node] for node in self._nodes_of.get(volume, ()) if node in self._rows)

    def as_values(self) -> object:
        """Return everything derived from the objects and the pods, for comparison."""
        columns = {
            name: {
                node: (int(column.limit[row]), int(column.remaining[row]))
                for node, row in self._rows.items()
                if column.remaining[row] != UNLIMITED
            }
            for name, column in self._columns.items()
        }
        migrated = {
            node: self.migrated.values[self.migrated.ids[row]]
            for node, row in self._rows.items()
            if self.migrated.ids[row] >= 0
        }
        nodes_of = {volume: set(nodes) for volume, nodes in self._nodes_of.items()}
        return self._by_pods, self._attachments, nodes_of, columns, migrated

    def take_freed(self) -> bool:
        """Tell whether some driver can attach more volumes to a node than at the last call.

        Also true after a pod has started to use a volume that was attached already or exceeds the limit: other pods can
        share that volume.
        """
        gained, shared = self._gained, self._shared
        self._gained, self._shared = {}, False
        return shared or any(more > 0 and self._has_room(driver, row) for (driver, row), more in gained.items())

    # Events ----------------------------------------------------------------------------------------------------------

    def use(self, node: str, volume: AttachedVolume, change: int) -> None:
        """Count one pod more (1) or less (-1) that uses a volume on a node."""
        first_or_last = self._count(self._by_pods, node, volume, change, self._attachments)
        if first_or_last:
            nodes = self._nodes_of.setdefault(volume, {})
            if change > 0:
                nodes[node] = None
                self._note_shared(node, volume)
            else:
                del nodes[node]
                if not nodes:
                    del self._nodes_of[volume]

    def attach(self, node: str, volume: AttachedVolume, change: int) -> None:
        """Count one VolumeAttachment more (1) or less (-1)."""
        self._count(self._attachments, node, volume, change, self._by_pods)

    def observe_node(self, node: str, said: CSINode | None) -> None:
        """Take in the CSINode of a node; None if it was removed."""
        old, new = self._limits_on(node), {} if said is None else said.limits
        if said is None:
            self._csi_nodes.pop(node, None)
        else:
            self._csi_nodes[node] = said
        for driver in new.keys() - old.keys():
            self._limited[driver] = self._limited.get(driver, 0) + 1
            if driver not in self._columns:
                self._add_column(driver)
        row = self._rows.get(node)
        if row is not None:
            self._write_limits(node, row)
            for driver in old.keys() - new.keys():
                self._columns[driver].set_limit(row, UNLIMITED)
            for driver in old.keys() | new.keys():
                self._gain(driver, row, new.get(driver, UNLIMITED) - old.get(driver, UNLIMITED))
        for driver in old.keys() - new.keys():
            self._limited[driver] -= 1
            if not self._limited[driver]:
                del self._limited[driver], self._columns[driver]

    def node_came(self, node: str, row: int) -> None:
        """Take in that a node is there now."""
        self._rows[node] = row
        self._grow(row + 1)
        self._write_limits(node, row)
        for name, column in self._columns.items():
            column.remaining[row] = column.limit[row] - self._used(node, name)

    def node_went(self, node: str) -> None:
        """Take in that a node is not there any more."""
        row = self._rows.pop(node, None)
        if row is None:
            return
        for column in self._columns.values():
            column.limit[row] = column.remaining[row] = UNLIMITED

    # Inside ----------------------------------------------------------------------------------------------------------

    def _count(
        self,
        counts: dict[str, dict[AttachedVolume, int]],
        node: str,
        volume: AttachedVolume,
        change: int,
        others: Mapping[str, Mapping[AttachedVolume, int]],
    ) -> bool:
        """Change a count; return whether it became or stopped being 0."""
        here = counts.setdefault(node, {})
        before = here.get(volume, 0)
        if before + change:
            here[volume] = before + change
        else:
            del here[volume]
            if not here:
                del counts[node]
        if before and before + change:
            return False
        column, row = self._columns.get(volume[0]), self._rows.get(node)
        if column is not None and row is not None and volume not in others.get(node, {}):
            column.remaining[row] -= change
            if column.limit[row] < UNLIMITED:
                self._gain(volume[0], row, -change)
        return True

    def _gain(self, driver: str, row: int, more: int) -> None:
        self._gained[driver, row] = self._gained.get((driver, row), 0) + more

    def _has_room(self, driver: str, row: int) -> bool:
        column = self._columns.get(driver)
        return column is None or bool(column.remaining[row] > 0)

    def _note_shared(self, node: str, volume: AttachedVolume) -> None:
        """Note that a pod has started to use a volume, if that may help other pods that need the same volume."""
        column, row = self._columns.get(volume[0]), self._rows.get(node)
        if column is not None and row is not None and column.limit[row] < UNLIMITED:
            self._shared |= volume in self._attachments.get(node, {}) or bool(column.remaining[row] < 0)

    def _limits_on(self, node: str) -> Mapping[str, int]:
        said = self._csi_nodes.get(node)
        return {} if said is None else said.limits

    def _used(self, node: str, driver: str) -> int:
        volumes = {*self._by_pods.get(node, ()), *self._attachments.get(node, ())}
        return sum(name == driver for name, _ in volumes)

    def _write_limits(self, node: str, row: int) -> None:
        said = self._csi_nodes.get(node)
        self.migrated.set(row, None if said is None else said.migrated_plugins)
        for driver, limit in self._limits_on(node).items():
            self._columns[driver].set_limit(row, limit)

    def _add_column(self, driver: str) -> None:
        column = self._columns[driver] = DriverColumns(self._capacity)
        for node, row in self._rows.items():
            column.remaining[row] -= self._used(node, driver)

    def _grow(self, capacity: int) -> None:
        if capacity <= self._capacity:
            return
        self._capacity = max(capacity, 2 * self._capacity, 16)
        self.migrated.grow(self._capacity)
        for column in self._columns.values():
            column.grow(self._capacity)

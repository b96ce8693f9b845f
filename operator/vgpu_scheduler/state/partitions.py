"""Which devices of nodes are given out together, as tables: each distinct one once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgpu_scheduler.kernels import NO_TABLE, PartitionTables, partition_mask
from vgpu_scheduler.model import Device, PartitionTable


class PartitionRegister:
    """Partition tables by number; nodes of one model share theirs.

    Attributes
    ----------
    tables : PartitionTables
        The tables as the kernels take them.
    """

    def __init__(self) -> None:
        self._numbers: dict[PartitionTable, int] = {}
        self.tables = _NO_TABLES

    def number(self, devices: Sequence[Device]) -> int:
        """Return the number of the table that devices of a node have, or ``NO_TABLE``."""
        table = next((device.partitions for device in devices if device.partitions is not None), None)
        if table is None:
            return NO_TABLE
        if table not in self._numbers:
            self._numbers[table] = len(self._numbers)
            self.tables = _joined(self.tables, _columns(table))
        return self._numbers[table]


def _columns(table: PartitionTable) -> PartitionTables:
    listed = sorted(table.partitions, key=lambda each: (len(each.members), each.score))
    rows = [
        (len(each.members), partition_mask(each.members), each.score, -1 if each.bandwidth is None else each.bandwidth)
        for each in listed
    ]
    size, mask, score, bandwidth = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
    first, last = np.zeros(1, dtype=np.int64), np.full(1, len(listed), dtype=np.int64)
    return PartitionTables(first, last, np.array([table.only], dtype=np.bool_), size, mask, score, bandwidth)


def _joined(tables: PartitionTables, more: PartitionTables) -> PartitionTables:
    """Return tables with those of others after them."""
    count = tables.size.shape[0]
    shifted = more._replace(first=more.first + count, last=more.last + count)
    return PartitionTables(*(np.concatenate(both) for both in zip(tables, shifted, strict=True)))


_NONE = np.zeros(0, dtype=np.int64)
_NO_TABLES = PartitionTables(_NONE, _NONE, np.zeros(0, dtype=np.bool_), _NONE, _NONE, _NONE, _NONE)

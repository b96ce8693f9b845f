"""Partition tables of nodes (which devices are given out together), deduplicated."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels import PartitionTables, partition_mask
from vgpu_scheduler.model import PartitionTable
from vgpu_scheduler.state.columns import InternedColumn


class PartitionRegister(InternedColumn[PartitionTable]):
    """For each device the partition table of its node, if any; nodes of one model share a table."""

    __slots__ = ("_joined", "_joined_of")

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._joined = _NO_TABLES
        self._joined_of = (self.epoch, 0)

    @property
    def tables(self) -> PartitionTables:
        """The tables in the form that kernels read, in the order of their ids."""
        epoch, known = self._joined_of
        if epoch != self.epoch:
            self._joined, known = _NO_TABLES, 0
        if known < len(self.values):
            self._joined = _joined(self._joined, *map(_columns, self.values[known:]))
        self._joined_of = (self.epoch, len(self.values))
        return self._joined


def _columns(table: PartitionTable) -> PartitionTables:
    listed = sorted(table.partitions, key=lambda each: (len(each.members), each.score))
    rows = [
        (len(each.members), partition_mask(each.members), each.score, -1 if each.bandwidth is None else each.bandwidth)
        for each in listed
    ]
    size, mask, score, bandwidth = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
    first, last = np.zeros(1, dtype=np.int64), np.full(1, len(listed), dtype=np.int64)
    return PartitionTables(first, last, np.array([table.only], dtype=np.bool_), size, mask, score, bandwidth)


def _joined(*tables: PartitionTables) -> PartitionTables:
    """Return the concatenation of tables."""
    before = np.cumsum([0, *(each.size.shape[0] for each in tables)])
    shifted = (
        each._replace(first=each.first + count, last=each.last + count)
        for each, count in zip(tables, before, strict=False)
    )
    return PartitionTables(*(np.concatenate(column) for column in zip(*shifted, strict=True)))


_NONE = np.zeros(0, dtype=np.int64)
_NO_TABLES = PartitionTables(_NONE, _NONE, np.zeros(0, dtype=np.bool_), _NONE, _NONE, _NONE, _NONE)

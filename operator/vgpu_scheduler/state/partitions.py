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
        self.tables = _columns([])

    def number(self, devices: Sequence[Device]) -> int:
        """Return the number of the table that devices of a node have, or ``NO_TABLE``."""
        table = next((device.partitions for device in devices if device.partitions is not None), None)
        if table is None:
            return NO_TABLE
        if table not in self._numbers:
            self._numbers[table] = len(self._numbers)
            self.tables = _columns(list(self._numbers))
        return self._numbers[table]


def _columns(tables: Sequence[PartitionTable]) -> PartitionTables:
    listed = [sorted(table.partitions, key=lambda each: (len(each.members), each.score)) for table in tables]
    ends = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    rows = [
        (len(each.members), partition_mask(each.members), each.score, -1 if each.bandwidth is None else each.bandwidth)
        for table in listed
        for each in table
    ]
    size, mask, score, bandwidth = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
    return PartitionTables(
        first=ends[:-1].copy(),
        last=ends[1:].copy(),
        only=np.array([table.only for table in tables], dtype=np.bool_),
        size=size,
        mask=mask,
        score=score,
        bandwidth=bandwidth,
    )

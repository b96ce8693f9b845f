"""Entries of node rows in flat columns, as kernels read them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SIZE: Final = 64


class RowSegments:
    """Any number of entries for each node row; the entries of a row are contiguous.

    A row whose entries are replaced gets a segment at the end of the columns. When the columns are full, live segments
    move to the beginning of larger columns.

    Parameters
    ----------
    shapes
        The type of each column, and its width; 0 for a column without a second dimension.
    size
        Initial capacity in entries.
    absent
        The value of :attr:`first` and :attr:`last` for a row without entries.

    Attributes
    ----------
    first, last
        By row, shape (N,), the number of its first entry, and of the entry after its last.
    columns
        The columns. All arrays may be replaced by each change.
    """

    def __init__(self, *shapes: tuple[type[np.generic], int], size: int = _SIZE, absent: int = 0) -> None:
        self._shapes = shapes
        self._fewest = size
        self._absent = absent
        self.first = self.last = np.zeros(0, dtype=np.int64)
        self._end = self._live = 0
        self.columns = self._columns(size)

    def _columns(self, size: int) -> list[NDArray[Any]]:
        return [np.zeros((size, width) if width else size, dtype=kind) for kind, width in self._shapes]

    def ensure_rows(self, rows: int) -> None:
        """Make room for node rows up to ``rows``."""
        more = rows - self.first.shape[0]
        if more > 0:
            self.first, self.last = (
                np.pad(column, (0, more), constant_values=self._absent) for column in (self.first, self.last)
            )

    def replace(self, row: int, count: int) -> slice:
        """Give a row ``count`` entries; return their positions, which the caller must overwrite."""
        self._live += count - int(self.last[row] - self.first[row])
        self.first[row] = self.last[row] = self._absent
        if self._end + count > self.columns[0].shape[0]:
            self._pack(max(self._fewest, 2 * self._live))
        begin, self._end = self._end, self._end + count
        if count:
            self.first[row], self.last[row] = begin, self._end
        return slice(begin, self._end)

    def _pack(self, size: int) -> None:
        """Move all live entries to the beginning of new columns."""
        kept = np.flatnonzero(self.last > self.first)
        kept = kept[np.argsort(self.first[kept])]
        taken = [np.arange(self.first[row], self.last[row]) for row in kept.tolist()]
        source: NDArray[np.int64] = np.concatenate([np.empty(0, dtype=np.int64), *taken])
        old, self.columns = self.columns, self._columns(size)
        for column, before in zip(self.columns, old, strict=True):
            column[: source.shape[0]] = before[source]
        lengths = self.last[kept] - self.first[kept]
        self.last[kept] = np.cumsum(lengths)
        self.first[kept] = self.last[kept] - lengths
        self._end = int(source.shape[0])

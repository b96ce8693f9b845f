"""The labels of nodes as columns, made for those that somebody asks about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from vgpu_scheduler.state.columns import InternedColumn

__all__ = ["NodeLabels"]

_NONE: Mapping[str, str] = {}


class NodeLabels:
    """A column for each label that was asked about, by node row.

    Parameters
    ----------
    rows
        Number of rows.
    """

    __slots__ = ("_absent", "_columns", "_keys", "_labels", "_rows")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._labels: dict[int, Mapping[str, str]] = {}
        self._columns: dict[str, InternedColumn[str]] = {}
        self._keys: Counter[str] = Counter()
        self._absent: InternedColumn[str] = InternedColumn(rows)

    def column(self, key: str) -> InternedColumn[str]:
        """Values of a label as a column, which is kept up to date from the first time it is asked for.

        A label that no node has costs nothing: whoever may create pods may select by any number of those.
        """
        column = self._columns.get(key)
        if column is not None:
            return column
        if key not in self._keys:
            return self._absent
        column = self._columns[key] = InternedColumn(self._rows)
        for row, labels in self._labels.items():
            column.set(row, labels.get(key))
        return column

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Give a row the labels of its node; empty ones when the node is gone."""
        old = self._labels.get(row, _NONE)
        if old == labels:
            return
        self._keys.update(labels.keys())
        for key in old:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
        if labels:
            self._labels[row] = labels
        else:
            del self._labels[row]
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def grow(self, rows: int) -> None:
        """Make room for more rows, without labels."""
        self._rows = rows
        self._absent.grow(rows)
        for column in self._columns.values():
            column.grow(rows)

    def copy(self) -> NodeLabels:
        """Return a copy that can change on its own."""
        twin = NodeLabels(0)
        twin._rows = self._rows
        twin._labels = dict(self._labels)
        twin._columns = {key: column.copy() for key, column in self._columns.items()}
        twin._keys = Counter(self._keys)
        twin._absent = self._absent.copy()
        return twin

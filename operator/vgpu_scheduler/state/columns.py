"""Columns of interned values, one small integer per row, and such columns for node labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


ABSENT: Final = -1
"""The id of rows without a value."""

_SMALLEST_LIMIT: Final = 64

_Value = TypeVar("_Value", bound=Hashable)


class InternedColumn(Generic[_Value]):
    """One value per row, stored as an id into a table of distinct values.

    A predicate evaluates each *value* once and then looks up each *row* by its id. Values that no row has any more are
    dropped when the table has doubled, so that a label that keeps changing cannot grow it forever; ids then change and
    ``epoch`` rises.

    Attributes
    ----------
    ids : NDArray[int32], shape (rows,)
        Id of each row's value, -1 where there is none. Replaced when the column grows: do not keep it.
    epoch : int
        Changes whenever existing ids change their meaning.
    version : int
        Rises whenever some row's id changes; never goes back.
    """

    __slots__ = ("_index", "_limit", "_values", "epoch", "ids", "version")

    def __init__(self, rows: int) -> None:
        self.ids: NDArray[np.int32] = np.full(rows, ABSENT, dtype=np.int32)
        self.epoch = 0
        self.version = 0
        self._values: list[_Value] = []
        self._index: dict[_Value, int] = {}
        self._limit = _SMALLEST_LIMIT

    @property
    def values(self) -> Sequence[_Value]:
        """The distinct values; an id is a position in it."""
        return self._values

    def find(self, value: _Value) -> int | None:
        """Id of a value; None if no row ever had it."""
        return self._index.get(value)

    def set(self, row: int, value: _Value | None) -> None:
        """Set the value of a row; None for no value."""
        value_id = ABSENT if value is None else self._id(value)
        if self.ids[row] != value_id:
            self.ids[row] = value_id
            self.version += 1

    def fill(self, rows: slice, value: _Value | None) -> None:
        """Set the same value in contiguous rows; None for no value."""
        self.ids[rows] = ABSENT if value is None else self._id(value)
        self.version += 1

    def grow(self, rows: int) -> None:
        """Make room for more rows, without values."""
        self.move(np.arange(self.ids.shape[0]), rows)

    def move(self, taken: NDArray[np.int64], rows: int) -> None:
        """Move some rows to the beginning, in this order, and resize to ``rows`` rows; other rows get no values."""
        ids = np.full(rows, ABSENT, dtype=np.int32)
        ids[: taken.shape[0]] = self.ids[taken]
        self.ids = ids

    def _id(self, value: _Value) -> int:
        """Return the id of a value, assigning one if it has none."""
        value_id = self._index.get(value)
        if value_id is None:
            if len(self._values) >= self._limit:
                self._drop_unused()
            value_id = self._index[value] = len(self._values)
            self._values.append(value)
        return value_id

    def _drop_unused(self) -> None:
        used = np.unique(self.ids[self.ids != ABSENT])
        renumbered = np.full(len(self._values) + 1, ABSENT, dtype=np.int32)
        renumbered[used] = np.arange(used.shape[0], dtype=np.int32)
        self.ids = renumbered[self.ids]  # the extra last entry maps ABSENT to itself
        self._values = [self._values[value_id] for value_id in used.tolist()]
        self._index = {value: value_id for value_id, value in enumerate(self._values)}
        self._limit = max(_SMALLEST_LIMIT, 2 * len(self._values))
        self.epoch += 1
        self.version += 1


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
        """Return the values of a label as a column, kept up to date from the first call on.

        A label that no node has costs nothing, because pods may select by any number of such labels.
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

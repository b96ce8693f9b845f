"""Items (free volumes, storage capacities) with an amount and a node selector, indexed for lookup by node.

Nearly all node selectors list values of one label (a zone, a host name). Items with such selectors are indexed by the
values of that label, so that one pass over the label's column counts them for all nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import NodeSelector, Operator
from vgpu_scheduler.state.columns import InternedColumn
from vgpu_scheduler.state.nodes import NodeTable

Item = tuple[int, str]
"""An amount, and the name of the item."""
Matches = Callable[[NodeSelector, NDArray[np.int64]], NDArray[np.bool_]]
"""Tells for node rows whether a selector selects them."""

_AMOUNTS: Final = 4
"""How many of the largest amounts are kept at least: few pods have more claims than that."""
_NOTHING: Final = -1
"""Fills the table where there are fewer items."""


def from_size(items: Sequence[Item], size: int) -> int:
    """Return the position of the first of some sorted items that has at least an amount."""
    return bisect_left(items, (size, ""))


@dataclass(slots=True)
class _Table:
    """The largest amounts for each value of a label, descending; the last entry is for nodes without the label.

    Attributes
    ----------
    largest : NDArray[int64], shape (amounts, values + 1)
        :data:`_NOTHING` where there are fewer items.
    """

    column: InternedColumn[str]
    epoch: int
    largest: NDArray[np.int64]


class AmountsByTopology:
    """Items at nodes, with a table of the largest amounts per label value to count items of at least some amount."""

    __slots__ = ("_by_label", "_everywhere", "_others", "_tables")

    def __init__(self) -> None:
        self._everywhere: list[Item] = []
        self._by_label: dict[str, dict[str, list[Item]]] = {}
        self._others: dict[NodeSelector, list[Item]] = {}
        self._tables: dict[str, _Table] = {}

    def __bool__(self) -> bool:
        return bool(self._everywhere or self._by_label or self._others)

    def add(self, selector: NodeSelector | None, item: Item) -> None:
        """Add an item at the nodes that a selector selects; None selects all."""
        label = _one_label(selector)
        if selector is None:
            insort(self._everywhere, item)
        elif label is None:
            insort(self._others.setdefault(selector, []), item)
        else:
            key, values = label
            by_value = self._by_label.setdefault(key, {})
            for value in values:
                insort(by_value.setdefault(value, []), item)
                self._changed(key, value)

    def discard(self, selector: NodeSelector | None, item: Item) -> None:
        """Remove an item that was added with the same selector."""
        label = _one_label(selector)
        if selector is None:
            _take(self._everywhere, item)
        elif label is None:
            if not _take(self._others[selector], item):
                del self._others[selector]
        else:
            key, values = label
            by_value = self._by_label[key]
            for value in values:
                if not _take(by_value[value], item):
                    del by_value[value]
                self._changed(key, value)
            if not by_value:
                del self._by_label[key]
                self._tables.pop(key, None)

    def at(self, labels: Mapping[str, str]) -> Iterator[Sequence[Item]]:
        """Yield the items at a node with these labels, in sorted lists; an item is in at most one of them."""
        yield self._everywhere
        for key, by_value in self._by_label.items():
            yield by_value.get(labels.get(key, ""), ()) if key in labels else ()
        for selector, items in self._others.items():
            if selector.matches("", labels):
                yield items

    def count(
        self, nodes: NodeTable, rows: NDArray[np.int64], matches: Matches, size: int, at_most: int = 1
    ) -> NDArray[np.int64]:
        """Return how many items of at least an amount are at each of the rows; shape as ``rows``.

        Parameters
        ----------
        size
            The amount.
        at_most
            The result need not be exact above this number.
        """
        size = max(size, 0)
        found = np.full(rows.shape[0], _number(self._everywhere, size), dtype=np.int64)
        for key in self._by_label:
            column = nodes.labels.column(key)
            largest = self._table(key, column, at_most)[:at_most]
            found += np.count_nonzero(largest >= size, axis=0).take(column.ids.take(rows))
        for selector, items in self._others.items():
            found += np.where(matches(selector, rows), _number(items, size), 0)
        return found

    def as_values(self) -> object:
        """Return all items, for comparison."""
        return deepcopy((self._everywhere, self._by_label, self._others))

    def _table(self, key: str, column: InternedColumn[str], amounts: int) -> NDArray[np.int64]:
        """Return the ``amounts`` largest amounts (or more) for each value of a label."""
        table, values = self._tables.get(key), len(column.values)
        if table is None or table.column is not column or table.epoch != column.epoch or len(table.largest) < amounts:
            largest = np.full((max(amounts, _AMOUNTS), values + 1), _NOTHING, dtype=np.int64)
            table = self._tables[key] = _Table(column, column.epoch, largest)
            for value, items in self._by_label[key].items():
                _write(table, value, items)
        elif table.largest.shape[1] != values + 1:
            first = table.largest.shape[1] - 1
            table.largest = np.pad(table.largest, ((0, 0), (0, values - first)), constant_values=_NOTHING)
            by_value = self._by_label[key]
            for value in column.values[first:]:
                _write(table, value, by_value.get(value, ()))
        return table.largest

    def _changed(self, key: str, value: str) -> None:
        table = self._tables.get(key)
        if table is not None:
            _write(table, value, self._by_label[key].get(value, ()))


def _write(table: _Table, value: str, items: Sequence[Item]) -> None:
    value_id = table.column.find(value)
    if value_id is not None and value_id < table.largest.shape[1] - 1:
        amounts = [amount for amount, _ in items[: -len(table.largest) - 1 : -1]]
        table.largest[:, value_id] = _NOTHING
        table.largest[: len(amounts), value_id] = amounts


def _number(items: Sequence[Item], size: int) -> int:
    return len(items) - from_size(items, size)


def _one_label(selector: NodeSelector | None) -> tuple[str, frozenset[str]] | None:
    """Return the label and the values of a selector that is a single In requirement; None for other selectors."""
    if selector is None or len(selector.terms) != 1 or len(selector.terms[0].expressions) != 1:
        return None
    if selector.terms[0].fields:
        return None
    (requirement,) = selector.terms[0].expressions
    return (requirement.key, requirement.values) if requirement.operator is Operator.IN else None


def _take(items: list[Item], item: Item) -> bool:
    """Remove an item from a sorted list; return whether others are left."""
    position = bisect_left(items, item)
    assert items[position] == item, f"{item[1]} is not there"
    del items[position]
    return bool(items)

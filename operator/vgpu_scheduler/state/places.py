"""Things that are at some nodes, each with an amount, found by node without asking every one of them.

What says at which nodes a thing is, is a selector over node labels. Nearly all of them list values of one label (a
zone, a host name); those are kept by that label's values, so that all nodes are asked in one pass over its column.
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

__all__ = ["Item", "Matches", "Measure", "Places"]

Item = tuple[int, str]
"""An amount, and the name of the thing."""
Matches = Callable[[NodeSelector, NDArray[np.int64]], NDArray[np.bool_]]
"""Tells for node rows whether a selector selects them."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is asked of the things at a node.

    Attributes
    ----------
    of
        Returns the measure of some things, of which there is at least one; they are sorted.
    nothing
        The measure where there is none.
    combine
        Makes one measure of two, in place of the first.
    """

    of: Callable[[Sequence[Item]], int]
    nothing: int
    combine: np.ufunc


HOW_MANY: Final = Measure(len, 0, np.add)
LARGEST: Final = Measure(lambda items: items[-1][0], -1, np.maximum)


@dataclass(slots=True)
class _Table:
    """The measure for each value of a label; the last entry is that of nodes without the label."""

    column: InternedColumn[str]
    epoch: int
    measures: NDArray[np.int64]


class Places:
    """Things at nodes.

    Parameters
    ----------
    measure
        What is asked of them.
    """

    __slots__ = ("_by_label", "_everywhere", "_measure", "_others", "_tables")

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._everywhere: list[Item] = []
        self._by_label: dict[str, dict[str, list[Item]]] = {}
        self._others: dict[NodeSelector, list[Item]] = {}
        self._tables: dict[str, _Table] = {}

    def __bool__(self) -> bool:
        return bool(self._everywhere or self._by_label or self._others)

    def add(self, selector: NodeSelector | None, item: Item) -> None:
        """Put a thing at the nodes that a selector selects; None selects all."""
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
        """Take a thing away again, from where it was put."""
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
        """Yield the things at a node with these labels, in sorted lists; a thing may be in one of them only."""
        yield self._everywhere
        for key, by_value in self._by_label.items():
            yield by_value.get(labels.get(key, ""), ()) if key in labels else ()
        for selector, items in self._others.items():
            if selector.matches("", labels):
                yield items

    def measure(self, nodes: NodeTable, rows: NDArray[np.int64], matches: Matches) -> NDArray[np.int64]:
        """Return the measure for each of the rows; shape as ``rows``."""
        measure = self._measure
        found = np.full(rows.shape[0], measure.of(self._everywhere) if self._everywhere else measure.nothing)
        for key in self._by_label:
            column = nodes.label(key)
            measure.combine(found, self._table(key, column).take(column.ids.take(rows)), out=found)
        for selector, items in self._others.items():
            there = np.where(matches(selector, rows), measure.of(items), measure.nothing)
            measure.combine(found, there, out=found)
        return found

    def copy(self) -> Places:
        """Return an independent copy."""
        twin = Places(self._measure)
        twin._everywhere = list(self._everywhere)
        twin._by_label = {
            key: {value: list(items) for value, items in by_value.items()} for key, by_value in self._by_label.items()
        }
        twin._others = {selector: list(items) for selector, items in self._others.items()}
        return twin

    def as_values(self) -> object:
        """Return what is where, to be compared."""
        return deepcopy((self._everywhere, self._by_label, self._others))

    def _table(self, key: str, column: InternedColumn[str]) -> NDArray[np.int64]:
        table, size = self._tables.get(key), len(column.values) + 1
        if table is None or table.column is not column or table.epoch != column.epoch:
            table = self._tables[key] = _Table(column, column.epoch, np.full(size, self._measure.nothing))
            for value, items in self._by_label[key].items():
                self._write(table, value, items)
        elif table.measures.shape[0] != size:
            first = table.measures.shape[0] - 1
            by_value = self._by_label[key]
            new = [
                self._measure.of(by_value[value]) if value in by_value else self._measure.nothing
                for value in column.values[first:]
            ]
            table.measures = np.array([*table.measures[:-1], *new, self._measure.nothing], dtype=np.int64)
        return table.measures

    def _changed(self, key: str, value: str) -> None:
        table = self._tables.get(key)
        if table is not None:
            self._write(table, value, self._by_label[key].get(value, ()))

    def _write(self, table: _Table, value: str, items: Sequence[Item]) -> None:
        value_id = table.column.find(value)
        if value_id is not None and value_id < table.measures.shape[0] - 1:
            table.measures[value_id] = self._measure.of(items) if items else self._measure.nothing


def _one_label(selector: NodeSelector | None) -> tuple[str, frozenset[str]] | None:
    """Return the label and the values of a selector that lists the values of one label."""
    if selector is None or len(selector.terms) != 1 or len(selector.terms[0].expressions) != 1:
        return None
    if selector.terms[0].fields:
        return None
    (requirement,) = selector.terms[0].expressions
    return (requirement.key, requirement.values) if requirement.operator is Operator.IN else None


def _take(items: list[Item], item: Item) -> bool:
    """Take a thing out of a sorted list; return whether others are left."""
    position = bisect_left(items, item)
    assert items[position] == item, f"{item[1]} is not there"
    del items[position]
    return bool(items)

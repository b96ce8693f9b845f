"""The inter-pod terms of resident pods (pods on nodes), deduplicated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import LabelSelector, Operator, TopologyTerm
from vgpu_scheduler.state.columns import ABSENT, InternedColumn

_Item = TypeVar("_Item")


class _ByValue(NamedTuple):
    """Counts by the ids of a column's values, as they were at a version of the column."""

    version: int
    counts: NDArray[np.int64]


class NodeCounts:
    """Pod counts by node row, and by label value for each label that was asked about."""

    __slots__ = ("_by_value", "_column", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._column: NDArray[np.int64] | None = None
        self._by_value: dict[InternedColumn[str], _ByValue] = {}

    def add(self, row: int, change: int) -> None:
        """Change the number of pods on a node by ``change``."""
        count = self._counts.get(row, 0) + change
        if count:
            self._counts[row] = count
        else:
            del self._counts[row]
        if self._column is not None and row < self._column.shape[0]:
            self._column[row] = count
        for column, found in self._by_value.items():
            value = column.ids[row]
            if found.version == column.version and value != ABSENT:
                found.counts[value] += change

    def clear(self, row: int) -> None:
        """Forget the pods of a node."""
        count = self._counts.get(row)
        if count:
            self.add(row, -count)

    def column(self, capacity: int) -> NDArray[np.int64]:
        """Return how many such pods each node has, shape (capacity,); shared: do not write to it."""
        if self._column is None or self._column.shape[0] != capacity:
            self._column = np.zeros(capacity, dtype=np.int64)
            self._column[list(self._counts)] = list(self._counts.values())
        return self._column

    def by_value(self, column: InternedColumn[str]) -> NDArray[np.int64]:
        """Return how many such pods are on nodes with each value of a label.

        Parameters
        ----------
        column
            The label of the nodes whose rows are counted.

        Returns
        -------
        NDArray[int64], shape (values + 1,)
            By the id of the value. The last entry, for nodes without the label, is 0. Shared: do not write to it.
        """
        found = self._by_value.get(column)
        if found is None or found.version != column.version:
            counts = np.zeros(len(column.values) + 1, dtype=np.int64)
            np.add.at(counts, column.ids.take(list(self._counts)), list(self._counts.values()))
            counts[ABSENT] = 0
            found = self._by_value[column] = _ByValue(column.version, counts)
        return found.counts

    def as_values(self) -> Mapping[int, int]:
        """Return the counts that are not 0, for comparison."""
        return dict(self._counts)


class LabelIndex(Generic[_Item]):
    """Finds the label selectors that may match an object without evaluating all of them."""

    __slots__ = ("_by_label", "_others")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[_Item, None]] = {}
        self._others: dict[_Item, None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label or self._others)

    def add(self, item: _Item, selector: LabelSelector | None) -> None:
        """Index an item under its selector; an item whose selector is None is never found."""
        for found in self._places(selector):
            found[item] = None

    def discard(self, item: _Item, selector: LabelSelector | None) -> None:
        """Remove an item."""
        for found in self._places(selector):
            del found[item]
        for label in _wanted(selector) if selector else ():
            if not self._by_label.get(label, True):
                del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[_Item]:
        """Yield the items whose selectors may match these labels, each once."""
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())
        yield from self._others

    def _places(self, selector: LabelSelector | None) -> list[dict[_Item, None]]:
        if selector is None:
            return []
        wanted = _wanted(selector)
        return [self._by_label.setdefault(label, {}) for label in wanted] if wanted else [self._others]


def _wanted(selector: LabelSelector) -> list[tuple[str, str]]:
    """Return labels of which every selected object has exactly one; empty if the selector has no In requirement."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in sorted(requirement.values)]
    return []


class WeighedTerm(NamedTuple):
    """A term and the score weight of the pods that it selects: negative for anti-affinity, 0 if that is required."""

    term: TopologyTerm
    weight: int


@dataclass(slots=True, eq=False)
class ResidentTerm:
    """A term that pods on nodes have.

    Attributes
    ----------
    key
        The term and its weight.
    nodes
        How many pods on each known node have it.
    pods
        How many pods have it on all nodes, known or not.
    """

    key: WeighedTerm
    nodes: NodeCounts = field(default_factory=NodeCounts)
    pods: int = 0

    @property
    def term(self) -> TopologyTerm:
        """The term."""
        return self.key.term

    @property
    def weight(self) -> int:
        """The score weight of a pod that it selects."""
        return self.key.weight


class ResidentTerms:
    """Terms of one kind that resident pods have, found by the labels of the pods that they select."""

    __slots__ = ("_by_label", "_terms")

    def __init__(self) -> None:
        self._terms: dict[WeighedTerm, ResidentTerm] = {}
        self._by_label: LabelIndex[ResidentTerm] = LabelIndex()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def selecting(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> list[ResidentTerm]:
        """Return the terms that select a pod."""
        return [
            found
            for found in self._by_label.candidates(labels)
            if found.term.pods.selects(namespace, namespace_labels, labels)
        ]

    def as_values(self) -> dict[WeighedTerm, Mapping[int, int]]:
        """Return all counts, for comparison."""
        return {key: found.nodes.as_values() for key, found in self._terms.items()}

    def add(self, terms: Iterable[WeighedTerm]) -> tuple[WeighedTerm, ...]:
        """Take in the terms of a pod; return them interned, so that equal terms are one object."""
        return tuple(self._add(key).key for key in terms)

    def _add(self, key: WeighedTerm) -> ResidentTerm:
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = ResidentTerm(key)
            self._by_label.add(found, key.term.pods.labels)
        found.pods += 1
        return found

    def remove(self, terms: Iterable[WeighedTerm]) -> None:
        """Take in that a pod with these terms is gone."""
        for key in terms:
            found = self._terms[key]
            found.pods -= 1
            if not found.pods:
                del self._terms[key]
                self._by_label.discard(found, key.term.pods.labels)

    def count(self, terms: Iterable[WeighedTerm], row: int, change: int) -> None:
        """Count one pod more (1) or less (-1) with these terms on a node."""
        for key in terms:
            self._terms[key].nodes.add(row, change)

    def clear(self, row: int) -> None:
        """Forget the pods of a node."""
        for found in self._terms.values():
            found.nodes.clear(row)

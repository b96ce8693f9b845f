"""The inter-pod terms of pods that are there, each distinct one once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import LabelSelector, Operator, TopologyTerm
from vgpu_scheduler.state.columns import ABSENT, InternedColumn

__all__ = ["LabelIndex", "NodeCounts", "ResidentTerm", "ResidentTerms", "WeighedTerm"]


_Item = TypeVar("_Item")


class _ByValue(NamedTuple):
    """Counts by the ids of a column's values, as they were at a version of the column."""

    version: int
    counts: NDArray[np.int64]


class NodeCounts:
    """How many pods of some kind are on each node, by node row, and in each topology that somebody asked about."""

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
        """Return the counts that are not 0, to be compared."""
        return dict(self._counts)


class LabelIndex(Generic[_Item]):
    """Finds the label selectors that may match an object without asking all of them."""

    __slots__ = ("_by_label", "_others")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[_Item, None]] = {}
        self._others: dict[_Item, None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label or self._others)

    def add(self, item: _Item, selector: LabelSelector | None) -> None:
        """Index something under its selector; one that selects nothing is never found."""
        for found in self._places(selector):
            found[item] = None

    def discard(self, item: _Item, selector: LabelSelector | None) -> None:
        """Take something out."""
        for found in self._places(selector):
            del found[item]
        for label in _wanted(selector) if selector else ():
            if not self._by_label.get(label, True):
                del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[_Item]:
        """Yield what may select an object with these labels, each once."""
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
    """Return labels of which an object that is selected has exactly one; empty if that cannot be said."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in sorted(requirement.values)]
    return []


class WeighedTerm(NamedTuple):
    """A term of a pod, and what a pod that it is about is worth: below 0 for anti-affinity, 0 if it is required."""

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
        How often pods on each node have it; only nodes that are there.
    pods
        How often pods have it, wherever they are.
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
        """What a pod that it is about is worth."""
        return self.key.weight


class ResidentTerms:
    """Terms of one kind, for as long as pods on nodes have them; found by the labels of pods that they are about."""

    __slots__ = ("_by_label", "_terms")

    def __init__(self) -> None:
        self._terms: dict[WeighedTerm, ResidentTerm] = {}
        self._by_label: LabelIndex[ResidentTerm] = LabelIndex()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def about(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> list[ResidentTerm]:
        """Return the terms that are about a pod."""
        return [
            found
            for found in self._by_label.candidates(labels)
            if found.term.pods.selects(namespace, namespace_labels, labels)
        ]

    def as_values(self) -> dict[WeighedTerm, Mapping[int, int]]:
        """Return all counts, to be compared."""
        return {key: found.nodes.as_values() for key, found in self._terms.items()}

    def add(self, terms: Iterable[WeighedTerm]) -> tuple[WeighedTerm, ...]:
        """Take in the terms of a pod; return them as they are known here, so that equal ones are one object."""
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
        """Count a pod with these terms more (1) or less (-1) on a node."""
        for key in terms:
            self._terms[key].nodes.add(row, change)

    def clear(self, row: int) -> None:
        """Forget the pods of a node."""
        for found in self._terms.values():
            found.nodes.clear(row)

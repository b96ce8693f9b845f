"""The inter-pod terms of pods that are there, each distinct one once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vgpu_scheduler.kube import TopologyTerm
from vgpu_scheduler.state.counts import LabelIndex, NodeCounts

__all__ = ["ResidentTerm", "ResidentTerms", "WeighedTerm"]


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

    def copy(self) -> ResidentTerms:
        """Return an independent copy."""
        twin = ResidentTerms()
        for key, found in self._terms.items():
            copied = twin._terms[key] = ResidentTerm(key, found.nodes.copy(), found.pods)
            twin._by_label.add(copied, key.term.pods.labels)
        return twin

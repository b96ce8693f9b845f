"""What inter-pod terms and spread constraints count: incremental counters that events keep.

A term counts pods by topology, the value of a node label. Counted here is per node, because a topology is made of
nodes: which topologies have a pod follows from that and the label column in one pass over the nodes, and a node that
changes its labels needs no upkeep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import LabelSelector, Operator, Pod, PodSelector, TopologyTerm

__all__ = ["InterPodCounts", "NodeCounts", "PodCounter"]

_Item = TypeVar("_Item")

RowOf = Callable[[str], int | None]

_NO_LABELS: Mapping[str, str] = {}


class NodeCounts:
    """How many pods of some kind are on each node, by node row."""

    __slots__ = ("_column", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._column: NDArray[np.int64] | None = None

    def add(self, row: int, change: int) -> None:
        """Count one pod more (1) or less (-1) on a node."""
        count = self._counts.get(row, 0) + change
        if count:
            self._counts[row] = count
        else:
            del self._counts[row]
        if self._column is not None and row < self._column.shape[0]:
            self._column[row] = count

    def clear(self, row: int) -> None:
        """Forget the pods of a node."""
        if self._counts.pop(row, None) and self._column is not None and row < self._column.shape[0]:
            self._column[row] = 0

    def column(self, capacity: int) -> NDArray[np.int64]:
        """Return how many such pods each node has, shape (capacity,); shared: do not write to it."""
        if self._column is None or self._column.shape[0] != capacity:
            self._column = np.zeros(capacity, dtype=np.int64)
            self._column[list(self._counts)] = list(self._counts.values())
        return self._column

    def occupied(self, capacity: int) -> NDArray[np.bool_]:
        """Return which nodes have such a pod, shape (capacity,)."""
        return self.column(capacity) > 0

    def as_values(self) -> Mapping[int, int]:
        """Return the counts that are not 0, to be compared."""
        return dict(self._counts)

    def copy(self) -> NodeCounts:
        """Return an independent copy."""
        twin = NodeCounts()
        twin._counts = dict(self._counts)
        return twin


class LabelIndex(Generic[_Item]):
    """Finds the label selectors that may match an object without asking all of them."""

    __slots__ = ("_by_label", "_others")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[_Item, None]] = {}
        self._others: dict[_Item, None] = {}

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


@dataclass(slots=True, eq=False)
class PodCounter:
    """Counts the pods that all of some selectors select.

    Attributes
    ----------
    selectors
        At least one.
    lasting
        Count only pods that are not being deleted.
    """

    selectors: tuple[PodSelector, ...]
    lasting: bool = False
    nodes: NodeCounts = field(default_factory=NodeCounts)
    users: int = 0

    def selects(self, namespace: str, namespace_labels: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is one of them."""
        return all(selector.selects(namespace, namespace_labels, labels) for selector in self.selectors)

    @property
    def index_selector(self) -> LabelSelector | None:
        """A selector that all of the pods match."""
        return self.selectors[0].labels


@dataclass(slots=True, eq=False)
class _AntiAffinity:
    """A term by which pods that are there keep others away, with the pods that have it."""

    term: TopologyTerm
    nodes: NodeCounts = field(default_factory=NodeCounts)
    pods: int = 0


class _Resident(NamedTuple):
    """A pod on a node, as far as terms ask about it and it has terms of its own."""

    node: str
    labels: Mapping[str, str]
    deleting: bool
    anti_affinity: tuple[TopologyTerm, ...]


class InterPodCounts:
    """The pods on nodes, and how many of them the terms in use count on each node.

    A selector is counted from when somebody first asks for it until nobody uses it any more. Terms of required
    anti-affinity of the pods on nodes are counted for as long as there are such pods.

    Notes
    -----
    The counts are a pure function of the bound or assumed, non-terminal pods, the nodes that are there, and the labels
    of namespaces. As in kube-scheduler, pods that are being deleted count for inter-pod terms until they are gone, and
    not for spread constraints; those on nodes that are not there do not count.
    """

    def __init__(self) -> None:
        self._residents: dict[str, dict[str, _Resident]] = {}  # by namespace and UID
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._counters: dict[tuple[tuple[PodSelector, ...], bool], PodCounter] = {}
        self._counters_by_label: LabelIndex[PodCounter] = LabelIndex()
        self._anti_affinity: dict[TopologyTerm, _AntiAffinity] = {}
        self._anti_affinity_by_label: LabelIndex[_AntiAffinity] = LabelIndex()

    # Questions -------------------------------------------------------------------------------------------------------

    @property
    def any_anti_affinity(self) -> bool:
        """Whether any pod on a node keeps others away."""
        return bool(self._anti_affinity)

    def keeping_away(self, namespace: str, labels: Mapping[str, str]) -> list[tuple[str, NodeCounts]]:
        """Return the topology keys of the distinct terms that keep a pod away, and the nodes of the pods that do."""
        known = self._namespaces.get(namespace, _NO_LABELS)
        return [
            (found.term.topology_key, found.nodes)
            for found in self._anti_affinity_by_label.candidates(labels)
            if found.term.pods.selects(namespace, known, labels)
        ]

    def selects(self, counter: PodCounter, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod, wherever it is, is one that the counter counts."""
        return counter.selects(namespace, self._namespaces.get(namespace), labels)

    def as_values(self) -> Mapping[object, Mapping[int, int]]:
        """Return all counts, to be compared."""
        values: dict[object, Mapping[int, int]] = {}
        for key, counter in self._counters.items():
            values[key] = counter.nodes.as_values()
        for term, found in self._anti_affinity.items():
            values[term] = found.nodes.as_values()
        return values

    # Counters --------------------------------------------------------------------------------------------------------

    def acquire(self, selectors: tuple[PodSelector, ...], row_of: RowOf, *, lasting: bool = False) -> PodCounter:
        """Return the counter of the pods that all the selectors select; ``release`` must follow.

        Parameters
        ----------
        selectors
            At least one.
        row_of
            Returns the row of a node, None if it is not there.
        lasting
            Count only pods that are not being deleted.
        """
        counter = self._counters.get((selectors, lasting))
        if counter is None:
            counter = self._counters[selectors, lasting] = PodCounter(selectors, lasting)
            self._counters_by_label.add(counter, counter.index_selector)
            for namespace in self._residents:
                self._count_namespace(counter, namespace, self._namespaces.get(namespace), row_of, 1)
        counter.users += 1
        return counter

    def release(self, counter: PodCounter) -> None:
        """Give a counter back; it is dropped when nobody uses it."""
        counter.users -= 1
        if not counter.users:
            del self._counters[counter.selectors, counter.lasting]
            self._counters_by_label.discard(counter, counter.index_selector)

    def _count_namespace(
        self,
        counter: PodCounter,
        namespace: str,
        labels: Mapping[str, str] | None,
        row_of: RowOf,
        change: int,
    ) -> None:
        if not all(selector.selects_namespace(namespace, labels) for selector in counter.selectors):
            return
        for resident in self._residents.get(namespace, {}).values():
            row = row_of(resident.node)
            counts = not (counter.lasting and resident.deleting)
            if counts and row is not None and counter.selects(namespace, labels, resident.labels):
                counter.nodes.add(row, change)

    # Events ----------------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, node: str, row: int | None) -> None:
        """Take in that a pod is on a node, whose row is None if it is not there."""
        terms = pod.spec.required_pod_anti_affinity
        anti_affinity = tuple(term.of(pod.namespace, pod.labels) for term in terms) if terms else ()
        resident = _Resident(node, pod.labels, pod.deleting, anti_affinity)
        self._residents.setdefault(pod.namespace, {})[pod.uid] = resident
        for term in anti_affinity:
            found = self._anti_affinity.get(term)
            if found is None:
                found = self._anti_affinity[term] = _AntiAffinity(term)
                self._anti_affinity_by_label.add(found, term.pods.labels)
            found.pods += 1
        if row is not None:
            self._count(pod.namespace, resident, row, 1)

    def remove(self, namespace: str, uid: str, row: int | None) -> None:
        """Take in that a pod is on its node no more."""
        residents = self._residents[namespace]
        resident = residents.pop(uid)
        if not residents:
            del self._residents[namespace]
        if row is not None:
            self._count(namespace, resident, row, -1)
        for term in resident.anti_affinity:
            found = self._anti_affinity[term]
            found.pods -= 1
            if not found.pods:
                del self._anti_affinity[term]
                self._anti_affinity_by_label.discard(found, term.pods.labels)

    def node_came(self, row: int, pods: Iterable[tuple[str, str]]) -> None:
        """Take in a node, with the namespaces and UIDs of the pods that are on it."""
        for namespace, uid in pods:
            self._count(namespace, self._residents[namespace][uid], row, 1)

    def node_went(self, row: int) -> None:
        """Take in that a node is gone: the pods on it count no more."""
        for counter in self._counters.values():
            counter.nodes.clear(row)
        for found in self._anti_affinity.values():
            found.nodes.clear(row)

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None, row_of: RowOf) -> bool:
        """Take in the labels of a namespace, None if there is none of that name; return whether they changed."""
        before = self._namespaces.get(name)
        if labels == before:
            return False
        for counter in self._counters.values():
            if any(selector.namespace_selector is not None for selector in counter.selectors):
                self._count_namespace(counter, name, before, row_of, -1)
                self._count_namespace(counter, name, labels, row_of, 1)
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        return True

    def _count(self, namespace: str, resident: _Resident, row: int, change: int) -> None:
        if not self._counters and not resident.anti_affinity:
            return
        known = self._namespaces.get(namespace)
        for counter in self._counters_by_label.candidates(resident.labels):
            counts = not (counter.lasting and resident.deleting)
            if counts and counter.selects(namespace, known, resident.labels):
                counter.nodes.add(row, change)
        for term in resident.anti_affinity:
            self._anti_affinity[term].nodes.add(row, change)

    # The whole -------------------------------------------------------------------------------------------------------

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of the namespaces that are known."""
        return self._namespaces

    def copy(self) -> InterPodCounts:
        """Return an independent copy, without the counters that somebody uses here."""
        twin = InterPodCounts()
        twin._residents = {namespace: dict(residents) for namespace, residents in self._residents.items()}
        twin._namespaces = dict(self._namespaces)
        for term, found in self._anti_affinity.items():
            copied = twin._anti_affinity[term] = _AntiAffinity(term, found.nodes.copy(), found.pods)
            twin._anti_affinity_by_label.add(copied, term.pods.labels)
        return twin

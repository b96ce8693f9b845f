"""Incremental pod counters for inter-pod terms and spread constraints, updated by events.

A term counts pods by topology, the value of a node label. Counts are kept per node; the counts per value of a label
are derived from them on first use, and derived again when that label changes on any node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vgpu_scheduler.kube import LabelSelector, Pod, PodSelector
from vgpu_scheduler.model import BoundedCache, bytes_of
from vgpu_scheduler.state.resident_terms import LabelIndex, NodeCounts, ResidentTerm, ResidentTerms, WeighedTerm

HARD_AFFINITY_WEIGHT: Final = 1
"""Score weight of resident pods whose required affinity selects a pod: kube-scheduler's hardPodAffinityWeight."""

_MOST_BYTES: Final = 8 * 2**20
"""Bytes that the keys of dropped counters may take; one takes about two kilobytes."""

_COUNTER: Final = 1024
"""Bytes that one takes in addition to its selectors."""

_CounterKey = tuple[tuple[PodSelector, ...], bool]
"""The selectors of a counter, and whether it counts only pods that are not being deleted."""
RowOf = Callable[[str], int | None]

_NO_LABELS: Mapping[str, str] = {}


@dataclass(slots=True, eq=False)
class PodCounter:
    """Counts the pods that match all of some selectors.

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
        """Tell whether the term selects a pod."""
        return all(selector.selects(namespace, namespace_labels, labels) for selector in self.selectors)

    @property
    def index_selector(self) -> LabelSelector | None:
        """A selector that all of the pods match."""
        return self.selectors[0].labels


class _Resident(NamedTuple):
    """The fields of a pod on a node that inter-pod terms read, and its own terms."""

    node: str
    labels: Mapping[str, str]
    deleting: bool
    anti_affinity: tuple[WeighedTerm, ...]
    preferences: tuple[WeighedTerm, ...]


class InterPodCounts:
    """The pods on nodes, and how many of them match each selector in use, per node.

    A selector is counted from its first use until its last user releases it. Terms of resident pods that affect other
    pods are counted while there are such residents: required anti-affinity, which repels pods, and preferred terms and
    required affinity, which change scores.

    Notes
    -----
    The counts are a pure function of the bound or assumed, non-terminal pods, the nodes that are there, and the labels
    of namespaces. As in kube-scheduler, pods that are being deleted count for inter-pod terms until they are gone, but
    not for spread constraints; pods on unknown nodes do not count.
    """

    def __init__(self) -> None:
        self._residents: dict[str, dict[str, _Resident]] = {}  # by namespace and UID
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._counters: dict[_CounterKey, PodCounter] = {}
        self._counters_by_label: LabelIndex[PodCounter] = LabelIndex()
        self._anti_affinity = ResidentTerms()
        self._preferences = ResidentTerms()
        self._forgotten: BoundedCache[_CounterKey, PodCounter] = BoundedCache(
            _MOST_BYTES, forgotten=self._forget_for_good
        )
        """Dropped counters, which no longer count: waiting pods may still depend on the pods that they selected."""
        self._forgotten_by_label: LabelIndex[PodCounter] = LabelIndex()
        self._too_many_forgotten = False

    # Questions -------------------------------------------------------------------------------------------------------

    @property
    def any_anti_affinity(self) -> bool:
        """Whether any pod on a node has required anti-affinity."""
        return bool(self._anti_affinity)

    def repelling_terms(self, namespace: str, labels: Mapping[str, str]) -> list[tuple[str, NodeCounts]]:
        """Return the topology keys of the distinct anti-affinity terms that repel a pod, with their pods per node."""
        known = self._namespaces.get(namespace, _NO_LABELS)
        found = self._anti_affinity.selecting(namespace, known, labels)
        return [(each.term.topology_key, each.nodes) for each in found]

    def preferring(self, namespace: str, labels: Mapping[str, str]) -> list[ResidentTerm]:
        """Return the distinct scoring terms of resident pods that select a pod."""
        return self._preferences.selecting(namespace, self._namespaces.get(namespace, _NO_LABELS), labels)

    def selects(self, counter: PodCounter, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod matches a counter, on whichever node it is."""
        return counter.selects(namespace, self._namespaces.get(namespace), labels)

    def as_values(self) -> Mapping[object, Mapping[int, int]]:
        """Return all counts, to be compared."""
        values: dict[object, Mapping[int, int]] = {}
        values.update((key, counter.nodes.as_values()) for key, counter in self._counters.items())
        values.update((("anti-affinity", key), counts) for key, counts in self._anti_affinity.as_values().items())
        values.update((("preferences", key), counts) for key, counts in self._preferences.as_values().items())
        return values

    # Counters --------------------------------------------------------------------------------------------------------

    def acquire(self, selectors: tuple[PodSelector, ...], row_of: RowOf, *, lasting: bool = False) -> PodCounter:
        """Return the counter of the pods that match all selectors; ``release`` must follow.

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
            self._remember((selectors, lasting))
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
            self._forget(counter)

    @property
    def any_forgotten(self) -> bool:
        """Whether waiting pods may depend on pods that are no longer counted."""
        return len(self._forgotten) > 0 or self._too_many_forgotten

    def nobody_waits(self) -> None:
        """Forget the dropped counters: no pod waits for events about them."""
        self._forgotten.clear()
        self._forgotten_by_label = LabelIndex()
        self._too_many_forgotten = False

    def _forget(self, counter: PodCounter) -> None:
        dropped = PodCounter(counter.selectors, counter.lasting)
        self._forgotten_by_label.add(dropped, dropped.index_selector)
        self._forgotten.put((dropped.selectors, dropped.lasting), dropped, _COUNTER + bytes_of(dropped.selectors))

    def _forget_for_good(self, dropped: PodCounter) -> None:
        self._forgotten_by_label.discard(dropped, dropped.index_selector)
        self._too_many_forgotten = True

    def _remember(self, key: _CounterKey) -> None:
        dropped = self._forgotten.pop(key)
        if dropped is not None:
            self._forgotten_by_label.discard(dropped, dropped.index_selector)

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

    def add(self, pod: Pod, node: str, row: int | None) -> bool:
        """Take in that a pod is on a node, whose row is None if it is not there.

        Returns
        -------
        bool
            Whether waiting pods may depend on such a pod.
        """
        spec = pod.spec
        anti_affinity = self._anti_affinity.add(_anti_affinity(pod)) if spec.required_pod_anti_affinity else ()
        prefers = spec.preferred_pods or spec.required_pod_affinity
        preferences = self._preferences.add(_preferences(pod)) if prefers else ()
        resident = _Resident(node, pod.labels, pod.deleting, anti_affinity, preferences)
        self._residents.setdefault(pod.namespace, {})[pod.uid] = resident
        return row is not None and self._count(pod.namespace, resident, row, 1)

    def remove(self, namespace: str, uid: str, row: int | None) -> bool:
        """Take in that a pod has left its node; tell whether it repelled others, or a selector counted it."""
        residents = self._residents[namespace]
        resident = residents.pop(uid)
        if not residents:
            del self._residents[namespace]
        counted = row is not None and self._count(namespace, resident, row, -1)
        self._anti_affinity.remove(resident.anti_affinity)
        self._preferences.remove(resident.preferences)
        return counted

    def node_came(self, row: int, pods: Iterable[tuple[str, str]]) -> None:
        """Take in a node, with the namespaces and UIDs of the pods that are on it."""
        for namespace, uid in pods:
            self._count(namespace, self._residents[namespace][uid], row, 1)

    def node_went(self, row: int) -> None:
        """Take in that a node is gone: its pods no longer count."""
        for counter in self._counters.values():
            counter.nodes.clear(row)
        self._anti_affinity.clear(row)
        self._preferences.clear(row)

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

    def _count(self, namespace: str, resident: _Resident, row: int, change: int) -> bool:
        if resident.anti_affinity:
            self._anti_affinity.count(resident.anti_affinity, row, change)
        if resident.preferences:
            self._preferences.count(resident.preferences, row, change)
        matters = bool(resident.anti_affinity) or self._too_many_forgotten
        for counter in self._counting(self._counters_by_label, namespace, resident):
            counter.nodes.add(row, change)
            matters = True
        return matters or any(self._counting(self._forgotten_by_label, namespace, resident))

    def _counting(self, index: LabelIndex[PodCounter], namespace: str, resident: _Resident) -> Iterator[PodCounter]:
        """Yield the counters of an index that a pod counts for."""
        if not index:
            return
        known = self._namespaces.get(namespace)
        for counter in index.candidates(resident.labels):
            counts = not (counter.lasting and resident.deleting)
            if counts and counter.selects(namespace, known, resident.labels):
                yield counter

    # The whole -------------------------------------------------------------------------------------------------------

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of the known namespaces."""
        return self._namespaces


def _anti_affinity(pod: Pod) -> list[WeighedTerm]:
    terms = pod.spec.required_pod_anti_affinity
    return [WeighedTerm(term.of(pod.namespace, pod.labels), 0) for term in terms]


def _preferences(pod: Pod) -> list[WeighedTerm]:
    spec = pod.spec
    required = [(term, HARD_AFFINITY_WEIGHT) for term in spec.required_pod_affinity]
    preferred = [(found.term, found.weight) for found in spec.preferred_pods]
    return [WeighedTerm(term.of(pod.namespace, pod.labels), weight) for term, weight in (*required, *preferred)]

"""Inter-pod affinity and anti-affinity: kube-scheduler's InterPodAffinity, as a filter and as a score."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.filters import ClusterFilter, ClusterPlugin
from vgpu_scheduler.predicates.reasons import (
    INTER_POD_AFFINITY,
    INTER_POD_ANTI_AFFINITY,
    INTER_POD_EXISTING,
    RejectionCodes,
)
from vgpu_scheduler.predicates.scores import PodScore, ScorePlugin, Scores, of_range
from vgpu_scheduler.state import NodeCounts, State

_REJECTIONS: Final = RejectionCodes((INTER_POD_AFFINITY, INTER_POD_ANTI_AFFINITY, INTER_POD_EXISTING))
_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3


def _key(pod: Pod, state: State) -> Hashable | None:
    """Return the pod's namespace and terms, and the labels that these depend on."""
    spec = pod.spec
    terms = (*spec.required_pod_affinity, *spec.required_pod_anti_affinity)
    if not terms:
        return () if state.interpod.any_anti_affinity else None  # anti-affinity of resident pods may repel the pod
    return (pod.namespace, spec.fingerprint, *(pod.labels.get(name) for term in terms for name in term.label_keys))


class InterPodFilter(ClusterFilter):
    """The required inter-pod terms of pods with the same terms; the pods that these select are counted from now on.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its terms, and the labels that they depend on are read.
    state
        The state; ``close`` must follow when the terms are no longer needed.
    """

    rejections: Final = _REJECTIONS

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        affinity = [term.of(pod.namespace, pod.labels) for term in pod.spec.required_pod_affinity]
        anti_affinity = [term.of(pod.namespace, pod.labels) for term in pod.spec.required_pod_anti_affinity]
        counts, row_of = state.interpod, state.nodes.row
        # Affinity counts pods that all terms select together; anti-affinity counts pods per term.
        selectors = tuple(term.pods for term in affinity)
        self._affinity = counts.acquire(selectors, row_of) if affinity else None
        self._affinity_keys = sorted({term.topology_key for term in affinity})
        self._anti_affinity = [(term.topology_key, counts.acquire((term.pods,), row_of)) for term in anti_affinity]

    def equivalence(self, pod: Pod) -> Hashable:
        """Return whether the pod's own affinity terms select it, and the anti-affinity terms that repel it."""
        counts = self._state.interpod
        is_own_kind = self._affinity is not None and counts.selects(self._affinity, pod.namespace, pod.labels)
        return is_own_kind, frozenset(counts.repelling_terms(pod.namespace, pod.labels))

    def close(self) -> None:
        """Release the pod counters."""
        for counter in (self._affinity, *(counter for _, counter in self._anti_affinity)):
            if counter is not None:
                self._state.interpod.release(counter)

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes.

        Parameters
        ----------
        pod
            One of the pods; its labels decide which terms of resident pods repel it.
        rows
            Live rows; shape (n,).

        Returns
        -------
        NDArray[int32], shape (n,), or None
            0 where the pod fits; else a code of ``rejections``. None if it fits everywhere.
        """
        existing = self._state.interpod.repelling_terms(pod.namespace, pod.labels)
        if self._affinity is None and not self._anti_affinity and not existing:
            return None
        codes = np.zeros(rows.shape[0], dtype=np.int32)
        # From the last check to the first, so that the first overwrites the others.
        codes[self._near(existing, rows)] = _EXISTING
        codes[self._near(((key, counter.nodes) for key, counter in self._anti_affinity), rows)] = _ANTI_AFFINITY
        if self._affinity is not None:
            codes[~self._satisfies_affinity(pod, rows)] = _AFFINITY
        return codes

    def _near(self, counted: Iterable[tuple[str, NodeCounts]], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which nodes share a topology value with a counted pod."""
        by_key: dict[str, NDArray[np.bool_]] = {}
        for key, counts in counted:
            occupied = self._occupied(key, counts)
            by_key[key] = by_key[key] | occupied if key in by_key else occupied
        near = np.zeros(rows.shape[0], dtype=np.bool_)
        for key, occupied in by_key.items():
            near |= occupied.take(self._state.nodes.labels.column(key).ids.take(rows))
        return near

    def _occupied(self, key: str, counts: NodeCounts) -> NDArray[np.bool_]:
        """Return which topology values have a counted pod, by the id of the value; the last entry is False."""
        return counts.by_value(self._state.nodes.labels.column(key)) > 0

    def _satisfies_affinity(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which nodes satisfy all affinity terms; the first pod of its kind needs only the topology labels."""
        assert self._affinity is not None
        nodes, counts = self._state.nodes, self._affinity.nodes
        found = [(nodes.labels.column(key).ids.take(rows), self._occupied(key, counts)) for key in self._affinity_keys]
        is_first = not any(topologies.any() for _, topologies in found) and self._state.interpod.selects(
            self._affinity, pod.namespace, pod.labels
        )
        satisfied = np.ones(rows.shape[0], dtype=np.bool_)
        for ids, topologies in found:
            satisfied &= ids >= 0 if is_first else topologies.take(ids)
        return satisfied


INTER_POD_AFFINITY_PLUGIN: Final = ClusterPlugin("InterPodAffinity", _key, InterPodFilter)


def _score_key(pod: Pod, state: State) -> Hashable | None:
    """Return the pod's namespace and preferred terms, and the labels that these depend on."""
    spec = pod.spec
    if not spec.preferred_pods:
        return () if state.interpod.preferring(pod.namespace, pod.labels) else None  # preferences of resident pods
    labels = (pod.labels.get(name) for preferred in spec.preferred_pods for name in preferred.term.label_keys)
    return (pod.namespace, spec.fingerprint, *labels)


class PreferredPodsScore(PodScore):
    """Scores nodes by the inter-pod preferences of a pod and of the resident pods.

    Each resident pod in the node's topology adds the weight of each preferred term that selects it (negative for
    anti-affinity), the weight of each preferred term of its own that selects the pod, and 1 for each required affinity
    term of its own that selects the pod.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its terms, and the labels that they depend on are read.
    state
        The state; ``close`` must follow when the score is no longer needed.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        terms = [(preferred.term.of(pod.namespace, pod.labels), preferred.weight)
                 for preferred in pod.spec.preferred_pods]  # fmt: skip
        self._own = [
            (term.topology_key, weight, state.interpod.acquire((term.pods,), state.nodes.row)) for term, weight in terms
        ]

    def close(self) -> None:
        """Release the pod counters."""
        for _, _, counter in self._own:
            self._state.interpod.release(counter)

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores | None:
        """Score nodes; see :class:`PodScore`."""
        nodes = self._state.nodes
        worth: dict[str, NDArray[np.int64]] = {}  # by topology key; arrays by the id of the label's value
        for key, weight, counts in self._terms(pod):
            pods = counts.by_value(nodes.labels.column(key))
            if pods.any():
                worth[key] = worth.get(key, 0) + weight * pods
        if not worth:
            return None
        raw = np.zeros(rows.shape[0], dtype=np.int64)
        for key, by_topology in worth.items():
            raw += by_topology.take(nodes.labels.column(key).ids.take(rows))
        return Scores(raw, of_range(raw))

    def _terms(self, pod: Pod) -> Iterator[tuple[str, int, NodeCounts]]:
        for key, weight, counter in self._own:
            yield key, weight, counter.nodes
        for found in self._state.interpod.preferring(pod.namespace, pod.labels):
            yield found.term.topology_key, found.weight, found.nodes


INTER_POD_AFFINITY_SCORE: Final = ScorePlugin("InterPodAffinity", 2, _score_key, PreferredPodsScore)

"""Preferred inter-pod terms: the scores of kube-scheduler's InterPodAffinity for many nodes at once."""

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.scores import ScorePlugin, Scores, of_range
from vgpu_scheduler.state import NodeCounts, State

__all__ = ["INTER_POD_AFFINITY_SCORE", "PreferredPodsScore"]


def _key(pod: Pod, state: State) -> Hashable | None:
    """Return the pod's namespace and preferred terms, and the labels that these depend on."""
    spec = pod.spec
    if not spec.preferred_pods:
        return () if state.interpod.preferring(pod.namespace, pod.labels) else None  # of pods that are there
    labels = (pod.labels.get(name) for preferred in spec.preferred_pods for name in preferred.term.label_keys)
    return (pod.namespace, spec.fingerprint, *labels)


class PreferredPodsScore:
    """What a node's topologies are worth to a pod and to the pods that are there.

    Each pod that one of the pod's preferred terms is about adds the weight of the term, or takes it off; so does each
    pod that prefers this one near or away, and each that requires such a pod near adds 1.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its terms, and the labels that they depend on matter.
    state
        What is known; ``close`` must follow when the score is no longer needed.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        terms = [(preferred.term.of(pod.namespace, pod.labels), preferred.weight)
                 for preferred in pod.spec.preferred_pods]  # fmt: skip
        self._own = [
            (term.topology_key, weight, state.interpod.acquire((term.pods,), state.nodes.row)) for term, weight in terms
        ]

    def close(self) -> None:
        """Let the pods be counted no more, unless others need it."""
        for _, _, counter in self._own:
            self._state.interpod.release(counter)

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores | None:
        """Score nodes; see :class:`PodScore`."""
        nodes = self._state.nodes
        worth: dict[str, NDArray[np.int64]] = {}  # of each topology, by the id of the label's value
        for key, weight, counts in self._terms(pod):
            pods = counts.by_value(nodes.label(key))
            if pods.any():
                worth[key] = worth.get(key, 0) + weight * pods
        if not worth:
            return None
        raw = np.zeros(rows.shape[0], dtype=np.int64)
        for key, by_topology in worth.items():
            raw += by_topology.take(nodes.label(key).ids.take(rows))
        return Scores(raw, of_range(raw))

    def _terms(self, pod: Pod) -> Iterator[tuple[str, int, NodeCounts]]:
        for key, weight, counter in self._own:
            yield key, weight, counter.nodes
        for found in self._state.interpod.preferring(pod.namespace, pod.labels):
            yield found.term.topology_key, found.weight, found.nodes


INTER_POD_AFFINITY_SCORE: Final = ScorePlugin("InterPodAffinity", 2, _key, PreferredPodsScore)

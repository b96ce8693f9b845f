"""Soft scores of single nodes: preferred node affinity, and taints with the effect PreferNoSchedule."""

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import PREFER_NO_SCHEDULE, Pod, Taint
from vgpu_scheduler.predicates.lookups import NumberLookup, TermLookup
from vgpu_scheduler.predicates.scores import ScorePlugin, Scores, of_largest
from vgpu_scheduler.state import State

__all__ = ["NODE_AFFINITY_SCORE", "TAINT_TOLERATION_SCORE", "PreferredNodesScore", "SoftTaintsScore"]


class PreferredNodesScore:
    """The weights of the preferred terms that a node satisfies, as shares of the largest sum.

    Parameters
    ----------
    pod
        One of the pods; its preferred node affinity matters.
    state
        What is known.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        self._nodes = state.nodes
        self._terms = [(TermLookup(preferred.term), preferred.weight) for preferred in pod.spec.preferred_nodes]

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores:
        """Score nodes; see :class:`PodScore`."""
        del pod
        raw = np.zeros(rows.shape[0], dtype=np.int64)
        for term, weight in self._terms:
            raw += weight * term(self._nodes, rows)
        return Scores(raw, of_largest(raw))

    def close(self) -> None:
        """Do nothing: nothing is kept for the score alone."""


class SoftTaintsScore:
    """How many taints with the effect PreferNoSchedule a pod does not tolerate: the fewer the better.

    Parameters
    ----------
    pod
        One of the pods; its tolerations matter.
    state
        What is known.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        self._column = state.nodes.taints
        self._tolerations = pod.spec.tolerations
        self._intolerable: NumberLookup[tuple[Taint, ...]] = NumberLookup(self._count)

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores | None:
        """Score nodes; see :class:`PodScore`."""
        del pod
        raw = self._intolerable(self._column, rows)
        return Scores(raw, of_largest(raw, reverse=True)) if raw.any() else None

    def close(self) -> None:
        """Do nothing: nothing is kept for the score alone."""

    def _count(self, taints: tuple[Taint, ...]) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE and not any(each.tolerates(taint) for each in self._tolerations)
            for taint in taints
        )


def _preferring(pod: Pod, state: State) -> Hashable | None:
    del state
    return pod.spec.fingerprint if pod.spec.preferred_nodes else None


def _tainted(pod: Pod, state: State) -> Hashable | None:
    return pod.spec.fingerprint if state.nodes.any_soft_taints else None


NODE_AFFINITY_SCORE: Final = ScorePlugin("NodeAffinity", 2, _preferring, PreferredNodesScore)
TAINT_TOLERATION_SCORE: Final = ScorePlugin("TaintToleration", 3, _tainted, SoftTaintsScore)

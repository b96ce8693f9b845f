"""Kubernetes' filters for one pod now: which nodes pass, and what rejects the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.cluster_part import ClusterPart
from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import Reason, Rejection, Rejections


class Filtered:
    """What the filters say of all nodes for one pod now.

    Parameters
    ----------
    node
        The filters of single nodes; up to date.
    cluster
        The filters that look beyond; None if there are none.
    pod
        The pod.
    rows
        The live rows, shape (n,).

    Attributes
    ----------
    turned_away
        Why no node is tried; None if they are.
    passing
        The rows that no filter rejects, cards aside, where there is a cluster part; else all rows.
    """

    def __init__(self, node: NodePart, cluster: ClusterPart | None, pod: Pod, rows: NDArray[np.int64]) -> None:
        self._node = node
        self.rows = rows
        self.passing = rows
        self._rejected: list[tuple[Rejections, NDArray[np.int64], NDArray[np.int32]]] = []
        self._beside_nominated: dict[int, Rejection] = {}
        self.pre_filter_reason: Reason | None = node.predicates.rejection
        if cluster is None:
            return
        self.pre_filter_reason = self.pre_filter_reason or cluster.pre_filter(pod)
        if self.pre_filter_reason is None:
            passing = rows[node.rejected[rows] == Rejections.PASSES]
            self.passing, self._rejected = cluster.evaluate(pod, passing)
        else:
            self.passing = rows[:0]

    def reject(self, row: int, rejection: Rejection) -> None:
        """Note what rejects a row beside the pods that are nominated to it, whatever rejects it without them."""
        self.passing = self.passing[self.passing != row]
        self._beside_nominated[row] = rejection

    def rejections(self) -> dict[int, Rejection]:
        """Return what the first filter that rejects a row says, by row; rows that pass all are left out."""
        part = self._node
        if self.pre_filter_reason is not None:
            return dict.fromkeys(self.rows.tolist(), Rejection((self.pre_filter_reason,), resolvable=False))
        codes = part.rejected[self.rows]
        found = {
            row: part.predicates.rejections[code]
            for row, code in zip(self.rows.tolist(), codes.tolist(), strict=True)
            if code
        }
        for rejections, rows, others in self._rejected:
            answers = zip(rows.tolist(), others.tolist(), strict=True)
            found.update((row, rejections[code]) for row, code in answers if code)
        return {**found, **self._beside_nominated}

    def count(self) -> dict[Reason, int]:
        """Count the rows under each reason of the first filter that rejects them."""
        if self.pre_filter_reason is not None:
            return {self.pre_filter_reason: int(self.rows.shape[0])}
        part = self._node
        if self._beside_nominated:
            return _counted(self.rejections().values())
        counts = part.predicates.rejections.count(part.rejected[self.rows])
        for rejections, _, codes in self._rejected:
            for reason, count in rejections.count(codes).items():
                counts[reason] = counts.get(reason, 0) + count
        return counts


def _counted(rejections: Iterable[Rejection]) -> dict[Reason, int]:
    counts: dict[Reason, int] = {}
    for rejection in rejections:
        for reason in rejection.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return counts

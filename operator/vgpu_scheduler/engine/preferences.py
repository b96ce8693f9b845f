"""Which nodes pass all filters, and how they are ranked by preferences.

Preferences come from the pod, from taints of nodes (PreferNoSchedule), or from pods that run there.

Without preferences the node part's score alone ranks the nodes. With them, that score is mapped to 0 to 100 points on
a scale of each scorer, and counts as one plugin beside kube-scheduler's: the weighted sum of points ranks the nodes.
Ties are broken by the score, then by name, so that the score decides among nodes that are equally preferred. The scale
is absolute, not normalised over the feasible nodes: a small difference in score stays small, even between two nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart
from vgpu_scheduler.engine.equivalence_classes import PodPlugins
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, ScorePart
from vgpu_scheduler.predicates import SCORE_PLUGINS, Reason, Rejection, RejectionCodes, ScorePlugin, Scores
from vgpu_scheduler.state import State

DEVICE: Final = "device"
"""The plugin name of the node part's score."""


@dataclass(frozen=True, slots=True)
class RankedNodes:
    """The nodes where a pod fits, with the points that each plugin gives them.

    Attributes
    ----------
    rows
        Their rows, shape (n,).
    device, points
        The node part's score, on its own scale and in points; shape (n,).
    weight
        The weight of these points.
    said
        The scores of each plugin that has an opinion; at least one.
    """

    rows: NDArray[np.int64]
    device: NDArray[np.float64]
    points: NDArray[np.float64]
    weight: int
    said: tuple[tuple[ScorePlugin, Scores], ...]

    def best(self, part: NodePart, rank: NDArray[np.int64]) -> int:
        """Return the row with the largest sum; ties go to the best score, then to the first name."""
        total = self.weight * self.points
        for plugin, scores in self.said:
            total += plugin.weight * scores.normalised
        return int(select_best(self.rows[total == total.max()], part.feasible, part.score, rank))

    def explain(self, row: int, scorers: tuple[ScorePart, ...]) -> tuple[ScorePart, ...]:
        """Return the parts of a row's sum; the parts of its score come last.

        Parameters
        ----------
        scorers
            The parts of its score.
        """
        found = np.flatnonzero(self.rows == row)
        if not found.shape[0]:
            return scorers
        (at,) = found.tolist()
        parts = [_part(DEVICE, float(self.device[at]), float(self.points[at]), self.weight)]
        for plugin, (raw, normalised) in self.said:
            parts.append(_part(plugin.name, float(raw[at]), float(normalised[at]), plugin.weight))
        return (*parts, *(_within_device(part) for part in scorers))


def _part(name: str, raw: float, points: float, weight: int) -> ScorePart:
    return ScorePart(name, raw, points, weight, weight * points)


def _within_device(part: ScorePart) -> ScorePart:
    within = f"{DEVICE}/{part.within}" if part.within else DEVICE
    return replace(part, scorer=f"{DEVICE}/{part.scorer}", within=within)


class Preferences:
    """Ranks nodes by preferences; pods with the same preferences share scores.

    Parameters
    ----------
    state
        The cluster's state.
    """

    def __init__(self, state: State) -> None:
        self._plugins = PodPlugins(((plugin, plugin.key, plugin.make) for plugin in SCORE_PLUGINS), state)

    def rank(self, pod: Pod, part: NodePart, rows: NDArray[np.int64], weight: int) -> RankedNodes | None:
        """Rank the nodes where a pod fits.

        Parameters
        ----------
        part
            The pod's node part, up to date: where the pod fits, and the score of each node.
        rows
            The rows that are open to the pod.
        weight
            The weight of the score's points.

        Returns
        -------
        RankedNodes or None
            None where no plugin prefers one node to another, or there is no choice: the score alone decides.
        """
        asked = self._plugins.of(pod)
        if not asked:
            return None
        fitting = rows[part.feasible[rows]]
        if fitting.shape[0] < 2:
            return None
        answers = [(plugin, score.evaluate(pod, fitting)) for plugin, score in asked]
        said = tuple((plugin, scores) for plugin, scores in answers if scores is not None)
        if not any(scores.distinguish() for _, scores in said):
            return None
        device = part.score[fitting]
        return RankedNodes(fitting, device, part.ranking.points(device), weight, said)


class Filtered:
    """The filter results of all nodes for one pod.

    Parameters
    ----------
    node
        The filters of single nodes; up to date.
    cluster
        The filters that look at other nodes, too; None if there are none.
    pod
        The pod.
    rows
        The live rows, shape (n,).

    Attributes
    ----------
    pre_filter_reason
        Why no node is tried; None if nodes are tried.
    candidates
        With a cluster part: the rows that no filter but the card filter rejects; none if ``pre_filter_reason`` is set.
        Without one: all rows, including those that the node part rejects.
    """

    def __init__(self, node: NodePart, cluster: ClusterPart | None, pod: Pod, rows: NDArray[np.int64]) -> None:
        self._node = node
        self.rows = rows
        self.candidates = rows
        self._rejected: list[tuple[RejectionCodes, NDArray[np.int64], NDArray[np.int32]]] = []
        self._beside_nominated: dict[int, Rejection] = {}
        self.pre_filter_reason: Reason | None = node.predicates.rejection
        if cluster is None:
            return
        self.pre_filter_reason = self.pre_filter_reason or cluster.pre_filter(pod)
        if self.pre_filter_reason is None:
            passing = rows[node.rejected[rows] == RejectionCodes.PASSES]
            self.candidates, self._rejected = cluster.evaluate(pod, passing)
        else:
            self.candidates = rows[:0]

    def reject(self, row: int, rejection: Rejection) -> None:
        """Record why a node rejects the pod once the pods nominated to that node are counted."""
        self.candidates = self.candidates[self.candidates != row]
        self._beside_nominated[row] = rejection

    def rejection(self, row: int) -> Rejection | None:
        """Return the rejection of the first filter that rejects a row; None if it passes all."""
        if self.pre_filter_reason is not None:
            return Rejection((self.pre_filter_reason,), resolvable=False)
        if row in self._beside_nominated:
            return self._beside_nominated[row]
        for rejections, rows, codes in self._answers(np.array([row])):
            code = int(codes[rows == row].max(initial=RejectionCodes.PASSES))
            if code != RejectionCodes.PASSES:
                return rejections[code]
        return None

    def _answers(self, rows: NDArray[np.int64]) -> list[tuple[RejectionCodes, NDArray[np.int64], NDArray[np.int32]]]:
        """Return the answers of the filters of single nodes for the rows, and those of the cluster filters."""
        part = self._node
        return [(part.predicates.rejections, rows, part.rejected[rows]), *self._rejected]

    def resolvable(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows whose rejection preemption could resolve, and the rows that pass all filters.

        Both are ascending.
        """
        if self.pre_filter_reason is not None:
            return self.rows[:0], self.rows[:0]
        found, passing = [np.empty(0, dtype=np.int64)], np.ones(self._node.rejected.shape[0], dtype=np.bool_)
        for rejections, rows, codes in self._answers(self.rows):
            passing[rows[codes != RejectionCodes.PASSES]] = False
            distinct = np.unique(codes[codes != RejectionCodes.PASSES])
            helped = [code for code in distinct.tolist() if rejections[code].resolvable]
            found.append(rows[np.isin(codes, helped)])
        beside = self._beside_nominated
        passing[list(beside)] = False
        rejected = np.concatenate(found)
        rejected = rejected[~np.isin(rejected, list(beside))] if beside else rejected
        helped = [row for row, rejection in beside.items() if rejection.resolvable]
        rejected = np.sort(np.concatenate([rejected, np.array(helped, dtype=np.int64)]))
        return rejected, self.rows[passing[self.rows]]

    def possible_rows(self) -> NDArray[np.int64]:
        """Return the rows where the pod fits, or may fit once other pods are gone."""
        rejected, passing = self.resolvable()
        may_fit = self._node.feasible[passing] | self._node.short_of_cards()[passing]
        return np.concatenate([rejected, passing[may_fit]])

    def rejections(self) -> dict[int, Rejection]:
        """Return the rejection of the first filter that rejects each row, by row; rows that pass are left out."""
        if self.pre_filter_reason is not None:
            return dict.fromkeys(self.rows.tolist(), Rejection((self.pre_filter_reason,), resolvable=False))
        found: dict[int, Rejection] = {}
        for rejections, rows, codes in self._answers(self.rows):
            answers = zip(rows.tolist(), codes.tolist(), strict=True)
            found.update((row, rejections[code]) for row, code in answers if code)
        return found | self._beside_nominated

    def count(self) -> dict[Reason | CardReason, int]:
        """Count the rows by the reasons of the first filter that rejects them."""
        if self.pre_filter_reason is not None:
            return {self.pre_filter_reason: int(self.rows.shape[0])}
        counts: Counter[Reason | CardReason] = Counter()
        if self._beside_nominated:
            counts.update(reason for rejection in self.rejections().values() for reason in rejection.reasons)
            return counts
        for rejections, _, codes in self._answers(self.rows):
            counts.update(rejections.count(codes))
        return counts

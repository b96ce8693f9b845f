"""Equivalence classes: pods that ask for the same are decided from the same columns and the same cluster part.

Replicas share what they ask for. What that comes to on each node (filters, cards, score) is kept by node row and
computed anew only where it may have changed, so that a decision costs what changed, not what exists. What a class asks
of more than one node, kube-scheduler's cluster-wide filters, is evaluated for each decision.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, CardChoice, FitColumns
from vgpu_scheduler.dialects import Fix
from vgpu_scheduler.kernels import stale_rows
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import PodClaims, dialect_of
from vgpu_scheduler.policy import EffectivePolicy
from vgpu_scheduler.predicates import (
    ClusterFilter,
    CompiledPredicates,
    FilterError,
    Reason,
    RejectionCodes,
)
from vgpu_scheduler.scorers import NodeRanking, WeightedScorer
from vgpu_scheduler.state import InUse, PeerKeys, Peers, State

__all__ = ["ClusterPart"]


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """The filters of a pod that look beyond a single node.

    They hold small values, and are evaluated per decision from what events keep.

    Attributes
    ----------
    filters
        At least one, in kube-scheduler's order; pods that ask the same share them.
    """

    filters: tuple[ClusterFilter, ...]

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why no node need be tried for the pod now; None if they are to be tried."""
        return next((reason for each in self.filters if (reason := each.pre_filter(pod)) is not None), None)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return what of the pod, as things stand, the answers depend on; equal for pods that get the same."""
        return tuple((each, each.equivalence(pod)) for each in self.filters)

    def lets(self, pod: Pod, row: int) -> bool:
        """Tell whether the pod may go to a node, as far as these filters know; not where one cannot tell."""
        try:
            return self.pre_filter(pod) is None and bool(self.evaluate(pod, np.array([row]))[0].size)
        except FilterError:
            return False

    def evaluate(
        self, pod: Pod, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[tuple[RejectionCodes, NDArray[np.int64], NDArray[np.int32]]]]:
        """Filter nodes.

        Parameters
        ----------
        rows
            Rows that pass the filters of single nodes, shape (n,).

        Returns
        -------
        passing : NDArray[int64], shape (m,)
            The rows where the pod can go.
        rejected : list
            For each filter that rejects some: what its codes stand for, the rows that it was asked about, and their
            codes.
        """
        rejected = []
        for each in self.filters:
            codes = each.evaluate(pod, rows)
            if codes is not None and codes.any():
                rejected.append((each.rejections, rows, codes))
                rows = rows[codes == RejectionCodes.PASSES]
        return rows, rejected


_NEVER = -1


@dataclass(frozen=True, slots=True)
class Refused:
    """No pod of the class is placed anywhere, because of the pod, its policy or the settings alone.

    Attributes
    ----------
    reason
        What is wrong, naming the field.
    fix
        What is to be written otherwise; None where it is not as simple as that.
    """

    policy: EffectivePolicy
    reason: str
    fix: Fix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedClaims:
    """What a pod asks of devices under its policy; pods that ask the same of a node share one object.

    Attributes
    ----------
    choice, scorers
        How the policy has cards chosen and nodes ranked, as far as the dialect knows.
    annotations
        Those of the pod that may be followed.
    warnings
        What of the pod's annotations and policies is not followed, and why.
    peer_keys
        What the pods have in common that share no card.
    """

    policy: EffectivePolicy
    claims: PodClaims
    choice: CardChoice
    scorers: tuple[WeightedScorer, ...]
    annotations: dict[str, str]
    warnings: tuple[str, ...]

    peer_keys: tuple[PeerKeys, ...] = ()

    @property
    def dialect(self) -> str:
        """The dialect that devices are claimed in; empty for a pod that claims none."""
        return dialect_of(self.claims)

    def peers(self, pod: Pod) -> tuple[Peers, ...]:
        """Return the pods with which one of the pods that ask this shares no card."""
        if not self.peer_keys:
            return ()
        return tuple(peers for keys in self.peer_keys if (peers := keys.of(pod)) is not None)


class NodeColumns:
    """What the node part of a class says of each node row; rows that nobody has asked about mean nothing.

    Parameters
    ----------
    capacity
        The number of node rows, N.

    Attributes
    ----------
    rejected
        Codes of the Kubernetes filters (see ``predicates.rejections``), 0 where all pass; shape (N,).
    fit
        What came of the cards; meaningless where a filter rejects.
    feasible
        Where the pod fits; shape (N,).
    score
        What the ranking says; meaningless where the pod does not fit; shape (N,).
    fitted_at
        The version of the node that all of that is about; shape (N,).
    """

    __slots__ = ("feasible", "fit", "fitted_at", "rejected", "score")

    def __init__(self, capacity: int = 0) -> None:
        self.rejected = np.zeros(capacity, dtype=np.int32)
        self.fit = FitColumns.empty(capacity)
        self.score = np.zeros(capacity, dtype=np.float64)
        self.feasible = np.zeros(capacity, dtype=np.bool_)
        self.fitted_at = np.full(capacity, _NEVER, dtype=np.int64)

    @property
    def capacity(self) -> int:
        """The number of node rows."""
        return self.fitted_at.shape[0]


_ASKED: WeakKeyDictionary[State, NodeColumns] = WeakKeyDictionary()
"""Where the answers to single questions about a state are written."""


def _columns_for_questions(state: State) -> NodeColumns:
    """Return columns in which the rows that were not asked about just now mean nothing."""
    columns = _ASKED.get(state)
    if columns is None or columns.capacity < state.nodes.capacity:
        columns = _ASKED[state] = NodeColumns(state.nodes.capacity)
    return columns


_NOTHING = NodeColumns()
"""The columns of all parts that know nothing of any node."""


class NodePart:
    """What depends on one node only: filters, cards, score; columns by node row.

    Parameters
    ----------
    predicates
        The Kubernetes filters.
    allocator
        What chooses the cards; None for pods without device claims.
    ranking
        What orders the nodes that fit.
    dialect
        Whose devices the allocator chooses from.
    """

    def __init__(
        self, predicates: CompiledPredicates, allocator: Allocator | None, ranking: NodeRanking, dialect: str = ""
    ) -> None:
        self.predicates = predicates
        self.allocator = allocator
        self.ranking = ranking
        self.dialect = dialect
        self.drop()

    def drop(self) -> None:
        """Forget what is known of the nodes: all of them are computed anew when they are asked about."""
        self._columns = _NOTHING
        self._epoch: int | None = None  # not asked yet
        self._unscored: NDArray[np.bool_] | None = None  # where scores of an earlier epoch stand, if anywhere

    def with_columns(self, columns: NodeColumns) -> NodePart:
        """Return the same question with columns of somebody else, of which nothing is believed."""
        other = NodePart(self.predicates, self.allocator, self.ranking, self.dialect)
        other._columns = columns
        return other

    @property
    def rejected(self) -> NDArray[np.int32]:
        """See :class:`NodeColumns`."""
        return self._columns.rejected

    @property
    def fit(self) -> FitColumns:
        """See :class:`NodeColumns`."""
        return self._columns.fit

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """See :class:`NodeColumns`."""
        return self._columns.feasible

    @property
    def score(self) -> NDArray[np.float64]:
        """See :class:`NodeColumns`."""
        return self._columns.score

    def refresh(self, state: State, rows: NDArray[np.int64]) -> int:
        """Bring the columns up to date for the given node rows; return how many had to be fitted.

        The fit follows the version of the node alone, the score also the epoch of the scorers.
        """
        nodes = state.nodes
        if self._columns.capacity < nodes.capacity:
            self._columns, self._unscored = NodeColumns(nodes.capacity), None
        epoch = self.ranking.epoch(state)
        if self._epoch != epoch:
            self._unscored = None if self._epoch is None else self.feasible.copy()
            self._epoch = epoch
        stale, fitted_at = np.empty_like(rows), self._columns.fitted_at
        count = stale_rows(rows, nodes.version, fitted_at, stale)
        try:
            fitting = self._fit(state, stale[:count]) if count else stale[:0]
            if self._unscored is not None:
                fitting = self._catch_up(state, rows, fitting, self._unscored)
            if fitting.shape[0]:
                self._score(state, fitting)
        except BaseException:
            fitted_at[rows] = _NEVER  # half of an evaluation must not pass for one
            raise
        return count

    def if_in_use(self, state: State, row: int, in_use: InUse) -> NodePart:
        """Return this part with the answer of one node as if other amounts of it were in use.

        The answer is in a buffer of the state, and is valid until the next such call; the columns of this part stay.

        Parameters
        ----------
        in_use
            What is taken to be in use of the node.
        """
        return self.if_in_use_on(state, np.array([row], dtype=np.int64), in_use)

    def if_in_use_on(self, state: State, rows: NDArray[np.int64], in_use: InUse) -> NodePart:
        """Return this part with the answers of some nodes, shape (n,); see :meth:`if_in_use`."""
        asked = self.with_columns(_columns_for_questions(state))
        asked._fit(state, rows, in_use)
        return asked

    def recompute(self, state: State, rows: NDArray[np.int64]) -> None:
        """Compute the columns of the given node rows, whatever they say."""
        if self._columns.capacity == state.nodes.capacity:
            self._columns.fitted_at[rows] = _NEVER
        self.refresh(state, rows)

    def _fit(self, state: State, rows: NDArray[np.int64], in_use: InUse | None = None) -> NDArray[np.int64]:
        """Fit the pod on nodes; return the rows of those where it fits."""
        rejected = self.predicates.evaluate(rows, in_use)
        self.rejected[rows] = rejected
        passing = rows if not rejected.any() else rows[rejected == 0]
        self.feasible[rows] = False
        self.fit.counts[rows] = 0
        if self.allocator is not None and passing.shape[0]:
            columns = None if in_use is None else in_use.devices[self.dialect]
            self.allocator.fit(state.matrix(self.dialect), passing, self.fit, columns)
            passing = passing[self.fit.fits[passing]]
        self.feasible[passing] = True
        return passing

    def _catch_up(
        self, state: State, rows: NDArray[np.int64], fitting: NDArray[np.int64], unscored: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return which of the rows have to be scored: those that were fitted now and those of an earlier epoch."""
        unscored[fitting] = True
        due: NDArray[np.int64] = rows[unscored[rows] & self.feasible[rows]]
        unscored[rows] = False
        if not unscored[state.nodes.alive].any():
            self._unscored = None
        return due

    def _score(self, state: State, rows: NDArray[np.int64]) -> None:
        self.score[rows] = self.ranking.score(state, rows, self.fit)


@dataclass(frozen=True, slots=True)
class SchedulableClass:
    """A class whose pods can be placed where there is room for them.

    Attributes
    ----------
    claimed
        What the pods ask of devices.
    node
        What depends on one node only.
    cluster
        What depends on more; None if there is nothing, so that nothing is paid for it.
    limited
        Whether quotas of its namespace, or pods that it shares no card with, may keep a pod from some card.
    """

    claimed: ResolvedClaims
    node: NodePart
    cluster: ClusterPart | None
    limited: bool = False

    def equivalence(self, pod: Pod) -> Hashable:
        """Return what of a pod of the class its decision depends on: equal for pods that get the same answer."""
        asked = (self.claimed, pod.priority, pod.namespace if self.limited else "", self.claimed.peers(pod))
        return asked if self.cluster is None else (*asked, self.cluster.equivalence(pod))


EquivalenceClass = Refused | SchedulableClass

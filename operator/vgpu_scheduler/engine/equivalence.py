"""Equivalence classes: pods with equal requests share the same columns and the same cluster part.

The results for each node (filters, cards, score) are cached by node row and recomputed only for nodes that may have
changed, so the cost of a decision grows with the changes, not with the cluster. The filters that depend on more than
one node (kube-scheduler's cluster-wide filters) are evaluated for each decision.
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
from vgpu_scheduler.model import CardReason, PodClaims, dialect_of
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


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """The filters of a pod that depend on more than one node; evaluated per decision.

    Attributes
    ----------
    filters
        At least one, in kube-scheduler's order; pods of a class share them.
    """

    filters: tuple[ClusterFilter, ...]

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why the pod fits on no node now; None if nodes must be tried."""
        return next((reason for each in self.filters if (reason := each.pre_filter(pod)) is not None), None)

    def equivalence(self, pod: Pod) -> Hashable:
        """Return a key that is equal for pods that get the same results from these filters now."""
        return tuple((each, each.equivalence(pod)) for each in self.filters)

    def lets(self, pod: Pod, row: int) -> bool:
        """Tell whether these filters pass a node for the pod; False if a filter cannot decide."""
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
            The rows that pass all filters.
        rejected : list
            For each filter that rejects rows: the meaning of its codes, the rows that it evaluated, and their codes.
        """
        rejected = []
        for each in self.filters:
            codes = each.evaluate(pod, rows)
            if codes is not None and codes.any():
                rejected.append((each.rejections, rows, codes))
                rows = rows[codes == RejectionCodes.PASSES]
        return rows, rejected


_NEVER = -1
_RESOLVABLE = [int(reason) for reason in CardReason if reason.resolvable]


@dataclass(frozen=True, slots=True)
class RefusedClass:
    """A class whose pods fit on no node, because of the pod, its policy or the settings alone.

    Attributes
    ----------
    reason
        What is wrong, naming the field.
    fix
        The change that corrects it; None if there is no simple one.
    """

    policy: EffectivePolicy
    reason: str
    fix: Fix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedClaims:
    """The device claims of a pod under its policy; pods with equal claims share one object.

    Attributes
    ----------
    choice, scorers
        How the policy chooses cards and ranks nodes, as far as the dialect supports it.
    annotations
        The annotations of the pod that take effect.
    warnings
        Which annotations and policies of the pod have no effect, and why.
    peer_keys
        The keys by which pods that share no card with each other are recognised.
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
        """The dialect of the claims; empty for a pod that claims no devices."""
        return dialect_of(self.claims)

    def peers(self, pod: Pod) -> tuple[Peers, ...]:
        """Return the pods with which a pod with these claims shares no card."""
        if not self.peer_keys:
            return ()
        return tuple(peers for keys in self.peer_keys if (peers := keys.of(pod)) is not None)


class NodeColumns:
    """The results of the node part of a class by node row; rows that were never evaluated are meaningless.

    Parameters
    ----------
    capacity
        The number of node rows, N.

    Attributes
    ----------
    rejected
        Codes of the Kubernetes filters (see ``predicates.rejections``), 0 where all pass; shape (N,).
    fit
        The result of the allocator; meaningless where a filter rejects.
    feasible
        Whether the pod fits; shape (N,).
    score
        The score of the ranking; meaningless where the pod does not fit; shape (N,).
    fitted_at
        The version of the node for which the row was computed; shape (N,).
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


_SCRATCH: WeakKeyDictionary[State, NodeColumns] = WeakKeyDictionary()
"""The scratch columns of each state, for evaluations that are not cached; overlays have their own."""


def _scratch_columns(state: State) -> NodeColumns:
    """Return the scratch columns of a state; only the rows evaluated by the caller are meaningful."""
    columns = _SCRATCH.get(state)
    if columns is None or columns.capacity < state.nodes.capacity:
        columns = _SCRATCH[state] = NodeColumns(state.nodes.capacity)
    return columns


_NOTHING = NodeColumns()
"""The columns of all parts that have evaluated no node."""


class NodePart:
    """The part of a class that depends on one node only: filters, cards, score; columns by node row.

    Parameters
    ----------
    predicates
        The Kubernetes filters.
    allocator
        Chooses the cards; None for pods without device claims.
    ranking
        Scores the feasible nodes.
    dialect
        The dialect of the devices that the allocator chooses from.
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
        """Drop all cached columns."""
        self._columns = _NOTHING
        self._epoch: int | None = None  # no epoch seen yet
        self._unscored: NDArray[np.bool_] | None = None  # rows with scores of an earlier epoch; None if there are none

    def with_columns(self, columns: NodeColumns) -> NodePart:
        """Return a copy of this part that uses other columns, and treats them as not computed yet."""
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

    def short_of_cards(self) -> NDArray[np.bool_]:
        """Tell which rows have cards that the pod could get if other pods were gone, shape (capacity,)."""
        return np.asarray(self.fit.counts[:, _RESOLVABLE].any(axis=1))

    @property
    def score(self) -> NDArray[np.float64]:
        """See :class:`NodeColumns`."""
        return self._columns.score

    def refresh(self, state: State, rows: NDArray[np.int64]) -> int:
        """Bring the columns up to date for the given node rows; return how many rows had to be fitted.

        A fit is stale if the version of the node changed, a score also if the epoch of the scorers changed.
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
            fitted_at[rows] = _NEVER  # rows that are only partly computed must count as stale
            raise
        return count

    def if_in_use(self, state: State, row: int, in_use: InUse) -> NodePart:
        """Return this part evaluated for one node as if other amounts of the node were in use.

        The result is in scratch columns of the state, valid until the next such call; the columns of this part stay.

        Parameters
        ----------
        in_use
            The amounts to assume in use.
        """
        return self.if_in_use_on(state, np.array([row], dtype=np.int64), in_use)

    def if_in_use_on(self, state: State, rows: NDArray[np.int64], in_use: InUse) -> NodePart:
        """Return this part evaluated for some node rows, shape (n,); see :meth:`if_in_use`."""
        asked = self.with_columns(_scratch_columns(state))
        asked._fit(state, rows, in_use)
        return asked

    def recompute(self, state: State, rows: NDArray[np.int64]) -> None:
        """Compute the columns of the given node rows, even if they are not stale."""
        if self._columns.capacity == state.nodes.capacity:
            self._columns.fitted_at[rows] = _NEVER
        self.refresh(state, rows)

    def _fit(self, state: State, rows: NDArray[np.int64], in_use: InUse | None = None) -> NDArray[np.int64]:
        """Fit the pod on node rows; return the rows where it fits."""
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
        """Return the rows to score: those that were fitted now, and feasible ones with a score of an earlier epoch."""
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
        The device claims of the pods.
    node
        The part that depends on one node only.
    cluster
        The part that depends on more than one node; None if there is none.
    limited
        Whether quotas of the namespace, or pods with which a pod shares no card, may exclude cards.
    """

    claimed: ResolvedClaims
    node: NodePart
    cluster: ClusterPart | None
    limited: bool = False

    def equivalence(self, pod: Pod) -> Hashable:
        """Return a key of a pod of this class that is equal for pods that get the same decision."""
        asked = (self.claimed, pod.priority, pod.namespace if self.limited else "", self.claimed.peers(pod))
        return asked if self.cluster is None else (*asked, self.cluster.equivalence(pod))


EquivalenceClass = RefusedClass | SchedulableClass

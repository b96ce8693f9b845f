"""Topology spread: kube-scheduler's PodTopologySpread, as a filter and as a score."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import (
    HOSTNAME,
    ZONE,
    LabelSelector,
    Pod,
    PodSelector,
    PodSpec,
    SpreadConstraint,
    Taint,
    untolerated,
)
from vgpu_scheduler.predicates.filters import ClusterFilter, ClusterPlugin
from vgpu_scheduler.predicates.lookups import NodeAffinityLookup, ValueLookup
from vgpu_scheduler.predicates.reasons import SPREAD, SPREAD_LABEL, RejectionCodes
from vgpu_scheduler.predicates.scores import MOST_POINTS, PodScore, ScorePlugin, Scores
from vgpu_scheduler.state import NodeTable, PodCounter, State

_REJECTIONS: Final = RejectionCodes((SPREAD, SPREAD_LABEL))
_SKEWED, _UNLABELLED = 1, 2


def label_values(pod: Pod, constraints: tuple[SpreadConstraint, ...]) -> tuple[str | None, ...]:
    """Return the pod's values of the constraints' ``matchLabelKeys``."""
    return tuple(pod.labels.get(key) for constraint in constraints for key in constraint.match_label_keys)


def _key(pod: Pod, state: State) -> Hashable | None:
    del state
    constraints = pod.spec.hard_spread
    return (pod.namespace, pod.spec.fingerprint, *label_values(pod, constraints)) if constraints else None


class EligibleNodes:
    """The nodes that a constraint counts, by its ``nodeAffinityPolicy`` and ``nodeTaintsPolicy``.

    Parameters
    ----------
    spec
        What the pod asks for.
    """

    def __init__(self, spec: PodSpec) -> None:
        self._affinity = NodeAffinityLookup(spec)
        self._taints: ValueLookup[tuple[Taint, ...]] = ValueLookup(
            absent=True, accepts=lambda taints: not untolerated(taints, spec.tolerations)
        )

    def __call__(self, constraint: SpreadConstraint, nodes: NodeTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each of the rows whether it counts; shape as ``rows``."""
        eligible = np.ones(rows.shape[0], dtype=np.bool_)
        if constraint.honors_affinity and self._affinity:
            eligible &= self._affinity(nodes, rows)
        if constraint.honors_taints:
            eligible &= self._taints(nodes.taints, rows)
        return eligible


class CountedConstraint:
    """A constraint of a pod, with the counter of the pods that it selects.

    Parameters
    ----------
    constraint
        The constraint.
    selector
        Selects the pods to count; None for none.
    namespace
        The namespace of the pods.
    state
        The state; ``close`` must follow when the constraint is no longer needed.
    """

    def __init__(
        self, constraint: SpreadConstraint, selector: LabelSelector | None, namespace: str, state: State
    ) -> None:
        self.rule = constraint
        self.selector = selector
        self._state = state
        # As in kube-scheduler, an empty selector selects the pod itself but counts no other pods.
        counted = selector if selector is not None and selector.requirements else None
        pods = PodSelector(counted, frozenset((namespace,)))
        self._counter: PodCounter | None = (
            None if counted is None else state.interpod.acquire((pods,), state.nodes.row, lasting=True)
        )

    def by_domain(self, nodes: NodeTable, counted: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Count the pods of each domain.

        Parameters
        ----------
        counted
            Rows of the nodes that count, shape (n,); all of them have the label.

        Returns
        -------
        counts : NDArray[int64], shape (values + 1,)
            By the id of the label's value; 0 where no node counts. The last entry, for nodes without it, is 0.
        fewest : int
            The fewest pods of an eligible domain; 0 if there are fewer domains than ``minDomains``.
        """
        column = nodes.labels.column(self.rule.topology_key)
        ids, size = column.ids.take(counted), len(column.values) + 1
        counts = np.bincount(ids, weights=self.by_node().take(counted), minlength=size).astype(np.int64)
        domains = np.bincount(ids, minlength=size) > 0
        enough = int(domains.sum()) >= max(self.rule.min_domains, 1)
        return counts, int(counts[domains].min()) if enough else 0

    def by_node(self) -> NDArray[np.int64]:
        """Return the number of selected pods on each node, by node row."""
        capacity = self._state.nodes.capacity
        return np.zeros(capacity, dtype=np.int64) if self._counter is None else self._counter.nodes.column(capacity)

    def selects(self, pod: Pod) -> bool:
        """Tell whether the constraint selects a pod."""
        return self.selector is not None and self.selector.matches(pod.labels)

    def close(self) -> None:
        """Release the pod counters."""
        if self._counter is not None:
            self._state.interpod.release(self._counter)


class SpreadFilter(ClusterFilter):
    """The hard constraints of pods with the same constraints; the pods that these select are counted from now on.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its spec, and the labels that its constraints depend on are read.
    state
        The state; ``close`` must follow when the filter is no longer needed.
    """

    rejections: Final = _REJECTIONS

    def __init__(self, pod: Pod, state: State) -> None:
        self._state = state
        self._eligible = EligibleNodes(pod.spec)
        self._constraints = [
            CountedConstraint(constraint, constraint.selector(pod.labels), pod.namespace, state)
            for constraint in pod.spec.hard_spread
        ]

    def equivalence(self, pod: Pod) -> Hashable:
        """Return which of the constraints select the pod itself."""
        return tuple(constraint.selects(pod) for constraint in self._constraints)

    def close(self) -> None:
        """Release the pod counters."""
        for constraint in self._constraints:
            constraint.close()

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`."""
        nodes = self._state.nodes
        everywhere = nodes.rows()
        labelled = np.ones(everywhere.shape[0], dtype=np.bool_)
        for constraint in self._constraints:
            labelled &= nodes.labels.column(constraint.rule.topology_key).ids.take(everywhere) >= 0
        codes = np.zeros(rows.shape[0], dtype=np.int32)
        # From the last constraint to the first, so that the first overwrites the others.
        for constraint in reversed(self._constraints):
            domains = nodes.labels.column(constraint.rule.topology_key).ids.take(rows)
            counted = everywhere[labelled & self._eligible(constraint.rule, nodes, everywhere)]
            counts, fewest = constraint.by_domain(nodes, counted)
            most = constraint.rule.max_skew + fewest - constraint.selects(pod)
            codes[counts.take(domains) > most] = _SKEWED
            codes[domains < 0] = _UNLABELLED
        return codes


POD_TOPOLOGY_SPREAD_PLUGIN: Final = ClusterPlugin("PodTopologySpread", _key, SpreadFilter)


class SoftConstraints(NamedTuple):
    """The constraints that rank nodes for a pod.

    Attributes
    ----------
    constraints
        The constraints.
    all_keys
        Whether nodes that lack the label of any constraint score 0. With the system defaults, nodes without a zone are
        still scored by hostname.
    """

    constraints: tuple[SpreadConstraint, ...]
    all_keys: bool = True


def system_defaults(selector: LabelSelector) -> SoftConstraints:
    """Return the constraints that kube-scheduler adds to pods without any.

    Parameters
    ----------
    selector
        The merged selector of the pod's services, replication controller, replica set or stateful set; it must have
        requirements.
    """
    skews = ((HOSTNAME, 3), (ZONE, 5))
    return SoftConstraints(
        tuple(SpreadConstraint(key, skew, selector, hard=False) for key, skew in skews), all_keys=False
    )


class SpreadScore(PodScore):
    """Scores nodes by how few selected pods their domains have, weighted by the number of domains.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its spec, and the labels that its constraints depend on are read.
    state
        The state; ``close`` must follow when the score is no longer needed.
    soft
        The constraints; by default the pod's own.
    """

    def __init__(self, pod: Pod, state: State, soft: SoftConstraints | None = None) -> None:
        self._state = state
        self._eligible = EligibleNodes(pod.spec)
        constraints, self._all_keys = soft or SoftConstraints(pod.spec.soft_spread)
        self._constraints = [
            CountedConstraint(constraint, constraint.selector(pod.labels), pod.namespace, state)
            for constraint in constraints
        ]

    def close(self) -> None:
        """Release the pod counters."""
        for constraint in self._constraints:
            constraint.close()

    def evaluate(self, pod: Pod, rows: NDArray[np.int64]) -> Scores:
        """Score nodes; see :class:`PodScore`."""
        del pod
        scored, everywhere = self._with_all_keys(rows), self._state.nodes.rows()
        counted = everywhere[self._with_all_keys(everywhere)]
        amount = np.zeros(rows.shape[0], dtype=np.float64)
        for constraint in self._constraints:
            amount += self._amount(constraint, rows, scored, counted)
        # Halves are rounded up; nodes without the labels score 0.
        raw = np.where(scored, np.floor(amount + 0.5).astype(np.int64), 0)
        return Scores(raw, _normalised(raw, scored))

    def _amount(
        self,
        constraint: CountedConstraint,
        rows: NDArray[np.int64],
        scored: NDArray[np.bool_],
        counted: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return a constraint's score by row: the pods in the row's domain times the topology's weight, and the skew.

        Parameters
        ----------
        rows, scored
            The rows, and which of them have all required labels; shape (n,).
        counted
            All rows that have these labels; shape (m,).
        """
        nodes = self._state.nodes
        column, by_node = nodes.labels.column(constraint.rule.topology_key), constraint.by_node()
        ids = column.ids.take(rows)
        if constraint.rule.topology_key == HOSTNAME:
            pods, size = by_node.take(rows), int(scored.sum())
        else:
            eligible = counted[self._eligible(constraint.rule, nodes, counted)]
            domains = column.ids.take(eligible)
            there = domains >= 0
            weights = by_node.take(eligible)[there]
            by_domain = np.bincount(domains[there], weights=weights, minlength=len(column.values) + 1)
            pods, size = by_domain.take(ids), np.unique(ids[scored]).shape[0]
        amount = pods * math.log(size + 2) + (constraint.rule.max_skew - 1)
        return np.where(ids >= 0, amount, 0.0)

    def _with_all_keys(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which rows have the labels of all constraints, if ``all_keys``."""
        found = np.ones(rows.shape[0], dtype=np.bool_)
        for constraint in self._constraints if self._all_keys else ():
            found &= self._state.nodes.labels.column(constraint.rule.topology_key).ids.take(rows) >= 0
        return found


def _normalised(raw: NDArray[np.int64], scored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Reverse the scores so that the smallest amount gets 100 points; all rows get 100 if all amounts are 0."""
    amounts = raw[scored]
    largest = amounts.max(initial=0)
    if not largest:
        return np.where(scored, MOST_POINTS, 0)
    points = MOST_POINTS * (largest + amounts.min() - raw) // largest
    return np.where(scored, points, 0)


def _soft(pod: Pod, state: State) -> SoftConstraints | None:
    """Return the soft constraints of a pod, or the system defaults if it has no constraints at all."""
    if pod.spec.soft_spread:
        return SoftConstraints(pod.spec.soft_spread)
    selector = None if pod.spec.hard_spread else state.spread_selectors.selector_of(pod)
    return None if selector is None else system_defaults(selector)


def _score_key(pod: Pod, state: State) -> Hashable | None:
    soft = _soft(pod, state)
    if soft is None:
        return None
    return (pod.namespace, pod.spec.fingerprint, soft.constraints, *label_values(pod, soft.constraints))


def _make(pod: Pod, state: State) -> SpreadScore:
    return SpreadScore(pod, state, _soft(pod, state))


POD_TOPOLOGY_SPREAD_SCORE: Final = ScorePlugin("PodTopologySpread", 2, _score_key, _make)

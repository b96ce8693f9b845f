"""Soft topology spread constraints: the scores of kube-scheduler's PodTopologySpread for many nodes at once."""

import math
from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import LabelSelector, Pod, SpreadConstraint
from vgpu_scheduler.predicates.scores import MOST_POINTS, ScorePlugin, Scores
from vgpu_scheduler.predicates.spread import CountedConstraint, EligibleNodes, label_values
from vgpu_scheduler.state import State

__all__ = ["POD_TOPOLOGY_SPREAD_SCORE", "SoftConstraints", "SpreadScore", "system_defaults"]

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


class SoftConstraints(NamedTuple):
    """The constraints that rank nodes for a pod.

    Attributes
    ----------
    constraints
        The constraints.
    all_keys
        Whether nodes that lack the label of any of them are worth nothing. The system's defaults let nodes without a
        zone still be spread over by hostname.
    """

    constraints: tuple[SpreadConstraint, ...]
    all_keys: bool = True


def system_defaults(selector: LabelSelector) -> SoftConstraints:
    """Return the constraints that kube-scheduler adds to pods without any.

    Parameters
    ----------
    selector
        Which pods belong together, as the services, replication controllers, replica sets and stateful sets say that
        select the pod; it must have requirements.
    """
    skews = ((HOSTNAME, 3), (ZONE, 5))
    return SoftConstraints(
        tuple(SpreadConstraint(key, skew, selector, hard=False) for key, skew in skews), all_keys=False
    )


class SpreadScore:
    """How few pods a node's domains have, domains of large topologies counting more.

    Parameters
    ----------
    pod
        One of the pods: its namespace, its spec, and the labels that its constraints depend on matter.
    state
        What is known; ``close`` must follow when the score is no longer needed.
    soft
        The constraints; the pod's own unless given.
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
        """Let the pods be counted no more, unless others need it."""
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
        # Halves are rounded up; what has no place among the domains is worth nothing, however it compares.
        raw = np.where(scored, np.floor(amount + 0.5).astype(np.int64), 0)
        return Scores(raw, _normalised(raw, scored))

    def _amount(
        self,
        constraint: CountedConstraint,
        rows: NDArray[np.int64],
        scored: NDArray[np.bool_],
        counted: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return what a constraint adds at each row: pods of its domain times the size of the topology, and the skew.

        Parameters
        ----------
        rows, scored
            The rows, and which of them have all labels that they need; shape (n,).
        counted
            All rows that have them; shape (m,).
        """
        nodes = self._state.nodes
        column, by_node = nodes.label(constraint.rule.topology_key), constraint.by_node()
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
        """Tell which rows have the labels of all constraints, if they must."""
        found = np.ones(rows.shape[0], dtype=np.bool_)
        for constraint in self._constraints if self._all_keys else ():
            found &= self._state.nodes.label(constraint.rule.topology_key).ids.take(rows) >= 0
        return found


def _normalised(raw: NDArray[np.int64], scored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Turn what is scored around, so that the least is worth 100; all of it is if there is nothing at all."""
    amounts = raw[scored]
    largest = amounts.max(initial=0)
    if not largest:
        return np.where(scored, MOST_POINTS, 0)
    points = MOST_POINTS * (largest + amounts.min() - raw) // largest
    return np.where(scored, points, 0)


def _soft(pod: Pod, state: State) -> SoftConstraints | None:
    """Return the constraints that rank nodes for a pod: its own, or the system's if it has none at all."""
    if pod.spec.soft_spread:
        return SoftConstraints(pod.spec.soft_spread)
    selector = None if pod.spec.hard_spread else state.selecting.selector_of(pod)
    return None if selector is None else system_defaults(selector)


def _key(pod: Pod, state: State) -> Hashable | None:
    soft = _soft(pod, state)
    if soft is None:
        return None
    return (pod.namespace, pod.spec.fingerprint, soft.constraints, *label_values(pod, soft.constraints))


def _make(pod: Pod, state: State) -> SpreadScore:
    return SpreadScore(pod, state, _soft(pod, state))


POD_TOPOLOGY_SPREAD_SCORE: Final = ScorePlugin("PodTopologySpread", 2, _key, _make)

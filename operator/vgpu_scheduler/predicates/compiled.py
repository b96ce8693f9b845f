"""Kubernetes' node filters for one pod, evaluated for many nodes at once.

The plugins, their order and their reasons are those of kube-scheduler 1.36's default profile: NodeUnschedulable,
NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit. Only the first that rejects a node is reported.
The module also has the scores of NodeAffinity (preferred terms) and TaintToleration (PreferNoSchedule taints).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    LabelSelector,
    Pod,
    Taint,
    untolerated,
)
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.predicates.lookups import (
    LabelLookup,
    NodeAffinityLookup,
    NumberLookup,
    TermLookup,
    ValueLookup,
)
from vgpu_scheduler.predicates.reasons import (
    AFFINITY,
    AFFINITY_CONFLICT,
    NODE_NAME,
    NOT_MANAGED,
    NOT_NAMED,
    POLICY_SELECTOR,
    PORTS,
    TAINT,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    Reason,
    Rejection,
    RejectionCodes,
    insufficient,
)
from vgpu_scheduler.predicates.scores import PodScore, ScorePlugin, Scores, of_largest
from vgpu_scheduler.state import InUse, NodeTable, State

_BASE: Final = (
    UNSCHEDULABLE,
    NODE_NAME,
    TAINT,
    AFFINITY,
    NOT_NAMED,
    AFFINITY_CONFLICT,
    PORTS,
    POLICY_SELECTOR,
    NOT_MANAGED,
)
_CODES: Final = {reason: code for code, reason in enumerate(_BASE, start=1)}
_ORDER: Final = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}

_TOGETHER: Final = 31
"""How many needs are checked at a time: each has one bit of a word, and one more bit means unresolvable."""
_UNRESOLVABLE: Final = 1 << _TOGETHER


class _Need(NamedTuple):
    """An amount that a node must have free."""

    column: int
    amount: np.int64
    reason: Reason


class CompiledPredicates:
    """The filters of one pod over one table of nodes.

    Parameters
    ----------
    pod
        The pod; only its spec and ``node_name`` are read.
    nodes
        The nodes to evaluate. The filters follow every later change of this table; a copy needs its own.
    ignored_resources
        Resources that are not checked here, because the device fit accounts for them.
    policy_selectors
        Selectors over node labels that policies set; all must match.
    managed
        The nodes that this scheduler places pods on; None for all.

    Attributes
    ----------
    rejections : RejectionCodes
        The rejections that the codes of :meth:`evaluate` stand for.
    rejection : Reason or None
        Set if the affinity terms conflict, so that kube-scheduler tries no node. Every row then has this reason, and
        the message quotes it without a count.
    """

    __slots__ = (
        "_affinity", "_managed", "_names", "_needs", "_node_name", "_nodes", "_planned", "_policy", "_ports",
        "_positions", "_requests", "_taints", "_tolerates_cordon", "_unoffered", "rejection", "rejections",
    )  # fmt: skip

    def __init__(
        self,
        pod: Pod,
        nodes: NodeTable,
        ignored_resources: frozenset[str],
        policy_selectors: Sequence[LabelSelector] = (),
        managed: LabelSelector | None = None,
    ) -> None:
        spec, affinity, tolerations = pod.spec, pod.spec.node_affinity, pod.spec.tolerations
        self._nodes = nodes
        self._node_name = pod.node_name
        self._tolerates_cordon = any(t.tolerates(UNSCHEDULABLE_TAINT) for t in tolerations)
        self._taints: ValueLookup[tuple[Taint, ...]] = ValueLookup(
            absent=True, accepts=lambda taints: not untolerated(taints, tolerations)
        )
        self._affinity = NodeAffinityLookup(spec)
        self._policy = [
            LabelLookup(requirement) for selector in policy_selectors for requirement in selector.requirements
        ]
        self._managed = [] if managed is None else [LabelLookup(requirement) for requirement in managed.requirements]
        self._names = None if affinity is None else affinity.names
        self.rejection: Reason | None = AFFINITY_CONFLICT if self._names is not None and not self._names else None
        self._ports = spec.host_ports
        asked = {name: amount for name, amount in spec.requests.items() if name not in ignored_resources}
        self._requests = tuple(sorted(asked.items(), key=lambda item: (_ORDER.get(item[0], 3), item[0])))
        reasons = (TOO_MANY_PODS, *(insufficient(name) for name, _ in self._requests))
        self._positions: dict[Reason | CardReason, int] = {reason: position for position, reason in enumerate(reasons)}
        self.rejections = RejectionCodes(_BASE)
        self._plan()

    def evaluate(self, rows: NDArray[np.int64], in_use: InUse | None = None) -> NDArray[np.int32]:
        """Filter nodes.

        Parameters
        ----------
        rows
            Live rows of the table; shape (n,).
        in_use
            Hypothetical usage; by default the actual one.

        Returns
        -------
        NDArray[int32], shape (n,)
            0 where the pod fits; else the code, in ``rejections``, of the first plugin that rejects the node.
        """
        if self.rejection is not None:
            return np.full(rows.shape[0], _CODES[self.rejection], dtype=np.int32)
        codes = self._fit(rows, self._nodes.used if in_use is None else in_use.resources)
        # From the last plugin to the first, so that the first overwrites the others. Policies come last: reasons of
        # kube-scheduler's plugins take precedence.
        for labels, reason in ((self._policy, POLICY_SELECTOR), (self._managed, NOT_MANAGED)):
            allowed = np.ones(rows.shape[0], dtype=np.bool_)
            for label in labels:
                allowed &= label(self._nodes, rows)
            if labels:
                np.copyto(codes, _CODES[reason], where=~allowed & (codes == 0))
        if self._ports:
            ports = self._nodes.ports if in_use is None else in_use.ports
            np.copyto(codes, _CODES[PORTS], where=ports.conflicts(rows, self._ports))
        if self._affinity:
            np.copyto(codes, _CODES[AFFINITY], where=~self._affinity(self._nodes, rows))
        np.copyto(codes, _CODES[TAINT], where=~self._taints(self._nodes.taints, rows))
        if self._node_name:
            row = self._nodes.row(self._node_name)
            np.copyto(codes, _CODES[NODE_NAME], where=rows != (-1 if row is None else row))
        if not self._tolerates_cordon:
            np.copyto(codes, _CODES[UNSCHEDULABLE], where=self._nodes.unschedulable[rows])
        if self._names is not None:
            np.copyto(codes, _CODES[NOT_NAMED], where=~self._named(rows))
        return codes

    def max_pods(self, rows: NDArray[np.int64], most: int) -> Iterator[tuple[Reason, NDArray[np.int64]]]:
        """Yield, per limiting reason, how many pods like this one fit on each node at most.

        Parameters
        ----------
        most
            The largest number to count; shape as ``rows``, like the results.
        """
        if self._planned != len(self._nodes.resources.columns):
            self._plan()
        for need in (need for needs in self._needs for need in needs if need.amount > 0):
            free = self._nodes.allocatable[rows, need.column] - self._nodes.used[rows, need.column]
            yield need.reason, np.minimum(np.maximum(free, 0) // need.amount, most)
        if self._ports:
            yield PORTS, np.ones(rows.shape[0], dtype=np.int64)

    def may_go(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which nodes pass taints, node affinity and policy selectors, whatever is in use; shape as ``rows``."""
        if self.rejection is not None:
            return np.zeros(rows.shape[0], dtype=np.bool_)
        may = self._taints(self._nodes.taints, rows)
        for label in (*self._policy, *self._managed):
            may &= label(self._nodes, rows)
        if self._affinity:
            may &= self._affinity(self._nodes, rows)
        if self._names is not None:
            may &= self._named(rows)
        return may

    def _plan(self) -> None:
        """Map the pod's requests to the current resource columns."""
        columns = self._nodes.resources.columns
        self._planned = len(columns)
        # The pod itself counts towards the node's ``pods``.
        needs = [_Need(columns[PODS], np.int64(1), TOO_MANY_PODS)]
        unoffered = []
        for name, amount in self._requests:
            column = columns.get(name)
            if column is None:  # no node has ever offered it
                unoffered.append(insufficient(name))
            else:
                needs.append(_Need(column, np.int64(amount), insufficient(name)))
        self._unoffered = self.rejections.code(Rejection(tuple(unoffered), not unoffered))
        self._needs = [needs[first : first + _TOGETHER] for first in range(0, len(needs), _TOGETHER)]

    def _fit(self, rows: NDArray[np.int64], in_use: NDArray[np.int64]) -> NDArray[np.int32]:
        """Evaluate NodeResourcesFit: every insufficient resource is a reason."""
        nodes = self._nodes
        if self._planned != len(nodes.resources.columns):
            self._plan()
        codes = np.full(rows.shape[0], self._unoffered, dtype=np.int32)
        offered, used = nodes.allocatable.T, in_use.T
        for needs in self._needs:
            short: NDArray[np.int64] | None = None
            # One column at a time: small temporaries come from the allocator's cache, large ones cost page faults.
            for position, (column, amount, reason) in enumerate(needs):
                allocatable = offered[column].take(rows)
                lacks = allocatable - used[column].take(rows) < amount
                if not lacks.any():
                    continue
                bits = lacks * np.int64(1 << position)
                short = bits if short is None else short | bits
                # As in kube-scheduler, "Too many pods" is always resolvable, even on a node that allows no pods.
                if reason is not TOO_MANY_PODS:
                    short |= (allocatable < amount) * np.int64(_UNRESOLVABLE)
            if short is not None:
                self._add(codes, short, needs)
        return codes

    def _add(self, codes: NDArray[np.int32], short: NDArray[np.int64], needs: Sequence[_Need]) -> None:
        """Add the reasons of insufficient resources to the codes, in place."""
        lacking = np.flatnonzero(short)
        words = (codes[lacking].astype(np.int64) << (_TOGETHER + 1)) | short[lacking]
        distinct, inverse = np.unique(words, return_inverse=True)
        extended = [self._extended(word >> (_TOGETHER + 1), word, needs) for word in distinct.tolist()]
        codes[lacking] = np.array(extended, dtype=np.int32)[inverse]

    def _extended(self, code: int, short: int, needs: Sequence[_Need]) -> int:
        """Return the code of a rejection with more reasons."""
        known = self.rejections[code]
        more = {need.reason for position, need in enumerate(needs) if short >> position & 1}
        reasons = sorted({*known.reasons, *more}, key=self._positions.__getitem__)
        return self.rejections.code(Rejection(tuple(reasons), known.resolvable and not short & _UNRESOLVABLE))

    def _named(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which rows the affinity's ``metadata.name`` terms name."""
        named = np.zeros(self._nodes.capacity, dtype=np.bool_)
        found = (self._nodes.row(name) for name in self._names or ())
        named[[row for row in found if row is not None]] = True
        return named[rows]


class PreferredNodesScore(PodScore):
    """The sum of the weights of the preferred terms that a node satisfies, normalised by the largest sum.

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


class SoftTaintsScore(PodScore):
    """The number of PreferNoSchedule taints that a pod does not tolerate; fewer are better.

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

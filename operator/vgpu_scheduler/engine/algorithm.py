"""One scheduling attempt: computes the decision for a pod from a state, without I/O, waiting or a clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.equivalence import NodePart, RefusedClass, SchedulableClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.kubelet_rejections import replaced_with
from vgpu_scheduler.engine.nearest import lacks_amounts, nearest_miss
from vgpu_scheduler.engine.node_fit import NodeFit, metadata_problem, pods_on_unknown_cards
from vgpu_scheduler.engine.nominated import NominatedPods
from vgpu_scheduler.engine.preferences import Filtered, Preferences, RankedNodes
from vgpu_scheduler.engine.prices import PriceLearner
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.engine.unschedulable import OF_ONE_NODE, count_rejections, verdicts
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    CardReason,
    ClusterEvent,
    Decision,
    NearMiss,
    Outcome,
    Placement,
    ScorePart,
)
from vgpu_scheduler.policy import EffectivePolicy
from vgpu_scheduler.predicates import FilterError, Reason, unschedulable_message
from vgpu_scheduler.state import Reservation

REFUSED = "Refused"
"""The plugin name in decisions that refuse a pod because of its own spec, policy or volumes."""


class SchedulingAlgorithm:
    """Decides pods against one state.

    Parameters
    ----------
    classes
        The equivalence classes of pods, and the state.
    closed_nodes
        The nodes whose device plugins serve no pods; None for no such nodes.
    storage
        Knows which writes to storage objects are denied; None if none is.
    prices
        Learns the prices of cards, where policies say so; None keeps prices constant.
    priority
        Returns the effective priority of a pod: its group's, or its own.

    Attributes
    ----------
    priority
        The same.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        closed_nodes: ClosedNodes,
        storage: StorageAccess,
        priority: Callable[[Pod], int],
        prices: PriceLearner | None = None,
    ) -> None:
        self.priority = priority
        self.state = classes.state
        self.classes = classes
        self.node_fit = NodeFit(classes, closed_nodes, priority)
        self._dialects = classes.dialects
        self._storage = storage
        self._prices = prices
        self._preferences = Preferences(self.state)
        self.nominated = NominatedPods(self.state, self.node_fit, priority)

    def decide(
        self,
        pod: Pod,
        *,
        explain: bool = False,
        within: NDArray[np.int64] | None = None,
        changed: NDArray[np.int64] | None = None,
    ) -> Decision:
        """Decide where a pod goes, without assuming the placement.

        Parameters
        ----------
        explain
            Include the verdict of every node that does not fit.
        within
            The node rows that the pod may go to, shape (n,); None for all. Other nodes are not counted either.
        changed
            The few node rows that changed since the pod fitted on no node, shape (n,); only these are evaluated, and
            the results are not cached. None for all.
        """
        decision = self._decide(pod, explain=explain, within=within, changed=changed)
        quota = CardReason.ResourceQuotaNotFit
        if not self.state.holds or decision.outcome is not Outcome.UNSCHEDULABLE or quota not in decision.reasons:
            return decision
        given_up: list[Reservation] = []
        for hold in self._holds_in_quota(pod):
            given_up.append(hold)
            with self.state.counting_across_nodes(without=given_up):
                again = self._decide(pod, explain=explain, within=within, changed=changed, uses_holds=False)
            if again.outcome is Outcome.PLACED:
                return replace(again, takes_holds_of=tuple(each.uid for each in given_up if each.uid != pod.uid))
        return decision

    def _holds_in_quota(self, pod: Pod) -> Iterator[Reservation]:
        """Yield the holds that count in the pod's quotas and that the pod may use.

        First its own, then that of pods of its namespace with lower priorities, the lowest first.
        """
        holds, priority = self.state.holds, self.priority(pod)
        lower = [hold for hold in holds if hold.reservation.namespace == pod.namespace and hold.priority < priority]
        own = holds.get(pod.uid)
        if own is not None:
            yield holds.charged(own.uid)
        for hold in sorted(lower, key=lambda hold: (hold.priority, hold.uid)):
            if hold.uid != pod.uid:
                yield holds.charged(hold.uid)

    def _decide(
        self,
        pod: Pod,
        *,
        explain: bool,
        within: NDArray[np.int64] | None,
        changed: NDArray[np.int64] | None,
        uses_holds: bool = True,
    ) -> Decision:
        """Decide about a pod; see :meth:`decide`.

        Parameters
        ----------
        uses_holds
            Also try nodes where holds are open to the pod.
        """
        may_use_holds = uses_holds and bool(self.state.holds)
        if changed is None:
            pod_class = self.classes.of(pod, beyond_any_card=not explain)
        else:
            pod_class = self.classes.transient(pod)
        if isinstance(pod_class, RefusedClass):
            return self._refused(pod, pod_class.policy, pod_class.reason)
        if self._prices is not None:
            self._prices.before(pod_class.claimed)  # new prices change the scores that are computed below
        if may_use_holds and (on_own_hold := self._on_own_hold(pod, pod_class, within)) is not None:
            return on_own_hold
        rows = self._refreshed_rows(pod_class.node, within, changed)
        try:
            filtered = self._filtered(pod, pod_class, rows)
        except FilterError as error:
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=str(error), error=error)
        decision = self._on_best_node(pod, pod_class, filtered, explain=explain)
        if decision is None and may_use_holds:
            decision = self._on_holds_of_others(pod, pod_class, within)
        return decision or self._unschedulable(pod, pod_class, filtered, explain=explain)

    def _refreshed_rows(
        self, part: NodePart, within: NDArray[np.int64] | None, changed: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Bring a node part up to date on the rows that a decision is about, and return these rows."""
        if changed is not None:
            part.recompute(self.state, changed)
            return changed
        rows = self.state.nodes.rows() if within is None else within
        part.refresh(self.state, rows)
        return rows

    def _on_best_node(
        self, pod: Pod, pod_class: SchedulableClass, filtered: Filtered, *, explain: bool
    ) -> Decision | None:
        """Place a pod on the node with the best score; None if it fits on no node."""
        part, policy = pod_class.node, pod_class.claimed.policy
        open_rows = rows = self.node_fit.without_closed(pod_class, pod, filtered.candidates)
        if pod.nominated_node_name:
            rows = self._nominated_first(pod, part, rows)
        ranked = self._preferences.rank(pod, part, rows, policy.device_weight)
        name_order = self.state.nodes.name_order
        if ranked is None:
            best = int(select_best(rows, part.feasible, part.score, name_order))
        else:
            best = ranked.best(part, name_order)
        if best < 0:
            return None
        problem = pod.spec.preferences_problem
        feasible = int(np.count_nonzero(part.feasible[rows]))
        if problem and feasible > 1:
            return self._refused(pod, policy, problem)  # nodes cannot be ranked for this pod
        placement = self.node_fit.placement(pod, pod_class, best)
        scored_rows = open_rows if explain else np.array([best], dtype=np.int64)
        scores = self._scores(part, scored_rows, ranked)
        decision = self._placed(pod, pod_class, placement, scores, feasible)
        if not explain:
            return decision
        closed = self.node_fit.closed_to(pod_class, pod)
        return replace(decision, verdicts=verdicts(part, filtered, closed, self.state.nodes))

    def filter(self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None = None) -> Filtered:
        """Return the results of the filters for a pod.

        Parameters
        ----------
        within
            The node rows to filter, shape (n,); None for all.

        Raises
        ------
        FilterError
            If a filter cannot decide.
        """
        rows = self.state.nodes.rows() if within is None else within
        pod_class.node.refresh(self.state, rows)
        return self._filtered(pod, pod_class, rows)

    def _filtered(self, pod: Pod, pod_class: SchedulableClass, rows: NDArray[np.int64]) -> Filtered:
        filtered = Filtered(pod_class.node, pod_class.cluster, pod, rows)
        if self.state.nominations:
            self.nominated.reject(pod, pod_class.node, pod_class.cluster, filtered)
        return filtered

    def _nominated_first(self, pod: Pod, part: NodePart, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return only the row of the nominated node if the pod fits there, else all rows."""
        nominated = rows[rows == self.state.nodes.row(pod.nominated_node_name)]
        return nominated if part.feasible[nominated].any() else rows

    def _on_own_hold(self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None) -> Decision | None:
        """Place a pod on the node of its hold; None without a hold, or while it does not fit there."""
        hold = self.state.holds.get(pod.uid)
        if hold is None or not self._is_within(hold.node, within):
            return None
        return self._on_holds(pod, pod_class, hold.node, [pod.uid])

    def _on_holds_of_others(
        self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None
    ) -> Decision | None:
        """Place a pod in the holds of lower priorities, of as few and as low ones as possible; None if impossible."""
        ways = []
        for node in self.state.holds.nodes():
            holders = self.state.holds.usable_by(node, pod.uid, self.priority(pod))
            lower = [
                hold.priority for uid in holders if uid != pod.uid and (hold := self.state.holds.get(uid)) is not None
            ]
            ways += [
                (lower[count], node, holders[: count + 1 + len(holders) - len(lower)]) for count in range(len(lower))
            ]
        for _, node, holders in sorted(way for way in ways if self._is_within(way[1], within)):
            decision = self._on_holds(pod, pod_class, node, holders)
            if decision is not None:
                return decision
        return None

    def _on_holds(self, pod: Pod, pod_class: SchedulableClass, node: str, holders: Sequence[str]) -> Decision | None:
        """Place a pod on a node, using the holds of the pods in ``holders``; None if it does not fit."""
        placement = self.node_fit.fits_once_gone(pod, node, (), holders)
        if placement is None:
            return None
        decision = self._placed(pod, pod_class, placement, {node: ()}, 1)
        return replace(decision, takes_holds_of=tuple(uid for uid in holders if uid != pod.uid))

    def _is_within(self, node: str, rows: NDArray[np.int64] | None) -> bool:
        return rows is None or bool(np.any(rows == self.state.nodes.row(node)))

    def nearest(self, pod: Pod) -> NearMiss | None:
        """Return the card that came closest to fitting an unschedulable pod, among the nodes that pass its filters."""
        pod_class, rows = self.classes.of(pod, beyond_any_card=True), self.state.nodes.rows()
        if isinstance(pod_class, RefusedClass):
            return None
        pod_class.node.refresh(self.state, rows)
        try:
            rows = self._filtered(pod, pod_class, rows).candidates
        except FilterError:
            return None
        walked = rows[pod_class.node.fit.counts[rows].any(axis=1)]
        own = self.classes.transient(pod)  # the near miss depends on the pod's own claims
        if isinstance(own, RefusedClass) or not walked.size:
            return None
        if own.node.allocator is not pod_class.node.allocator:  # the own allocator has evaluated no node yet
            own.node.recompute(self.state, walked[:1])
        return self._nearest(pod_class, own.node.allocator, rows)

    def _nearest(
        self, pod_class: SchedulableClass, allocator: Allocator | None, rows: NDArray[np.int64]
    ) -> NearMiss | None:
        if allocator is None:
            return None
        return nearest_miss(self.state, self._dialects[pod_class.node.dialect], pod_class.node.fit, allocator, rows)

    def _placed(
        self,
        pod: Pod,
        pod_class: SchedulableClass,
        placement: Placement,
        scores: Mapping[str, tuple[ScorePart, ...]],
        feasible: int,
    ) -> Decision:
        policy = pod_class.claimed.policy
        annotations = self._dialects.encoded(placement, pod)
        problem = metadata_problem(pod, annotations) or self._storage.denial(placement.volumes)
        if problem:
            return self._refused(pod, policy, problem)
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.PLACED,
            placement=placement,
            annotations=annotations,
            claims=pod_class.claimed.claims,
            score=sum(part.value for part in scores[placement.node] if not part.within),
            scores=scores,
            nodes=len(self.state.nodes),
            feasible=feasible,
            sources=dict(policy.sources),
            warnings=pod_class.claimed.warnings,
        )

    def _scores(
        self, part: NodePart, rows: NDArray[np.int64], ranked: RankedNodes | None
    ) -> dict[str, tuple[ScorePart, ...]]:
        """Return the score parts by scorer and plugin for each feasible row."""
        scores = {}
        for row in rows.tolist():
            if not part.feasible[row]:
                continue
            parts = part.ranking.explain(self.state, row, part.fit)
            scores[self.state.nodes.name(row)] = ranked.explain(row, parts) if ranked else parts
        return scores

    def _refused(self, pod: Pod, policy: EffectivePolicy, reason: str) -> Decision:
        nodes = int(self.state.nodes.rows().shape[0])
        why = Reason(REFUSED, reason, ClusterEvent.POD_UPDATE | ClusterEvent.POLICY | ClusterEvent.STORAGE)
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.REFUSED,
            message=f"0/{nodes} nodes are available: {reason}.",
            nodes=nodes,
            reasons={why: nodes},
            helped_by=why.helped_by,
            rejected_by=(why.plugin,),
            sources=dict(policy.sources),
        )

    def _unschedulable(self, pod: Pod, pod_class: SchedulableClass, filtered: Filtered, *, explain: bool) -> Decision:
        rows, part = filtered.rows, pod_class.node
        closed = self.node_fit.closed_to(pod_class, pod)
        counted = count_rejections(part, filtered, closed, self.state.nodes)
        counts, events = counted.reasons, counted.events
        pre_filter_reason = filtered.pre_filter_reason
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.UNSCHEDULABLE,
            message=unschedulable_message(
                int(rows.shape[0]), counts, pre_filter_reason.text if pre_filter_reason else ""
            )
            + pods_on_unknown_cards(self.node_fit, pod, part, filtered.candidates),
            nodes=int(rows.shape[0]),
            reasons=counts,
            verdicts=verdicts(part, filtered, closed, self.state.nodes) if explain else {},
            near_miss=self._nearest(pod_class, part.allocator, filtered.candidates)
            if explain and lacks_amounts(counts)
            else None,
            another_node_helps=CardReason.ResourceQuotaNotFit not in counts
            or not self._fits_without_quotas(pod, pod_class, filtered),
            helped_by=events | ClusterEvent.POD_UPDATE,
            rejected_by=counted.rejected_by,
            equivalence=self._equivalence(pod_class, pod, events),
            node_local=not (pod_class.cluster or closed or self.state.nominations or events & ~OF_ONE_NODE),
            sources=dict(pod_class.claimed.policy.sources),
            warnings=pod_class.claimed.warnings,
        )

    def _equivalence(self, pod_class: SchedulableClass, pod: Pod, events: ClusterEvent) -> Hashable:
        """Return a key that is equal for pods with the same answer; None if no other pod has the same."""
        if pod.nominated_node_name or self.state.holds.get(pod.uid) is not None:
            return None  # a hold for this pod is in the way of all other pods
        if self.priority(pod) != pod.priority:
            return None  # with another effective priority, other holds are open to this pod
        equivalence = pod_class.equivalence(pod)
        # A pod that replaces a rejected one gets another answer for a while, so it must not be tried for others.
        return (replaced_with(pod), equivalence) if events & ClusterEvent.KUBELET_REJECTION else equivalence

    def _fits_without_quotas(self, pod: Pod, pod_class: SchedulableClass, filtered: Filtered) -> bool:
        """Tell whether the pod would fit on any node that passes the filters if there were no quotas."""
        claimed = pod_class.claimed
        part = self.classes.without_quotas(pod, claimed)
        if isinstance(part, RefusedClass):
            return False
        part.refresh(self.state, filtered.candidates)
        return bool(part.feasible[filtered.candidates].any())

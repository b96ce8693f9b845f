"""One attempt: a pod against a state gives a decision. No I/O, no waiting, no clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine.closed_nodes import ClosedNodes, replaced_with
from vgpu_scheduler.engine.equivalence import NodePart, Refused, SchedulableClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.nearest import lacks_amounts, nearest_miss
from vgpu_scheduler.engine.nominated import NominatedPods
from vgpu_scheduler.engine.on_node import OnNode, metadata_problem, pods_on_unknown_cards
from vgpu_scheduler.engine.pod_capacity import PodCapacity, capacity_for
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
from vgpu_scheduler.predicates import FilterError, unschedulable_message
from vgpu_scheduler.state import Reservation

REFUSED = "Refused"
"""Stands for a plugin where a pod is refused for what it asks."""


class SchedulingAlgorithm:
    """Decides pods against one state.

    Parameters
    ----------
    classes
        What pods ask for, and of which state.
    closed_nodes
        The nodes whose device plugins serve nobody; none without it.
    storage
        Which writes to storage objects are denied; none without it.
    prices
        Learns what cards are worth, where policies say so; without it, prices stay as they are.
    priority
        Returns the priority that counts for a pod: its group's, or its own.

    Attributes
    ----------
    priority
        The same.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        closed_nodes: ClosedNodes | None = None,
        storage: StorageAccess | None = None,
        prices: PriceLearner | None = None,
        priority: Callable[[Pod], int] = lambda pod: pod.priority,
    ) -> None:
        self.priority = priority
        self.state = classes.state
        self.classes = classes
        self.on_node = OnNode(classes, closed_nodes)
        self._dialects = classes.dialects
        self._storage = storage
        self._prices = prices
        self._preferences = Preferences(self.state)
        self.nominated = NominatedPods(self.state, self.on_node)

    def decide(
        self,
        pod: Pod,
        *,
        explain: bool = False,
        within: NDArray[np.int64] | None = None,
        changed: NDArray[np.int64] | None = None,
    ) -> Decision:
        """Decide where a pod goes; nothing is assumed.

        Parameters
        ----------
        explain
            Give the verdict of every node that does not fit.
        within
            The only node rows that it may go to, shape (n,); all without it. Others count nowhere.
        changed
            The only node rows that could have come to fit since all were looked at, shape (n,): a few, of which nothing
            is remembered. All without it.
        """
        decision = self._decide(pod, explain=explain, within=within, changed=changed)
        quota = CardReason.ResourceQuotaNotFit.text
        if not self.state.holds or decision.outcome is not Outcome.UNSCHEDULABLE or quota not in decision.reasons:
            return decision
        without: list[Reservation] = []
        for kept in self._within_kept_quota(pod):
            without.append(kept)
            with self.state.counting_across_nodes(without=without):
                again = self._decide(pod, explain=explain, within=within, changed=changed, on_kept_room=False)
            if again.outcome is Outcome.PLACED:
                return replace(again, takes_room_of=tuple(each.uid for each in without if each.uid != pod.uid))
        return decision

    def _within_kept_quota(self, pod: Pod) -> Iterator[Reservation]:
        """Yield the room that is kept for a pod, then for lower priorities of its namespace, the lowest first.

        Quotas count it, and it keeps the pod from no other node.
        """
        holds, priority = self.state.holds, self.priority(pod)
        lower = [hold for hold in holds if hold.reservation.namespace == pod.namespace and hold.priority < priority]
        own = holds.get(pod.uid)
        if own is not None:
            yield holds.kept(own.uid)
        for hold in sorted(lower, key=lambda hold: (hold.priority, hold.uid)):
            if hold.uid != pod.uid:
                yield holds.kept(hold.uid)

    def _decide(
        self,
        pod: Pod,
        *,
        explain: bool,
        within: NDArray[np.int64] | None,
        changed: NDArray[np.int64] | None,
        on_kept_room: bool = True,
    ) -> Decision:
        """Decide about a pod; see :meth:`decide`.

        Parameters
        ----------
        on_kept_room
            Look for a place where room is kept that is open to it, too.
        """
        may_take_room = on_kept_room and bool(self.state.holds)
        if changed is None:
            pod_class = self.classes.of(pod, beyond_any_card=not explain)
        else:
            pod_class = self.classes.transient(pod)
        if isinstance(pod_class, Refused):
            return self._refused(pod, pod_class.policy, pod_class.reason)
        if self._prices is not None:
            self._prices.before(pod_class.claimed)
        if may_take_room and (kept := self._own_room(pod, pod_class, within)) is not None:
            return kept
        if changed is None:
            rows = self.state.nodes.rows() if within is None else within
            pod_class.node.refresh(self.state, rows)
        else:
            rows = changed
            pod_class.node.recompute(self.state, rows)
        try:
            found = self._filtered(pod, pod_class, rows)
        except FilterError as error:
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=str(error), error=error)
        rows, part = self.on_node.open_to(pod_class, pod, found.candidates), pod_class.node
        name_order = self.state.nodes.name_order
        if pod.nominated_node_name:
            rows = self._nominated_first(pod, part, rows)
        ranked = self._preferences.rank(pod, part, rows, pod_class.claimed.policy.device_weight)
        best = (
            ranked.best(part, name_order) if ranked else int(select_best(rows, part.feasible, part.score, name_order))
        )
        if best < 0:
            taken = self._room_of_others(pod, pod_class, within) if may_take_room else None
            return taken or self._unschedulable(pod, pod_class, found, explain=explain)
        problem = pod.spec.preferences_problem
        feasible = int(np.count_nonzero(part.feasible[rows]))
        if problem and feasible > 1:
            return self._refused(pod, pod_class.claimed.policy, problem)  # nodes cannot be ranked for it
        asked = found.candidates if explain else np.array([best], dtype=np.int64)
        placement = self.on_node.placement(pod, pod_class, best)
        decision = self._placed(pod, pod_class, placement, self._scores(part, asked, ranked), feasible)
        closed = self.on_node.closed_to(pod_class, pod) if explain else {}
        return replace(decision, verdicts=verdicts(part, found, closed, self.state.nodes)) if explain else decision

    def capacity_for(self, pod: Pod, most: int) -> PodCapacity:
        """Return no less than how many pods like one there is room for by node row; for none if the pod is refused.

        Parameters
        ----------
        most
            More than that are not counted on a node.
        """
        pod_class, rows = self.classes.of(pod), self.state.nodes.rows()
        counts = np.zeros(self.state.nodes.capacity, dtype=np.int64)
        if isinstance(pod_class, Refused):
            return PodCapacity(counts, "")
        pod_class.node.refresh(self.state, rows)
        found = capacity_for(self.state, pod_class.node, rows, most)
        counts[rows] = found.counts
        return PodCapacity(counts, found.scarcest)

    def filter(self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None = None) -> Filtered:
        """Return what the filters say of all nodes for a pod, or of some.

        Parameters
        ----------
        within
            The only node rows that it may go to, shape (n,); all without it.

        Raises
        ------
        FilterError
            If one of them cannot tell.
        """
        rows = self.state.nodes.rows() if within is None else within
        pod_class.node.refresh(self.state, rows)
        return self._filtered(pod, pod_class, rows)

    def _filtered(self, pod: Pod, pod_class: SchedulableClass, rows: NDArray[np.int64]) -> Filtered:
        found = Filtered(pod_class.node, pod_class.cluster, pod, rows)
        if self.state.nominations:
            self.nominated.reject(pod, pod_class.node, pod_class.cluster, found)
        return found

    def _nominated_first(self, pod: Pod, part: NodePart, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave the node that a pod is nominated to alone, if it fits there: no other is ranked beside it."""
        nominated = rows[rows == self.state.nodes.row(pod.nominated_node_name)]
        return nominated if part.feasible[nominated].any() else rows

    def _own_room(self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None) -> Decision | None:
        """Place a pod on the node where room is kept for it; None if there is none, or if it does not fit there yet."""
        hold = self.state.holds.get(pod.uid)
        if hold is None or not self._is_within(hold.node, within):
            return None
        return self._on_kept_room(pod, pod_class, hold.node, [pod.uid])

    def _room_of_others(
        self, pod: Pod, pod_class: SchedulableClass, within: NDArray[np.int64] | None
    ) -> Decision | None:
        """Place a pod where room is kept for lower priorities, for as few and as low ones as it takes, if it can be."""
        ways = []
        for node in self.state.holds.nodes():
            room = self.state.holds.open_to(node, pod.uid, self.priority(pod))
            lower = [
                hold.priority for uid in room if uid != pod.uid and (hold := self.state.holds.get(uid)) is not None
            ]
            ways += [(lower[count], node, room[: count + 1 + len(room) - len(lower)]) for count in range(len(lower))]
        for _, node, room in sorted(way for way in ways if self._is_within(way[1], within)):
            decision = self._on_kept_room(pod, pod_class, node, room)
            if decision is not None:
                return decision
        return None

    def _on_kept_room(self, pod: Pod, pod_class: SchedulableClass, node: str, room: Sequence[str]) -> Decision | None:
        """Place a pod on a node where room is kept for some pods that is open to it."""
        placement = self.on_node.fits_once_gone(pod, node, (), room)
        if placement is None:
            return None
        decision = self._placed(pod, pod_class, placement, {node: ()}, 1)
        return replace(decision, takes_room_of=tuple(uid for uid in room if uid != pod.uid))

    def _is_within(self, node: str, rows: NDArray[np.int64] | None) -> bool:
        return rows is None or bool(np.any(rows == self.state.nodes.row(node)))

    def after_recheck(self, pod: Pod, decision: Decision, placement: Placement) -> Decision:
        """Return a decision with another placement on its node and what is in force for the pod now.

        The scores stay: they chose the node.
        """
        sources = dict(self.classes.policy(pod).sources)
        same = placement is decision.placement and self.classes.is_noted(pod)
        annotations = decision.annotations if same else None
        return replace(decision, placement=placement, annotations=annotations, sources=sources)

    def nearest(self, pod: Pod) -> NearMiss | None:
        """Return which card came closest to fitting a pod that fits nowhere, of the nodes that pass its filters."""
        pod_class, rows = self.classes.of(pod, beyond_any_card=True), self.state.nodes.rows()
        if isinstance(pod_class, Refused):
            return None
        pod_class.node.refresh(self.state, rows)
        try:
            rows = self._filtered(pod, pod_class, rows).candidates
        except FilterError:
            return None
        walked = rows[pod_class.node.fit.counts[rows].any(axis=1)]
        own = self.classes.transient(pod)  # what a pod lacks follows from its own claims
        if isinstance(own, Refused) or not walked.size:
            return None
        if own.node.allocator is not pod_class.node.allocator:  # which has not looked at any node yet
            own.node.recompute(self.state, walked[:1])
        return self._nearest(pod_class, own.node.allocator, rows)

    def dialect(self, name: str) -> Dialect:
        """Return a dialect by its name."""
        return self._dialects[name]

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
        problem = metadata_problem(pod, annotations)
        if not problem and self._storage is not None:
            problem = self._storage.denial(placement.volumes)
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
        """Return what each scorer and plugin says about each of the rows that fit."""
        scores = {}
        for row in rows.tolist():
            if not part.feasible[row]:
                continue
            parts = part.ranking.explain(self.state, row, part.fit)
            scores[self.state.nodes.name(row)] = ranked.explain(row, parts) if ranked else parts
        return scores

    def _refused(self, pod: Pod, policy: EffectivePolicy, reason: str) -> Decision:
        nodes = int(self.state.nodes.rows().shape[0])
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.REFUSED,
            message=f"0/{nodes} nodes are available: {reason}.",
            nodes=nodes,
            reasons={reason: nodes},
            helped_by=ClusterEvent.POD_UPDATE | ClusterEvent.POLICY | ClusterEvent.STORAGE,
            rejected_by=(REFUSED,),
            sources=dict(policy.sources),
        )

    def _unschedulable(self, pod: Pod, pod_class: SchedulableClass, found: Filtered, *, explain: bool) -> Decision:
        rows, part = found.rows, pod_class.node
        closed = self.on_node.closed_to(pod_class, pod)
        counted = count_rejections(part, found, closed, self.state.nodes)
        counts, events = counted.reasons, counted.events
        pre_filter_reason = found.pre_filter_reason
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.UNSCHEDULABLE,
            message=unschedulable_message(
                int(rows.shape[0]), counts, pre_filter_reason.text if pre_filter_reason else ""
            )
            + pods_on_unknown_cards(self.on_node, pod, part, found.candidates),
            nodes=int(rows.shape[0]),
            reasons=counts,
            verdicts=verdicts(part, found, closed, self.state.nodes) if explain else {},
            near_miss=self._nearest(pod_class, part.allocator, found.candidates)
            if explain and lacks_amounts(counts)
            else None,
            another_node_helps=CardReason.ResourceQuotaNotFit.text not in counts
            or not self._fits_without_quotas(pod, pod_class, found),
            helped_by=events | ClusterEvent.POD_UPDATE,
            rejected_by=counted.rejected_by,
            equivalence=self._equivalence(pod_class, pod, events),
            per_node=not (pod_class.cluster or closed or self.state.nominations or events & ~OF_ONE_NODE),
            sources=dict(pod_class.claimed.policy.sources),
            warnings=pod_class.claimed.warnings,
        )

    def _equivalence(self, pod_class: SchedulableClass, pod: Pod, events: ClusterEvent) -> Hashable:
        """Return what pods have in common that get the same answer; None for one that stands for itself."""
        if pod.nominated_node_name or self.state.holds.get(pod.uid) is not None:
            return None  # what is kept for a pod is in the way of all others only
        if self.priority(pod) != pod.priority:
            return None  # more room that is kept for others is open to it than to its equals, or less
        equivalence = pod_class.equivalence(pod)
        # Who replaces a rejected pod gets another answer for a while, and must not be tried in place of others.
        return (replaced_with(pod), equivalence) if events & ClusterEvent.KUBELET_REJECTION else equivalence

    def _fits_without_quotas(self, pod: Pod, pod_class: SchedulableClass, found: Filtered) -> bool:
        """Tell whether any of the nodes that pass the filters would fit if the namespace might hold more."""
        claimed = pod_class.claimed
        part = self.classes.without_quotas(pod, claimed)
        if isinstance(part, Refused):
            return False
        part.refresh(self.state, found.candidates)
        return bool(part.feasible[found.candidates].any())

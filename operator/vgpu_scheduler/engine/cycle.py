"""One attempt: a pod against a state gives a decision. No I/O, no waiting, no clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, Budgets, CardNeed
from vgpu_scheduler.dialects import Dialect, Dialects, placement_usage
from vgpu_scheduler.engine.annotation_limits import metadata_problem
from vgpu_scheduler.engine.closed_nodes import Cause, ClosedNodes
from vgpu_scheduler.engine.cluster_part import ClusterParts
from vgpu_scheduler.engine.culprits import culprits
from vgpu_scheduler.engine.filtered import Filtered
from vgpu_scheduler.engine.nearest import lacks_amounts, nearest_miss
from vgpu_scheduler.engine.node_parts import NodeParts, unbound
from vgpu_scheduler.engine.nominated import NominatedPods
from vgpu_scheduler.engine.preferences import Preferences, Ranked
from vgpu_scheduler.engine.prices import PriceLearner
from vgpu_scheduler.engine.quotas import Quotas
from vgpu_scheduler.engine.rejected import replaced_with
from vgpu_scheduler.engine.shape import Claimed, Fitted, NodePart, Refused, Shape
from vgpu_scheduler.engine.shape_builder import make_node_part, read_claims
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.engine.unschedulable import OF_ONE_NODE, count_rejections, verdicts
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    CardReason,
    Decision,
    Hint,
    NearMiss,
    Outcome,
    Placement,
    PodClaims,
    Remembered,
    ScorePart,
    Uses,
    bytes_of,
)
from vgpu_scheduler.policy import Policies, ResolvedPolicy
from vgpu_scheduler.predicates import FilterError, refusals, unschedulable_message, volume_plan
from vgpu_scheduler.state import State

REFUSED = "Refused"
"""Stands for a plugin where a pod is refused for what it asks."""
_CLAIMS_BYTES = 32 * 2**20
"""Memory for what pods say in the keys by which their claims are remembered."""
_CLAIMED = 4 * 2**10
"""What claims take beside what the pod says."""


class Cycle:
    """Decides pods against one state.

    Parameters
    ----------
    state
        What is known; an overlay answers a what-if question.
    dialects
        The wire formats that claims and registrations are in.
    policies
        What is in force for a pod.
    quotas
        The limits of namespaces; none without it.
    closed_nodes
        The nodes whose device plugins serve nobody; none without it.
    storage
        Which writes to storage objects are denied; none without it.
    """

    def __init__(
        self,
        state: State,
        dialects: Dialects,
        policies: Policies,
        quotas: Quotas | None = None,
        closed_nodes: ClosedNodes | None = None,
        storage: StorageAccess | None = None,
    ) -> None:
        self.state = state
        self._dialects = dialects
        self._policies = policies
        self._quotas = quotas or Quotas(dialects)
        self._closed_nodes = closed_nodes
        self._storage = storage
        self._claimed: Remembered[Hashable, Claimed | Refused] = Remembered(_CLAIMS_BYTES)
        self._node_parts = NodeParts(state, dialects)
        self._cluster_parts = ClusterParts(state)
        self._preferences = Preferences(state)
        self._nominated = NominatedPods(state, self._held_by)
        self._prices: PriceLearner | None = None

    def learn_prices(self) -> None:
        """Learn what cards are worth from now on, where policies say so; without this, prices stay as they are."""
        nodes, dialects = self.state.nodes, self._dialects
        self._prices = PriceLearner(
            self.state,
            dialects,
            self.read,
            lambda pod, claimed: make_node_part(unbound(pod), claimed, dialects, nodes),
            lambda: self._policies.catalogue.generation,
        )

    def on(self, state: State) -> Cycle:
        """Return the same engine on another state."""
        return Cycle(state, self._dialects, self._policies, self._quotas)

    def decide(
        self,
        pod: Pod,
        *,
        explain: bool = False,
        within: NDArray[np.int64] | None = None,
        avoiding: Collection[str] = (),
    ) -> Decision:
        """Decide where a pod goes; nothing is assumed.

        Parameters
        ----------
        explain
            Give the verdict of every node that does not fit.
        within
            The only node rows that could have come to fit since all were looked at, shape (n,); all without it.
        avoiding
            Nodes that it must not go to.
        """
        if within is None:
            shape = self._shape(pod, self._node_parts.of, beyond_any_card=not explain)
        else:
            shape = self._shape(pod, self._node_parts.of_few_nodes)
        if isinstance(shape, Refused):
            return self._refused(pod, shape.policy, shape.reason)
        if self._prices is not None:
            self._prices.before(shape.claimed)
        rows = self._rows_without(avoiding) if within is None else within
        if within is None:
            shape.node.refresh(self.state, rows)
        else:
            shape.node.examine(self.state, rows)
        try:
            found = Filtered(shape.node, shape.cluster, pod, rows)
            if self.state.nominations:
                self._nominated.reject(pod, shape.node, shape.cluster, found)
        except FilterError as error:
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=str(error), error=error)
        rows, part, rank = self._open(shape, pod, found.passing), shape.node, self.state.nodes.rank
        ranked = self._preferences.rank(pod, part, rows, shape.claimed.policy.device_weight)
        best = ranked.best(part, rank) if ranked else int(select_best(rows, part.feasible, part.score, rank))
        if best < 0:
            return self._unschedulable(pod, shape, found, explain)
        problem = pod.spec.preferences_problem
        feasible = int(np.count_nonzero(part.feasible[rows]))
        if problem and feasible > 1:
            return self._refused(pod, shape.claimed.policy, problem)  # nodes cannot be ranked for it
        asked = found.passing if explain else np.array([best], dtype=np.int64)
        decision = self._placed(pod, shape, best, self._scores(part, asked, ranked), feasible)
        if not explain:
            return decision
        return replace(decision, verdicts=verdicts(part, found, self._closed(shape, pod), self.state.nodes))

    def _rows_without(self, nodes: Collection[str]) -> NDArray[np.int64]:
        rows = self.state.nodes.rows()
        left_out = [row for node in nodes if (row := self.state.nodes.row(node)) is not None]
        return rows[~np.isin(rows, left_out)] if left_out else rows

    def refit(self, pod: Pod, node: str) -> Placement | None:
        """Return a placement of the pod on one node, or None if it does not fit there now."""
        row = self.state.nodes.row(node)
        shape = self.shape(pod)
        if row is None or isinstance(shape, Refused):
            return None
        shape.node.refresh(self.state, np.array([row], dtype=np.int64))
        if not shape.node.feasible[row] or not (shape.cluster is None or shape.cluster.lets(pod, row)):
            return None
        placement = self._placement(pod, shape, row)
        return None if metadata_problem(pod, self._dialects.annotations(placement, 0, pod)) else placement

    def fits_without(self, pod: Pod, node: str, tenants: Iterable[str]) -> Placement | None:
        """Return a placement of a pod on a node if some of the pods there were gone, or None if it would not go there.

        A node that is closed to the pod stays so. Nothing is copied: what the tenants hold is taken off the books for
        the time of the question.

        Parameters
        ----------
        tenants
            UIDs of pods; those that hold nothing make no difference.
        """
        shape = self.shape(pod)
        if isinstance(shape, Fitted) and node in self._closed(shape, pod):
            return None
        suspended = [held for uid in tenants if (held := self.state.reservation(uid)) is not None]
        for held in suspended:
            self.state.suspend(held.uid)
        try:
            return self.refit(pod, node)
        finally:
            for held in reversed(suspended):
                self.state.resume(held)

    def depends_on_other_nodes(self, pod: Pod) -> bool:
        """Tell whether it depends on more than a node itself whether a pod may go there."""
        return self._cluster_parts.of(pod) is not None

    def may_stay(self, pod: Pod, placement: Placement) -> bool:
        """Tell whether what depends on more than its node still lets an assumed pod be where it was placed.

        Of what was to be done about its claims some may have been done since; something else must not be needed now.
        """
        row, cluster = self.state.nodes.row(placement.node), self._cluster_parts.of(pod)
        if row is None or cluster is None:
            return row is not None
        with self.state.uncounted(pod.uid):
            return cluster.lets(pod, row) and volume_plan(pod, row, self.state).is_part_of(placement.volumes)

    def restate(self, pod: Pod, decision: Decision, placement: Placement) -> Decision:
        """Return a decision with another placement on its node and what is in force for the pod now.

        The scores stay: they chose the node.
        """
        sources = self._policies.resolve(pod).source_of
        return replace(decision, placement=placement, sources=sources)

    def nearest(self, pod: Pod) -> NearMiss | None:
        """Return which card came closest to fitting a pod that was found unschedulable."""
        shape, rows = self._shape(pod, self._node_parts.of, beyond_any_card=True), self.state.nodes.rows()
        if isinstance(shape, Refused):
            return None
        shape.node.refresh(self.state, rows)
        walked = rows[shape.node.fit.counts[rows].any(axis=1)]
        own = self._shape(pod, self._node_parts.of_few_nodes)  # what a pod lacks follows from its own claims
        if isinstance(own, Refused) or not walked.size:
            return None
        if own.node.allocator is not shape.node.allocator:  # which has not looked at any node yet
            own.node.examine(self.state, walked[:1])
        return self._nearest(shape, own.node.allocator, rows)

    def need(self, pod: Pod) -> tuple[Claimed, CardNeed | None]:
        """Return what a pod that was found unschedulable asks of devices, and what one card must have for it."""
        shape = self._shape(pod, self._node_parts.of_few_nodes)
        assert isinstance(shape, Fitted)
        allocator = shape.node.allocator
        return shape.claimed, allocator.need() if allocator is not None else None

    def dialect(self, name: str) -> Dialect:
        """Return a dialect by its name."""
        return self._dialects[name]

    def claims(self, pod: Pod) -> PodClaims:
        """Return the pod's claims; empty where they cannot be understood."""
        claimed = self.claimed(pod)
        return () if claimed is None else claimed.claims

    def claimed(self, pod: Pod) -> Claimed | None:
        """Return what a pod asks of devices, and under which policy; None where that cannot be understood."""
        claimed = self.read(pod)
        return None if isinstance(claimed, Refused) else claimed

    def shape(self, pod: Pod) -> Shape:
        """Return the shape of a pod.

        What quotas leave is a part of it where the pod could exceed that: such pods are decided anew whenever it
        changes, all others share their columns whatever their namespace. A pod that is bound has the shape that it had
        while it waited: others that wait share it.
        """
        return self._shape(pod, self._node_parts.of)

    def _shape(
        self,
        pod: Pod,
        node_part: Callable[[Pod, Claimed, Budgets], NodePart | Refused],
        *,
        beyond_any_card: bool = False,
    ) -> Shape:
        """Return the shape of a pod with the node part that some function makes.

        Parameters
        ----------
        beyond_any_card
            Take the node part of all pods that ask for more than any card has, if this is one of them and that part
            finds no node.
        """
        claimed = self.read(pod)
        policy = claimed.policy
        unsupported = refusals(pod)
        if unsupported or policy.refusal:
            return Refused(policy, ", ".join(unsupported) or policy.refusal)
        if isinstance(claimed, Refused):
            return claimed
        budgets = self._quotas.budgets(pod.namespace, claimed.claims, self.state)
        node: NodePart | Refused | None = self._part_beyond_any_card(pod, claimed, budgets) if beyond_any_card else None
        if node is None:
            node = node_part(pod, claimed, budgets)
        return node if isinstance(node, Refused) else Fitted(claimed, node, self._cluster_parts.of(pod), bool(budgets))

    def _part_beyond_any_card(self, pod: Pod, claimed: Claimed, budgets: Budgets) -> NodePart | None:
        part = self._node_parts.beyond_any_card(pod, claimed, budgets)
        if part is None:
            return None
        rows = self.state.nodes.rows()
        part.refresh(self.state, rows)
        return None if part.feasible[rows].any() else part

    def read(self, pod: Pod) -> Claimed | Refused:
        """Return what a pod asks of devices: one object for all pods that ask the same of a node."""
        policy = self._policies.resolve(pod)
        key = (
            policy.number,
            pod.spec.node_fingerprint,
            pod.spec.images if policy.reads_images else (),
            *map(pod.annotations.get, self._dialects.pod_annotations),
            *map(pod.labels.get, self._dialects.pod_labels),
        )
        claimed = self._claimed.get(key)
        if claimed is None:
            claimed = read_claims(pod, policy, self._dialects)
            said = claimed.reason if isinstance(claimed, Refused) else claimed.warnings
            self._claimed.put(key, claimed, _CLAIMED + bytes_of(key) + bytes_of(said))
        return claimed

    def _nearest(self, shape: Fitted, allocator: Allocator | None, rows: NDArray[np.int64]) -> NearMiss | None:
        if allocator is None:
            return None
        return nearest_miss(self.state, self._dialects[shape.node.dialect], shape.node.fit, allocator, rows)

    def _closed(self, shape: Fitted, pod: Pod) -> Mapping[str, Cause]:
        """Return the nodes where a pod would wait for its device plugin in vain, or be rejected, and why."""
        if not self._closed_nodes:
            return {}
        closed = dict.fromkeys(self._closed_nodes.rejected.closed_to(pod), Cause.POD_REJECTED)
        side, claims = self._dialects.node_side, shape.claimed.claims
        if shape.node.allocator is not None:
            in_turn = side.in_turn(claims)
            closed |= self._closed_nodes.closed_to(side.lock(claims), side.turn(claims), in_turn=in_turn)
        return closed

    def _open(self, shape: Fitted, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out the nodes that are closed to a pod."""
        closed = [row for name in self._closed(shape, pod) if (row := self.state.nodes.row(name)) is not None]
        return rows[~np.isin(rows, closed)] if closed else rows

    def _held_by(self, pod: Pod, node: str) -> tuple[Placement | None, Uses]:
        """Return what a pod would get of a node now, and what it would use of its devices."""
        placement = self.refit(pod, node)
        if placement is None or not placement.dialect:
            return placement, {}
        return placement, {placement.dialect: placement_usage(placement, self.claims(pod))}

    def _placement(self, pod: Pod, shape: Fitted, row: int) -> Placement:
        name, volumes = self.state.nodes.name(row), volume_plan(pod, row, self.state)
        if shape.node.allocator is None:
            return Placement(name, ((),) * len(shape.claimed.claims), volumes=volumes)
        containers = shape.node.allocator.place(self.state.matrix(shape.node.dialect), row)
        assert containers is not None, f"the cards of node {name} changed within a decision"
        return Placement(name, containers, shape.node.dialect, volumes)

    def _placed(
        self,
        pod: Pod,
        shape: Fitted,
        row: int,
        scores: Mapping[str, tuple[ScorePart, ...]],
        feasible: int,
    ) -> Decision:
        policy = shape.claimed.policy
        placement = self._placement(pod, shape, row)
        problem = metadata_problem(pod, self._dialects.annotations(placement, 0, pod))
        if not problem and self._storage is not None:
            problem = self._storage.denial(placement.volumes)
        if problem:
            return self._refused(pod, policy, problem)
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.PLACED,
            placement=placement,
            claims=shape.claimed.claims,
            score=sum(part.value for part in scores[placement.node] if not part.within),
            scores=scores,
            nodes=len(self.state.nodes),
            feasible=feasible,
            sources=policy.source_of,
            warnings=shape.claimed.warnings,
        )

    def _scores(
        self, part: NodePart, rows: NDArray[np.int64], ranked: Ranked | None
    ) -> dict[str, tuple[ScorePart, ...]]:
        """Return what each scorer and plugin says about each of the rows that fit."""
        scores = {}
        for row in rows.tolist():
            if not part.feasible[row]:
                continue
            parts = part.ranking.explain(self.state, row, part.fit)
            scores[self.state.nodes.name(row)] = ranked.explain(row, parts) if ranked else parts
        return scores

    def _refused(self, pod: Pod, policy: ResolvedPolicy, reason: str) -> Decision:
        nodes = int(self.state.nodes.rows().shape[0])
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.REFUSED,
            message=f"0/{nodes} nodes are available: {reason}.",
            nodes=nodes,
            reasons={reason: nodes},
            helped_by=Hint.POD | Hint.POLICY | Hint.VOLUMES,
            rejected_by=(REFUSED,),
            sources=policy.source_of,
        )

    def _unschedulable(self, pod: Pod, shape: Fitted, found: Filtered, explain: bool) -> Decision:
        rows, part = found.rows, shape.node
        closed = self._closed(shape, pod)
        counted = count_rejections(part, found, closed, self.state.nodes)
        counts, hints = counted.reasons, counted.hints
        turned_away = found.turned_away
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.UNSCHEDULABLE,
            message=unschedulable_message(int(rows.shape[0]), counts, turned_away.text if turned_away else "")
            + culprits(self, pod, part, found.passing),
            nodes=int(rows.shape[0]),
            reasons=counts,
            verdicts=verdicts(part, found, closed, self.state.nodes) if explain else {},
            near_miss=self._nearest(shape, part.allocator, rows) if explain and lacks_amounts(counts) else None,
            another_node_helps=CardReason.ResourceQuotaNotFit.text not in counts
            or not self._fits_without_quotas(pod, shape, found),
            helped_by=hints | Hint.POD,
            rejected_by=counted.rejected_by,
            alike=self._alike(shape, pod, hints),
            per_node=not (shape.cluster or closed or self.state.nominations or hints & ~OF_ONE_NODE),
            sources=shape.claimed.policy.source_of,
            warnings=shape.claimed.warnings,
        )

    def _alike(self, shape: Fitted, pod: Pod, hints: Hint) -> Hashable:
        """Return what pods have in common that get the same answer; None for one that stands for itself."""
        if pod.nominated_node_name:
            return None  # what is kept for a pod is in the way of all others only
        alike = shape.alike(pod)
        # Who replaces a rejected pod gets another answer for a while, and must not be tried in place of others.
        return (replaced_with(pod), alike) if hints & Hint.REJECTION else alike

    def _fits_without_quotas(self, pod: Pod, shape: Fitted, found: Filtered) -> bool:
        """Tell whether any of the nodes that pass the filters would fit if the namespace might hold more."""
        claimed = shape.claimed
        part = self._node_parts.of(pod, claimed, ())
        if isinstance(part, Refused):
            return False
        part.refresh(self.state, found.passing)
        return bool(part.feasible[found.passing].any())

"""One attempt: a unit of pods against a state gives a decision. No I/O, no waiting, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import count_reasons, verdict
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine.closed_nodes import Cause, ClosedNodes
from vgpu_scheduler.engine.limits import metadata_problem
from vgpu_scheduler.engine.making import make_shape
from vgpu_scheduler.engine.nearest import nearest_miss
from vgpu_scheduler.engine.quotas import Quotas
from vgpu_scheduler.engine.shape import Shape, ShapeCache, ShapeKey
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, NearMiss, NodeVerdict, Outcome, Placement, PodClaims, ScorePart
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.predicates import unschedulable_message
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are decided together."""

    pods: tuple[Pod, ...]


class Cycle:
    """Decides units against one state.

    Parameters
    ----------
    state
        What is known; an overlay answers a what-if question.
    dialect
        The wire format that claims and registrations are in.
    policies
        What is in force for a pod.
    quotas
        The limits of namespaces; none without it.
    closed_nodes
        The nodes whose device plugins serve nobody; none without it.
    """

    def __init__(
        self,
        state: State,
        dialect: Dialect,
        policies: Policies,
        quotas: Quotas | None = None,
        closed_nodes: ClosedNodes | None = None,
    ) -> None:
        self.state = state
        self._dialect = dialect
        self._policies = policies
        self._quotas = quotas or Quotas(dialect)
        self._shapes = ShapeCache()
        self._closed_nodes = closed_nodes

    def on(self, state: State) -> Cycle:
        """Return the same engine on another state."""
        return Cycle(state, self._dialect, self._policies, self._quotas)

    def decide(self, unit: Unit, *, explain: bool = False) -> Decision:
        """Decide where a unit goes.

        Parameters
        ----------
        unit
            The pods; one at present.
        explain
            Give the verdict of every node that does not fit.
        """
        (pod,) = unit.pods
        shape = self.shape(pod)
        if shape.refusal:
            return self._refused(pod, shape, shape.refusal)
        assert shape.policy is not None
        nodes = self.state.nodes
        rows = nodes.rows()
        shape.refresh(self.state, rows)
        best = select_best(self._open(shape, rows), shape.feasible, shape.score, nodes.rank)
        if best < 0:
            return self._unschedulable(pod, shape, rows, explain)
        return self._placed(pod, shape, int(best), rows, explain)

    def refit(self, pod: Pod, node: str) -> Placement | None:
        """Return a placement of the pod on one node, or None if it does not fit there now."""
        row = self.state.nodes.row(node)
        shape = self.shape(pod)
        if row is None or shape.refusal:
            return None
        shape.refresh(self.state, np.array([row], dtype=np.int64))
        if not shape.feasible[row]:
            return None
        placement = self._placement(shape, row)
        return None if metadata_problem(pod, self._dialect.annotations(placement, 0, pod)) else placement

    def restate(self, pod: Pod, decision: Decision, placement: Placement) -> Decision:
        """Return a decision with another placement on its node and what is in force for the pod now.

        The scores stay: they chose the node.
        """
        sources = self._policies.resolve(pod).source_of
        return replace(decision, placement=placement, sources=sources)

    def nearest(self, pod: Pod) -> NearMiss | None:
        """Return which card came closest to fitting a pod that was found unschedulable."""
        shape = self.shape(pod)
        rows = self.state.nodes.rows()
        return None if shape.refusal else nearest_miss(self.state, self._dialect.dimensions, shape, rows)

    def claims(self, pod: Pod) -> PodClaims:
        """Return the pod's claims; empty for one that is refused."""
        return self.shape(pod).claims

    def shape(self, pod: Pod) -> Shape:
        """Return the shape of a pod.

        What quotas leave is a part of it where the pod could exceed that: such pods are decided anew whenever it
        changes, all others share their columns whatever their namespace. A pod that is bound has the shape that it had
        while it waited: others that wait share it.
        """
        policy = self._policies.resolve(pod)
        key: ShapeKey = (
            policy.number,
            pod.spec.fingerprint,
            *(pod.annotations.get(name) for name in self._dialect.pod_annotations),
            *(pod.labels.get(name) for name in self._dialect.pod_labels),
        )
        nodes = self.state.nodes
        if pod.node_name:
            pod = msgspec.structs.replace(pod, node_name="")
        shape = self._shapes.get(key, lambda: make_shape(pod, policy, self._dialect, nodes))
        budgets = self._quotas.budgets(pod.namespace, shape.claims, self.state)
        if not budgets:
            return shape
        return self._shapes.get((*key, budgets), lambda: make_shape(pod, policy, self._dialect, nodes, budgets))

    def _closed(self, shape: Shape) -> Mapping[str, Cause]:
        """Return the nodes where a pod of this shape would wait for its device plugin in vain, and why."""
        if self._closed_nodes is None or shape.allocator is None:
            return {}
        side = self._dialect.node_side
        return self._closed_nodes.closed_to(side.lock(shape.claims)) if side.in_turn(shape.claims) else {}

    def _open(self, shape: Shape, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out the nodes that are closed to pods of this shape."""
        closed = [row for name in self._closed(shape) if (row := self.state.nodes.row(name)) is not None]
        return rows[~np.isin(rows, closed)] if closed else rows

    def _placement(self, shape: Shape, row: int) -> Placement:
        name = self.state.nodes.name(row)
        if shape.allocator is None:
            return Placement(name, ((),) * len(shape.claims))
        containers = shape.allocator.place(self.state.devices, row)
        assert containers is not None, f"the cards of node {name} changed within a decision"
        return Placement(name, containers)

    def _placed(self, pod: Pod, shape: Shape, row: int, rows: NDArray[np.int64], explain: bool) -> Decision:
        assert shape.policy is not None
        placement = self._placement(shape, row)
        problem = metadata_problem(pod, self._dialect.annotations(placement, 0, pod))
        if problem:
            return self._refused(pod, shape, problem)
        scores = self._scores(shape, rows if explain else np.array([row], dtype=np.int64))
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.PLACED,
            placement=placement,
            score=sum(part.value for part in scores[placement.node]),
            scores=scores,
            nodes=int(rows.shape[0]),
            verdicts=self._verdicts(shape, rows) if explain else {},
            sources=shape.policy.source_of,
            warnings=shape.warnings,
        )

    def _scores(self, shape: Shape, rows: NDArray[np.int64]) -> dict[str, tuple[ScorePart, ...]]:
        """Return what each scorer says about each of the rows that fit."""
        assert shape.ranking is not None
        return {
            self.state.nodes.name(row): shape.ranking.explain(self.state, row, shape.fit)
            for row in rows.tolist()
            if shape.feasible[row]
        }

    def _refused(self, pod: Pod, shape: Shape, reason: str) -> Decision:
        nodes = int(self.state.nodes.rows().shape[0])
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.REFUSED,
            message=f"0/{nodes} nodes are available: {reason}.",
            nodes=nodes,
            reasons={reason: nodes},
            helped_by=Hint.POD | Hint.POLICY,
            sources=shape.policy.source_of if shape.policy else {},
        )

    def _unschedulable(self, pod: Pod, shape: Shape, rows: NDArray[np.int64], explain: bool) -> Decision:
        assert shape.policy is not None
        assert shape.predicates is not None
        counts, hints = self._count(shape, rows)
        rejection = shape.predicates.rejection.text if shape.predicates.rejection else ""
        return Decision(
            uid=pod.uid,
            pod=pod.key,
            outcome=Outcome.UNSCHEDULABLE,
            message=unschedulable_message(int(rows.shape[0]), counts, rejection),
            nodes=int(rows.shape[0]),
            reasons=counts,
            verdicts=self._verdicts(shape, rows) if explain else {},
            near_miss=nearest_miss(self.state, self._dialect.dimensions, shape, rows) if explain else None,
            helped_by=hints | Hint.POD,
            sources=shape.policy.source_of,
            warnings=shape.warnings,
        )

    def _count(self, shape: Shape, rows: NDArray[np.int64]) -> tuple[Mapping[str, int], Hint]:
        """Count the nodes under each distinct reason, and collect what could help."""
        assert shape.predicates is not None
        masks = shape.rejected[rows]
        counts = shape.predicates.counts(masks)
        hints = Hint.NODE
        for reason in shape.predicates.reasons:
            if reason.text in counts:
                hints |= reason.hint
        if shape.allocator is not None:
            for card_reason, count in count_reasons(shape.fit.counts[rows]).items():
                counts[card_reason.text] = count
                hints |= card_reason.hint
        for name, cause in self._closed(shape).items():
            row = self.state.nodes.row(name)
            if row is not None and shape.feasible[row]:
                counts[cause.text] = counts.get(cause.text, 0) + 1
        return counts, hints

    def _verdicts(self, shape: Shape, rows: NDArray[np.int64]) -> dict[str, NodeVerdict]:
        assert shape.predicates is not None
        verdicts = {}
        closed = self._closed(shape)
        for row in rows.tolist():
            if shape.feasible[row]:
                cause = closed.get(self.state.nodes.name(row))
                if cause is not None:
                    verdicts[self.state.nodes.name(row)] = NodeVerdict((cause.text,), cause.text)
                continue
            mask = int(shape.rejected[row])
            if mask:
                texts = shape.predicates.texts(mask)
                verdicts[self.state.nodes.name(row)] = NodeVerdict(texts, ", ".join(texts))
            else:
                verdicts[self.state.nodes.name(row)] = verdict(shape.fit.counts[row], int(shape.fit.cards[row]))
        return verdicts

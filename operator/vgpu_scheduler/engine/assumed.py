"""Assumed placements of pods not bound yet: reserves them, rechecks them, and moves them to other nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome, Placement
from vgpu_scheduler.state import Phase, Reservation, Savepoint, State

MOST_MOVES: Final = 3
"""How often a pod may be moved away from a slow node."""


class Reserver:
    """Reserves placements.

    Parameters
    ----------
    state
        The state in which placements are assumed.
    preemptions
        Knows for which pods room is kept.
    """

    def __init__(self, state: State, preemptions: Preemptions) -> None:
        self._state = state
        self._preemptions = preemptions

    def reserve(self, pod: Pod, decision: Decision) -> ClusterEvent:
        """Assume the placement of a decision; return the cluster events that this causes.

        The pod uses the room kept for it; room kept for lower priorities that the pod needs is given up.
        """
        assert decision.placement is not None
        for uid in decision.takes_holds_of:
            self._state.give_up(uid)
        self._preemptions.consume_hold(decision)
        return self._state.assume(pod.uid, decision.placement, decision.claims)

    def before(self) -> Savepoint:
        """Return a savepoint, to undo later reservations with :meth:`undo`."""
        return Savepoint(self._state)

    def undo(self, placed: Sequence[Decision], before: Savepoint) -> None:
        """Undo the placements reserved since a savepoint, without waking any waiting pod."""
        for decision in reversed(placed):
            self._state.undo(decision.uid)
        before.restore()
        self._preemptions.not_consumed(decision.uid for decision in placed)


class _LastCheck(NamedTuple):
    """The inputs of the last successful recheck of a placement: while all are unchanged, the placement still holds.

    Attributes
    ----------
    policies
        The generation of policies and namespaces.
    node
        The version of the node, which covers its reservations.
    limits, used
        The versions of the quotas and of their usage.
    """

    pod: Pod
    reservation: Reservation
    row: int
    policies: int
    node: int
    limits: int
    used: int


class AssumedPlacements:
    """Rechecks assumed placements, and caches the result until an input changes.

    Parameters
    ----------
    algorithm, queue, policy_tracker, quotas, closed_nodes
        Parts of the engine.
    needs_scheduling
        Tells whether a pod has to be placed.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        queue: SchedulingQueue,
        policy_tracker: PolicyTracker,
        quotas: QuotaLimits,
        closed_nodes: ClosedNodes,
        needs_scheduling: Callable[[Pod], bool],
    ) -> None:
        self._state = algorithm.state
        self._algorithm = algorithm
        self._queue = queue
        self._policy_tracker = policy_tracker
        self._catalogue = algorithm.classes.policies.catalogue
        self._quotas = quotas
        self._closed_nodes = closed_nodes
        self._needs_scheduling = needs_scheduling
        self._last_checks: dict[str, _LastCheck] = {}

    def forget(self, uid: str) -> None:
        """Forget the last check of a pod that is bound, gone, or decided anew."""
        self._last_checks.pop(uid, None)

    def recheck(self, uid: str) -> Placement | None:
        """Check an assumed placement against the current state, just before the pod is bound.

        Returns
        -------
        Placement or None
            The placement if it holds, or another one on the same node if only its cards had to change. None if the pod
            does not fit there any more, its claims changed, or it must not be bound at all; the caller then unreserves
            it.
        """
        if self.is_unmoved(uid):
            return self._last_checks[uid].reservation.placement
        found = self._assumed(uid)
        if found is None:
            return None
        pod, reservation, decided = found
        if reservation.node in self._closed_nodes.kubelet_rejections.closed_to(pod):
            return None
        is_same_policy = self._policy_tracker.policy_unchanged_since_decision(pod)
        unchanged = is_same_policy and self._state.unchanged_since_assumed(uid, pod)
        with self._state.volumes.rechecking(decided.volumes):
            if unchanged and not self._quotas.exceeded(pod.namespace, self._state):
                cluster = self._algorithm.classes.cluster_part(pod)
                if cluster is None:
                    self._note(pod, reservation)
                    return decided
                if self._algorithm.node_fit.may_stay(pod, cluster, decided):
                    return decided
            return self._refitted(pod, reservation, decided)

    def after_recheck(self, decision: Decision, placement: Placement) -> Decision:
        """Return a decision with the rechecked placement on its node, and the policy sources now in force.

        The scores stay, because they chose the node.
        """
        pod = self._state.pod(decision.uid)
        if pod is None:
            return decision
        classes = self._algorithm.classes
        is_unchanged = placement is decision.placement and classes.is_noted(pod)
        return replace(
            decision,
            placement=placement,
            annotations=decision.annotations if is_unchanged else None,
            sources=dict(classes.policy(pod).sources),
        )

    def decide_elsewhere(self, uid: str, slow: Collection[str]) -> Decision | None:
        """Move an assumed pod that waits at a slow node to another node; its Binding must not have been sent.

        Parameters
        ----------
        slow
            The nodes that the pod must not go to.

        Returns
        -------
        Decision or None
            The new decision, which is assumed. None if the pod stays: it fits on no other node, its volumes were bound
            for its node, or it has been moved often enough. The pod also stays if this raises.
        """
        found = self._assumed(uid)
        if found is None or found[1].volumes or self._queue.moves(uid) >= MOST_MOVES:
            return None
        pod, reservation, _ = found
        with self._state.counting_across_nodes(without=[reservation]):  # its own node is excluded by ``slow``
            decision = self._algorithm.decide(pod, within=self._state.nodes.rows_without(slow))
        if decision.outcome is not Outcome.PLACED or decision.takes_holds_of:
            return None
        self._policy_tracker.decided(pod)
        self._reassume(pod, decision)
        self._queue.moved(uid)
        return decision

    def is_unmoved(self, uid: str) -> bool:
        """Tell whether the last check of a placement succeeded, and none of its inputs changed since."""
        check = self._last_checks.get(uid)
        if check is None:
            return False
        state, pod = self._state, check.pod
        return (
            state.pod(uid) is pod
            and state.reservation(uid) is check.reservation
            and self._catalogue.generation == check.policies
            and state.nodes.version[check.row] == check.node
            and self._quotas.version == check.limits
            and (state.quota_usage.version == check.used or not self._quotas.limited({pod.namespace}))
            and not state.interpod.any_anti_affinity
            and not self._closed_nodes.kubelet_rejections
            and self._needs_scheduling(pod)
        )

    def _note(self, pod: Pod, reservation: Reservation) -> None:
        """Record a successful check of a placement to which no cluster-wide filter applies."""
        row, state = self._state.nodes.row(reservation.node), self._state
        assert row is not None, f"pod {pod.key} holds resources on a node that does not exist"
        versions = int(state.nodes.version[row]), self._quotas.version, state.quota_usage.version
        self._last_checks[pod.uid] = _LastCheck(pod, reservation, row, self._catalogue.generation, *versions)

    def _refitted(self, pod: Pod, reservation: Reservation, decided: Placement) -> Placement | None:
        """Choose the cards of a pod anew on its node, and assume the result; None if the pod does not fit there."""
        self._policy_tracker.decided(pod)
        fits = self._algorithm.node_fit.refit_assumed(pod, reservation)
        if fits is None or not fits.volumes.is_part_of(decided.volumes):
            return None
        fits = replace(fits, volumes=decided.volumes)
        if fits == decided:
            self._state.mark_rechecked(pod.uid)
        else:
            claims = self._algorithm.classes.claims(pod)
            self._reassume(pod, Decision(pod.uid, pod.key, Outcome.PLACED, placement=fits, claims=claims))
        return fits

    def _reassume(self, pod: Pod, decision: Decision) -> None:
        """Assume another placement of an assumed pod."""
        assert decision.placement is not None
        self._state.pending_events.events |= self._state.reassume(pod.uid, decision.placement, decision.claims)

    def _assumed(self, uid: str) -> tuple[Pod, Reservation, Placement] | None:
        """Return a pod with its reservation and assumed placement; None without one, or if it need not be placed."""
        pod, reservation = self._state.pod(uid), self._state.reservation(uid)
        if (
            pod is None
            or reservation is None
            or reservation.phase is not Phase.ASSUMED
            or reservation.placement is None
        ):
            return None
        return (pod, reservation, reservation.placement) if self._needs_scheduling(pod) else None

"""Assumed placements that are not bound yet: they are reserved, checked again, and decided anew among other nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome, Placement
from vgpu_scheduler.state import Phase, Reservation, State, StateBeforeRollback

__all__ = ["MOST_MOVES", "AssumedPlacements", "Reserver"]

MOST_MOVES: Final = 3
"""How often a pod is moved away from a slow node."""


class Reserver:
    """Reserves placements.

    Parameters
    ----------
    state
        Where they are assumed.
    preemptions
        Knows for whom room is kept.
    """

    def __init__(self, state: State, preemptions: Preemptions) -> None:
        self._state = state
        self._preemptions = preemptions

    def reserve(self, pod: Pod, decision: Decision) -> ClusterEvent:
        """Assume a placement that was decided; return what that may help.

        It takes the room that is kept for the pod, or gives up that of lower priorities which it needs.
        """
        assert decision.placement is not None
        for uid in decision.takes_room_of:
            self._state.give_up(uid)
        self._preemptions.consume_hold(decision)
        usage = placement_usage(decision.placement, decision.claims)
        return self._state.assume(pod.uid, decision.placement, usage, pod.spec.requests)

    def before(self) -> StateBeforeRollback:
        """Return what placements that may be taken back have to leave as it is."""
        return StateBeforeRollback(self._state)

    def undo(self, placed: Sequence[Decision], before: StateBeforeRollback) -> None:
        """Take placements back that were reserved since; nobody is woken by that."""
        for decision in reversed(placed):
            self._state.undo(decision.uid)
        before.restore()
        self._preemptions.not_consumed(decision.uid for decision in placed)


class _Basis(NamedTuple):
    """The inputs of the check of an assumed placement that held: while all of them are unchanged, it still holds.

    Attributes
    ----------
    policies
        The generation of policies and namespaces.
    node
        The version of the node, with all that is charged there.
    limits, used
        The versions of quotas, and of what is held of them.
    """

    pod: Pod
    held: Reservation
    row: int
    policies: int
    node: int
    limits: int
    used: int


class AssumedPlacements:
    """Checks assumed placements, and remembers what was found to hold until something moves.

    Parameters
    ----------
    algorithm, queue, policy_tracker, quotas, closed_nodes
        What it works with.
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
        self._checked: dict[str, _Basis] = {}

    def forget(self, uid: str) -> None:
        """Forget what was found of a pod: it is bound, gone, or decided anew."""
        self._checked.pop(uid, None)

    def recheck(self, uid: str) -> Placement | None:
        """Check an assumed placement against what is known now, just before it is bound.

        Returns
        -------
        Placement or None
            The placement if it holds, another one on the same node if only its cards had to change, or None if the pod
            does not fit there any more, its claims need something else, or it must not be bound at all; then the
            caller gives it back.
        """
        if self.is_unmoved(uid):
            return self._checked[uid].held.placement
        found = self._assumed(uid)
        if found is None:
            return None
        pod, held, decided = found
        if held.node in self._closed_nodes.kubelet_rejections.closed_to(pod):
            return None
        unchanged = self._policy_tracker.as_decided(pod) and self._state.unchanged_since_assumed(uid, pod)
        with self._state.volumes.rechecking(decided.volumes):
            if unchanged and not self._quotas.exceeded(pod.namespace, self._state):
                cluster = self._algorithm.classes.cluster_part(pod)
                if cluster is None:
                    self._note(pod, held)
                    return decided
                if self._algorithm.on_node.may_stay(pod, cluster, decided):
                    return decided
            return self._refitted(pod, held, decided)

    def decide_elsewhere(self, uid: str, slow: Collection[str]) -> Decision | None:
        """Decide an assumed pod anew that waits at a slow node, and assume that; its Binding must not have been sent.

        Parameters
        ----------
        slow
            The nodes that it must not go to.

        Returns
        -------
        Decision or None
            Where it goes now; None, and it stays where it is, if it fits nowhere else or cannot be decided, if its
            volumes were bound for its node, or if it has been moved often enough.
        """
        found = self._assumed(uid)
        if found is None or found[1].volumes or self._queue.moves(uid) >= MOST_MOVES:
            return None
        pod, held, _ = found
        try:
            with self._state.counting_across_nodes(without=[held]):  # on its own node it is not asked about
                decision = self._algorithm.decide(pod, within=self._state.nodes.rows_without(slow))
            if decision.outcome is not Outcome.PLACED or decision.takes_room_of:
                return None
            self._policy_tracker.decided(pod)
            self._reassume(pod, decision)
        except Exception:  # noqa: BLE001 - whatever it is, it is this pod's: it is told when its turn comes
            return None
        self._queue.moved(uid)
        return decision

    def is_unmoved(self, uid: str) -> bool:
        """Tell whether a placement was found to hold, and pod, node, policy, quota and place are as they were then."""
        basis = self._checked.get(uid)
        if basis is None:
            return False
        state, pod = self._state, basis.pod
        return (
            state.pod(uid) is pod
            and state.reservation(uid) is basis.held
            and self._catalogue.generation == basis.policies
            and state.nodes.version[basis.row] == basis.node
            and self._quotas.version == basis.limits
            and (state.quota_usage.version == basis.used or not self._quotas.limited({pod.namespace}))
            and not state.interpod.any_anti_affinity
            and not self._closed_nodes.kubelet_rejections
            and self._needs_scheduling(pod)
        )

    def _note(self, pod: Pod, held: Reservation) -> None:
        """Note that a placement holds, for as long as nothing moves: its node alone has a say."""
        row, state = self._state.nodes.row(held.node), self._state
        assert row is not None, f"pod {pod.key} holds something on a node that is not there"
        versions = int(state.nodes.version[row]), self._quotas.version, state.quota_usage.version
        self._checked[pod.uid] = _Basis(pod, held, row, self._catalogue.generation, *versions)

    def _refitted(self, pod: Pod, held: Reservation, decided: Placement) -> Placement | None:
        """Decide the cards of a pod anew on its node, and assume the result; None if it does not fit there."""
        self._policy_tracker.decided(pod)
        fits = self._algorithm.on_node.refit_assumed(pod, held)
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
        usage = placement_usage(decision.placement, decision.claims)
        self._state.wakes.events |= self._state.reassume(pod.uid, decision.placement, usage, pod.spec.requests)

    def _assumed(self, uid: str) -> tuple[Pod, Reservation, Placement] | None:
        """Return a pod that has to be placed with its assumed placement; None if it has none, or has not to be."""
        pod, held = self._state.pod(uid), self._state.reservation(uid)
        if pod is None or held is None or held.phase is not Phase.ASSUMED or held.placement is None:
            return None
        return (pod, held, held.placement) if self._needs_scheduling(pod) else None

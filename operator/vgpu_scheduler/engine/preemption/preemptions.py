"""Preemption within attempts: finds victims for pods, and keeps the victims' room for them until it is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.preemption.evaluator import Evaluator
from vgpu_scheduler.engine.preemption.group_plans import GroupPlan
from vgpu_scheduler.engine.preemption.result import when_preempting, when_refused
from vgpu_scheduler.engine.preemption.search import TERMINATING
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement, Preemption, Usage, Victim, peak
from vgpu_scheduler.policy import NO_PREEMPTION, Policies, PreemptionRules
from vgpu_scheduler.state import Hold, Phase, Reservation, Savepoint


class Preemptions:
    """Keeps room for pods until their victims have left, and tracks the preemptions under way.

    Parameters
    ----------
    algorithm, queue, policies
        Collaborators.
    evaluator
        Finds victims.
    enabled
        Whether pods are evicted at all.

    Attributes
    ----------
    enabled
        As given.
    held_without_eviction
        Since when room is kept without evictions, by the UID of the pod for which it is kept.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        queue: SchedulingQueue,
        policies: Policies,
        evaluator: Evaluator,
        *,
        enabled: bool,
    ) -> None:
        self.enabled = enabled
        self.held_without_eviction: dict[str, float] = {}
        self.evaluator = evaluator
        self._algorithm = algorithm
        self._state = algorithm.state
        self._queue = queue
        self._policies = policies
        self._under_way: dict[str, Preemption] = {}
        """Preemptions by the UID of the preemptor."""
        self._consumed: dict[str, Hold] = {}
        """The holds on which pods that are not bound yet were placed, by UID."""
        self._begun: list[str] = []
        """The pods whose preemptions the current attempt has begun."""

    # Questions -------------------------------------------------------------------------------------------------------

    def of(self, uid: str) -> Preemption | None:
        """Return the preemption that is under way for a pod; None if there is none.

        For pods that are placed together, it is under way for all of them or for none.
        """
        found = self._under_way.get(uid)
        return found if found is not None and all(map(self._is_held, found.gang or (uid,))) else None

    def _is_held(self, uid: str) -> bool:
        found, hold = self._under_way.get(uid), self._state.holds.get(uid)
        return found is not None and hold is not None and hold.node == found.node

    def with_others(self, uid: str) -> Preemption | None:
        """Return the preemption for a pod, with the victims of all pods that are placed together with it."""
        found = self.of(uid)
        if found is None or not found.gang:
            return found
        victims = (victim for each in found.gang for victim in self._under_way[each].victims)
        return replace(found, victims=tuple(victims))

    def under_way(self) -> list[tuple[str, Preemption]]:
        """Return the preemptions that are under way, by the UID of the preemptor."""
        return [(uid, found) for uid in sorted(self._under_way) if (found := self.of(uid)) is not None]

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Undo all changes of holds, preemptions and limits at the end of the context.

        Placements that were assumed in it must have been taken back by then.
        """
        before, limits = Savepoint(self._state), self.evaluator.limits
        under_way, decided = dict(self._under_way), limits.reserved()
        held_without_eviction, begun = dict(self.held_without_eviction), list(self._begun)
        try:
            yield
        finally:
            before.restore()
            self._begun = begun
            self._under_way, self.held_without_eviction = under_way, held_without_eviction
            limits.restore(decided)

    # Attempts --------------------------------------------------------------------------------------------------------

    def begin_attempt(self) -> None:
        """Note that an attempt begins, whose preemptions :meth:`abort_attempt` can take back."""
        self._begun.clear()

    def abort_attempt(self) -> None:
        """Take back the preemptions that the attempt has begun: nobody was told of them, so no victim is evicted."""
        for uid in self._begun:
            self.withdraw(uid)

    def post_filter(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Preempt others for a pod that fits nowhere, if possible; return its decision with the result.

        The victims' room is kept for the pod from now on.
        """
        if decision.outcome in {Outcome.PLACED, Outcome.ERROR, Outcome.NOT_READY}:
            return decision  # an error is no reason to give up room that victims may have left already
        may_preempt = self.enabled and self._policies.resolve(pod).preemption.may_preempt
        if decision.outcome is not Outcome.UNSCHEDULABLE or not may_preempt:
            self.stop(pod.uid)
            return decision
        if self._is_waiting_for_victims(pod.uid) and self.can_be_placed_on(self._state.holds.get(pod.uid)):
            return when_preempting(decision, reason=TERMINATING)
        self.stop(pod.uid)
        answer = self.evaluator.search(pod, now)
        if answer.preemption is None:
            return when_refused(decision, answer)
        self.begin(pod, answer.preemption, now)
        return when_preempting(decision, answer.preemption)

    def stop(self, uid: str) -> None:
        """End the preemption for a pod and give up its room; room that is kept without evictions stays."""
        if uid not in self.held_without_eviction:
            self.withdraw(uid)

    def _is_waiting_for_victims(self, uid: str) -> bool:
        return self.of(uid) is not None and any(self.still_there(uid))

    def gang_waits(self, uids: Collection[str], needed: int) -> bool:
        """Tell whether the preemption for at least ``needed`` of the pods still waits for victims.

        False if one of the pods could not be placed on its room once the victims have left.
        """
        found = [preemption for uid in uids if (preemption := self.of(uid)) is not None]
        if len(found) < needed or not set(found[0].gang) <= set(uids):
            return False
        holds = map(self._state.holds.get, found[0].gang)
        return any(map(self.still_there, found[0].gang)) and all(map(self.can_be_placed_on, holds))

    def still_there(self, uid: str) -> list[Victim]:
        """Return the victims of the preemption for a pod that have not left yet."""
        found = self.of(uid)
        if found is None:
            return []
        reservations = ((victim, self._state.reservation(victim.uid)) for victim in found.victims)
        return [victim for victim, there in reservations if there is not None and there.node == found.node]

    def still_there_for_gang(self, uid: str) -> list[Victim]:
        """Return the remaining victims of all pods that are placed together with a pod."""
        found = self.of(uid)
        uids = () if found is None else found.gang or (uid,)
        return [victim for each in uids for victim in self.still_there(each)]

    def begin_gang(self, plan: GroupPlan, preemptions: Iterable[Preemption], priority: int, now: float) -> None:
        """Keep the planned room for pods of a group of the given priority."""
        for each, preemption in zip(plan.members, preemptions, strict=True):
            self.begin(each.pod, preemption, now, plan.leaving(preemption.node), priority)
        if not plan.victims:  # the room is free already
            self._activate(plan.members[0].pod, now)

    def begin(
        self,
        pod: Pod,
        preemption: Preemption,
        now: float,
        leaving: Iterable[str] | None = None,
        priority: int | None = None,
    ) -> None:
        """Keep room for a pod; pods of lower priority for which room is kept on that node are decided anew."""
        priority = self._counted(pod).priority if priority is None else priority
        for hold in self._state.holds.on(preemption.node):
            if hold.priority < priority:
                self.withdraw_and_requeue(hold.uid)
        if pod.uid in self.held_without_eviction:
            self._withdraw(pod.uid)
        leaving = [victim.uid for victim in preemption.victims] if leaving is None else leaving
        self._state.add_hold(self.hold_for(pod, preemption.placement, leaving, priority))
        self._under_way[pod.uid] = preemption
        self._begun.append(pod.uid)
        self._state.pending_events.events |= self._state.nominations.placed(pod.uid)  # the hold replaces its nomination
        self.evaluator.reserve(pod, (victim.uid for victim in preemption.victims), now)

    def hold_for(self, pod: Pod, placement: Placement, leaving: Iterable[str], priority: int | None = None) -> Hold:
        """Return the hold for a pod; cards that it takes only when idle are held whole.

        Parameters
        ----------
        leaving
            The UIDs of the pods that have to leave it.
        priority
            Pods of no higher priority are kept away. By default the pod's priority for preemption.
        """
        claimed = self._algorithm.classes.claimed(pod)
        assert claimed is not None, f"pod {pod.key} was placed and is refused"
        usage = Usage.of_placement(placement, claimed.claims)
        if claimed.choice.takes_idle_cards:
            whole = {
                device.uuid: peak(usage.charges[device.uuid], device.total)
                for device in self._state.devices_on(placement.node, placement.dialect)
                if device.uuid in usage.charges
            }
            usage = replace(usage, charges={**usage.charges, **whole})
        uses = {placement.dialect: usage} if usage.charges else {}
        reservation = Reservation.of(pod, placement.node, Phase.HOLD, uses, pod.spec.requests)
        return Hold(reservation, self._counted(pod).priority if priority is None else priority, frozenset(leaving))

    def _counted(self, pod: Pod) -> Pod:
        """Return a pod with the priority that counts for preemption."""
        return self.evaluator.disruption.with_group_priority(pod)

    def consume_hold(self, decision: Decision) -> None:
        """Note that a pod is about to be placed, perhaps on its hold."""
        hold = self._state.holds.get(decision.uid)
        if hold is not None and decision.placement is not None and decision.placement.node == hold.node:
            self._consumed[decision.uid] = hold

    def not_consumed(self, uids: Iterable[str]) -> None:
        """Note that pods were not placed on their holds after all."""
        for uid in uids:
            self._consumed.pop(uid, None)

    def bound(self, uid: str) -> None:
        """Note that a pod is bound, so that its room is not kept again."""
        self._consumed.pop(uid, None)

    def unreserved(self, uid: str, released: Reservation | None) -> None:
        """Keep room again for a pod that was placed on its hold and could not be bound.

        Parameters
        ----------
        released
            Its former reservation, perhaps on other cards of the node than were kept at first; None if it still holds
            it, or held nothing. On another node nothing is kept.
        """
        hold, pod = self._consumed.pop(uid, None), self._state.pod(uid)
        if hold is None or pod is None or released is None or released.placement is None:
            return
        if hold.node == released.node and self._algorithm.classes.claimed(pod) is not None:
            self._state.add_hold(self.hold_for(pod, released.placement, (), hold.priority))

    def placed(self, decision: Decision) -> None:
        """Note that a pod was placed: end its preemption, and that of pods whose room it took."""
        self.withdraw(decision.uid)
        for uid in decision.takes_holds_of:
            self.withdraw_and_requeue(uid)

    def on_victim_gone(self, victim: str, now: float) -> None:
        """Try at once the pods whose holds are free now that a pod, by UID, may have left it."""
        for uid in self._state.holds.beneficiaries_of(victim):
            pod, found = self._state.pod(uid), self.of(uid)
            has_all = found is not None and not self.still_there_for_gang(uid)
            if pod is not None and (has_all or uid in self.held_without_eviction):
                self._activate(pod, now)

    def _activate(self, pod: Pod, now: float) -> None:
        """Make a pod active; pods of its group are decided with it."""
        self._queue.add(pod.uid, pod.priority, now, created=pod.creation_timestamp)

    def forget(self, uid: str) -> None:
        """Note that a pod is gone: end its preemption, and forget it as a victim."""
        self.withdraw(uid)
        self._consumed.pop(uid, None)
        self.evaluator.forget(uid)

    def rules_of(self, uid: str) -> PreemptionRules:
        """Return the preemption rules in effect for a pod; an unknown pod may not preempt."""
        pod = self._state.pod(uid)
        return NO_PREEMPTION if pod is None else self._policies.resolve(pod).preemption

    def evicted(self, victim: str) -> None:
        """Note that a victim was evicted: it counts towards the limits, even if the preemption is given up."""
        self.evaluator.limits.commit(victim)

    def forbids(self, uid: str, victim: Pod, now: float) -> str:
        """Return why a victim must no longer be evicted for a pod, by current policies and nodes; empty if it may."""
        pod, found = self._state.pod(uid), self.of(uid)
        if pod is None or found is None:
            return "the pod is gone" if pod is None else "no room is kept for the pod any more"
        if not self.can_be_placed_on(self._state.holds.get(uid)):
            return f"node {found.node} does not take the pod any more"
        return self.evaluator.forbids(pod, victim, now)

    def retry(self, uid: str, now: float, wait: float) -> None:
        """Give up a preemption that cannot be carried out, and try its pod again after ``wait`` seconds."""
        self.withdraw(uid)
        if uid in self._queue and self._state.reservation(uid) is None:
            self._queue.back_off(uid, now, wait)

    def withdraw(self, uid: str) -> None:
        """Give up the hold for a pod, and for those that are placed together with it."""
        found = self._under_way.get(uid)
        for each in (uid,) if found is None else found.gang or (uid,):
            self._withdraw(each)

    def _withdraw(self, uid: str) -> None:
        self.held_without_eviction.pop(uid, None)
        self._state.pending_events.events |= self._state.give_up(uid)
        found = self._under_way.pop(uid, None)
        if found is not None:
            shared = {victim.uid for _, other in self.under_way() for victim in other.victims}
            self.evaluator.limits.release({victim.uid for victim in found.victims} - shared)

    def node_changed(self, node: str) -> None:
        """Note that a node changed: pods that it would not take even without the victims are decided anew."""
        for hold in self._state.holds.on(node):
            if not self.can_be_placed_on(hold):
                self.withdraw_and_requeue(hold.uid)

    def can_be_placed_on(self, hold: Hold | None) -> bool:
        """Tell whether a pod could be placed on its hold once the others have left."""
        pod = None if hold is None else self._state.pod(hold.uid)
        if hold is None or pod is None or not self.evaluator.might_help_on(pod, hold.node):
            return False
        return all(
            usage.charges.keys() <= self._cards_in_service(dialect, hold.node)
            for dialect, usage in hold.reservation.uses.items()
        )

    def _cards_in_service(self, dialect: str, node: str) -> set[str]:
        return {device.uuid for device in self._state.devices_on(node, dialect) if device.in_service}

    def node_gone(self, node: str) -> None:
        """Note that a node is gone: decide anew the pods with holds there, or waiting for pods ending there."""
        for hold in self._state.holds.on(node):
            self.withdraw_and_requeue(hold.uid)
        nominated = sorted(self._state.nominations.on(node))
        self._state.pending_events.pods.update(dict.fromkeys(nominated, QueueEvent.ASSIGNED_POD_DELETE))

    def withdraw_and_requeue(self, uid: str) -> None:
        """Give up the hold for a pod, and decide the pod anew."""
        self.withdraw(uid)
        self._state.pending_events.pods[uid] = QueueEvent.ATTEMPT_FAILURE

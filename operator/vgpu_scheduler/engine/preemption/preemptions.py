"""Preemption as a part of attempts: who gets the room of others, and that room is kept until they have left it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.preemption.evaluator import Evaluator
from vgpu_scheduler.engine.preemption.group_plans import GroupPlan
from vgpu_scheduler.engine.preemption.search import TERMINATING
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement, Preemption, Victim, peak
from vgpu_scheduler.policy import NO_PREEMPTION, Policies, PreemptionRules
from vgpu_scheduler.state import Phase, Reservation, RoomReservation, StateBeforeRollback

__all__ = ["Preemptions"]


class Preemptions:
    """Keeps room for pods until others have left it, and knows for whom that is under way.

    Parameters
    ----------
    algorithm, queue, policies
        What it works with.
    evaluator
        Finds whose room a pod would get.
    enabled
        Whether anybody is evicted at all.

    Attributes
    ----------
    enabled
        The same.
    held_without_eviction
        The pods for which room is kept that others leave by themselves, by UID, with the time since when it is.
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
        """By the UID of the pod that gets the room."""
        self._consumed: dict[str, RoomReservation] = {}
        """The room that pods were placed on which are not bound yet, by UID."""

    # Questions -------------------------------------------------------------------------------------------------------

    def of(self, uid: str) -> Preemption | None:
        """Return the preemption that is under way for a pod; None if there is none, or no more.

        For pods that get room together it is under way for all of them, or for none.
        """
        found = self._under_way.get(uid)
        return found if found is not None and all(map(self._is_kept, found.gang or (uid,))) else None

    def _is_kept(self, uid: str) -> bool:
        found, hold = self._under_way.get(uid), self._state.holds.get(uid)
        return found is not None and hold is not None and hold.node == found.node

    def with_others(self, uid: str) -> Preemption | None:
        """Return the same with the victims of all pods that get room together with it."""
        found = self.of(uid)
        if found is None or not found.gang:
            return found
        victims = (victim for each in found.gang for victim in self._under_way[each].victims)
        return replace(found, victims=tuple(victims))

    def under_way(self) -> list[tuple[str, Preemption]]:
        """Return the preemptions that are under way, by the UID of the pod that gets the room."""
        return [(uid, found) for uid in sorted(self._under_way) if (found := self.of(uid)) is not None]

    @contextmanager
    def supposing(self) -> Iterator[None]:
        """Have what is kept, begun and given up meanwhile be undone afterwards: a question changes nothing.

        Placements that were assumed meanwhile must have been taken back by then.
        """
        before, limits = StateBeforeRollback(self._state), self.evaluator.limits
        under_way, decided = dict(self._under_way), limits.reserved()
        held_without_eviction = dict(self.held_without_eviction)
        try:
            yield
        finally:
            before.restore()
            self._under_way, self.held_without_eviction = under_way, held_without_eviction
            limits.restore(decided)

    # Attempts --------------------------------------------------------------------------------------------------------

    def post_filter(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Return the decision about a pod that fits nowhere with what preemption does about it.

        Room that is found is kept for the pod from now on.
        """
        if decision.outcome in {Outcome.PLACED, Outcome.ERROR, Outcome.NOT_READY}:
            return decision  # what was kept for it, others have left perhaps: that is not given up for an error
        may_preempt = self.enabled and self._policies.resolve(pod).preemption.may_preempt
        if decision.outcome is not Outcome.UNSCHEDULABLE or not may_preempt:
            self.stop(pod.uid)
            return decision
        if self._is_waiting_for_victims(pod.uid) and self.can_be_placed_on(self._state.holds.get(pod.uid)):
            message = f"{decision.message} preemption: {TERMINATING}"
            return replace(decision, message=message, equivalence=None, per_node=False)
        self.stop(pod.uid)
        answer = self.evaluator.search(pod, now)
        if answer.preemption is None:
            message = f"{decision.message} preemption: {answer.reason}" if answer.reason else decision.message
            # Which pods run there, and for how long, is nothing that the version of a node tells.
            return replace(
                decision,
                message=message,
                helped_by=decision.helped_by | answer.helped_by,
                equivalence=answer.equivalence(decision.equivalence),
                per_node=False,
                again_at=answer.again_at,
            )
        self.begin(pod, answer.preemption, now)
        return replace(decision, preemption=answer.preemption, equivalence=None, per_node=False)

    def stop(self, uid: str) -> None:
        """Keep no room for a pod any more that others are evicted from; what they leave by themselves stays its."""
        if uid not in self.held_without_eviction:
            self.withdraw(uid)

    def _is_waiting_for_victims(self, uid: str) -> bool:
        return self.of(uid) is not None and any(self.still_there(uid))

    def gang_waits(self, uids: Collection[str], needed: int) -> bool:
        """Tell whether victims are still there of the preemption for so many of some pods.

        Not if one of them could not be placed on its room, once the victims have left.
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
        held = ((victim, self._state.reservation(victim.uid)) for victim in found.victims)
        return [victim for victim, there in held if there is not None and there.node == found.node]

    def still_there_for_gang(self, uid: str) -> list[Victim]:
        """Return the same of all pods that get room together with one."""
        found = self.of(uid)
        uids = () if found is None else found.gang or (uid,)
        return [victim for each in uids for victim in self.still_there(each)]

    def begin_gang(self, plan: GroupPlan, preemptions: Iterable[Preemption], priority: int, now: float) -> None:
        """Keep the room for pods of a group of some priority, as it was planned."""
        for each, preemption in zip(plan.members, preemptions, strict=True):
            self.begin(each.pod, preemption, now, plan.leaving(preemption.node), priority)
        if not plan.victims:  # what is kept for them is there
            self._activate(plan.members[0].pod, now)

    def begin(
        self,
        pod: Pod,
        preemption: Preemption,
        now: float,
        leaving: Iterable[str] | None = None,
        priority: int | None = None,
    ) -> None:
        """Keep the room for a pod; who has less priority and waits for room there goes on waiting elsewhere."""
        priority = self._counted(pod).priority if priority is None else priority
        for hold in self._state.holds.on(preemption.node):
            if hold.priority < priority:
                self.withdraw_and_requeue(hold.uid)
        if pod.uid in self.held_without_eviction:
            self._withdraw(pod.uid)
        leaving = [victim.uid for victim in preemption.victims] if leaving is None else leaving
        self._state.keep(self.room_for(pod, preemption.placement, leaving, priority))
        self._under_way[pod.uid] = preemption
        self._state.wakes.events |= self._state.nominations.placed(pod.uid)  # its room counts instead, card by card
        self.evaluator.reserve(pod, (victim.uid for victim in preemption.victims), now)

    def room_for(
        self, pod: Pod, placement: Placement, leaving: Iterable[str], priority: int | None = None
    ) -> RoomReservation:
        """Return the room that a pod is to get; of cards that it takes only if nobody uses them, nobody gets a part.

        Parameters
        ----------
        leaving
            The UIDs of the pods that have to leave it.
        priority
            Which ones are kept away: those of no higher priority; the one that counts for the pod without it.
        """
        claimed = self._algorithm.classes.claimed(pod)
        assert claimed is not None, f"pod {pod.key} was placed and is refused"
        usage = placement_usage(placement, claimed.claims)
        if claimed.choice.takes_idle_cards:
            whole = {
                device.uuid: peak(usage.charges[device.uuid], device.total)
                for device in self._state.devices_on(placement.node, placement.dialect)
                if device.uuid in usage.charges
            }
            usage = replace(usage, charges={**usage.charges, **whole})
        uses = {placement.dialect: usage} if usage.charges else {}
        reservation = Reservation(
            pod.uid, pod.key, placement.node, Phase.KEPT, uses, pod.spec.requests, ports=pod.spec.host_ports
        )
        return RoomReservation(
            reservation, self._counted(pod).priority if priority is None else priority, frozenset(leaving)
        )

    def _counted(self, pod: Pod) -> Pod:
        """Return a pod with the priority that counts where pods have others end."""
        return self.evaluator.disruption.with_group_priority(pod)

    def consume_hold(self, decision: Decision) -> None:
        """Take in that a pod is about to be placed, perhaps on the room that is kept for it."""
        hold = self._state.holds.get(decision.uid)
        if hold is not None and decision.placement is not None and decision.placement.node == hold.node:
            self._consumed[decision.uid] = hold

    def not_consumed(self, uids: Iterable[str]) -> None:
        """Take in that pods were not placed after all on the room that is kept for them."""
        for uid in uids:
            self._consumed.pop(uid, None)

    def bound(self, uid: str) -> None:
        """Take in that a pod is bound: whatever happens now, its room is not kept again."""
        self._consumed.pop(uid, None)

    def unreserved(self, uid: str, given_back: Reservation | None) -> None:
        """Keep again what a pod held that was placed on the room kept for it and could not be bound: others have left.

        Parameters
        ----------
        given_back
            What it held, perhaps on other cards of the node than were kept at first; None if it holds it still, or held
            nothing. On another node nothing is kept.
        """
        hold, pod = self._consumed.pop(uid, None), self._state.pod(uid)
        if hold is None or pod is None or given_back is None or given_back.placement is None:
            return
        if hold.node == given_back.node and self._algorithm.classes.claimed(pod) is not None:
            self._state.keep(self.room_for(pod, given_back.placement, ()))

    def placed(self, decision: Decision) -> None:
        """Take in that a pod was placed, and whose room it took; what is under way for it is over."""
        self.withdraw(decision.uid)
        for uid in decision.takes_room_of:
            self.withdraw_and_requeue(uid)

    def on_victim_gone(self, kept_for: Iterable[str], now: float) -> None:
        """Take in that a pod has left the room that is kept for others; who has all of it now is tried at once."""
        for uid in kept_for:
            pod, found = self._state.pod(uid), self.of(uid)
            has_all = found is not None and not self.still_there_for_gang(uid)
            if pod is not None and (has_all or uid in self.held_without_eviction):
                self._activate(pod, now)

    def _activate(self, pod: Pod, now: float) -> None:
        """Have a pod be tried at once, and all pods that are placed together with it."""
        self._queue.add(pod.uid, pod.priority, now, created=pod.creation_timestamp)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone: nothing is under way for it any more, and it is nobody's victim."""
        self.withdraw(uid)
        self._consumed.pop(uid, None)
        self.evaluator.forget(uid)

    def rules_of(self, uid: str) -> PreemptionRules:
        """Return what is in force for a pod; nothing is allowed to one that is not known."""
        pod = self._state.pod(uid)
        return NO_PREEMPTION if pod is None else self._policies.resolve(pod).preemption

    def evicted(self, victim: str) -> None:
        """Take in that a victim was evicted: it counts towards the limits, whatever becomes of the preemption."""
        self.evaluator.limits.commit(victim)

    def forbids(self, uid: str, victim: Pod, now: float) -> str:
        """Return why a pod must not end for another one any more, as policies and its node are now; empty if it may."""
        pod, found = self._state.pod(uid), self.of(uid)
        if pod is None or found is None:
            return "the pod is gone" if pod is None else "no room is kept for the pod any more"
        if not self.can_be_placed_on(self._state.holds.get(uid)):
            return f"node {found.node} does not take the pod any more"
        return self.evaluator.forbids(pod, victim, now)

    def retry(self, uid: str, now: float, wait: float) -> None:
        """Give up a preemption that cannot be carried out, and have its pod tried again after so many seconds."""
        self.withdraw(uid)
        if uid in self._queue and self._state.reservation(uid) is None:
            self._queue.back_off(uid, now, wait)

    def withdraw(self, uid: str) -> None:
        """Keep no room for a pod any more, nor for those that get it together with this one."""
        found = self._under_way.get(uid)
        for each in (uid,) if found is None else found.gang or (uid,):
            self._withdraw(each)

    def _withdraw(self, uid: str) -> None:
        self.held_without_eviction.pop(uid, None)
        self._state.wakes.events |= self._state.give_up(uid)
        found = self._under_way.pop(uid, None)
        if found is not None:
            shared = {victim.uid for _, other in self.under_way() for victim in other.victims}
            self.evaluator.limits.release({victim.uid for victim in found.victims} - shared)

    def node_changed(self, node: str) -> None:
        """Take in that a node is another: whom it does not take any more, whoever leaves, is decided anew."""
        for hold in self._state.holds.on(node):
            if not self.can_be_placed_on(hold):
                self.withdraw_and_requeue(hold.uid)

    def can_be_placed_on(self, hold: RoomReservation | None) -> bool:
        """Tell whether a pod could be placed on the room that is kept for it, once the others have left."""
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
        """Take in that a node is gone: who was to get room there, or waits for pods that end there, is decided anew."""
        for hold in self._state.holds.on(node):
            self.withdraw_and_requeue(hold.uid)
        nominated = sorted(self._state.nominations.on(node))
        self._state.wakes.pods.update(dict.fromkeys(nominated, QueueEvent.ASSIGNED_POD_DELETE))

    def withdraw_and_requeue(self, uid: str) -> None:
        """Give up the room that is kept for a pod, and have the pod decided anew."""
        self.withdraw(uid)
        self._state.wakes.pods[uid] = QueueEvent.ATTEMPT_FAILURE

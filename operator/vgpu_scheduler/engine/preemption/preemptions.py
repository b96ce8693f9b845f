"""Preemption as a part of attempts: who gets the room of others, and that room is kept until they have left it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.preemption.evaluator import Evaluator
from vgpu_scheduler.engine.preemption.search import BY_PREEMPTION
from vgpu_scheduler.engine.preemption.victims import by_importance
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pod import QueueEvent
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome, Placement, Preemption, Victim, peak
from vgpu_scheduler.policy import NO_PREEMPTION, Policies, PreemptionRules
from vgpu_scheduler.state import Hold, Phase, Reservation

__all__ = ["Preemptions"]


class Preemptions:
    """Keeps room for pods until others have left it, and knows for whom that is under way.

    Parameters
    ----------
    cycle, queue, policies
        What it works with.
    evaluator
        Finds whose room a pod would get.
    scheduler_names
        Those of this scheduler.
    waits
        Tells whether a pod has to be placed.
    enabled
        Whether anybody is evicted at all.

    Attributes
    ----------
    waiting
        The pods for which room is kept that others leave by themselves, by UID, with the time since when it is.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: SchedulingQueue,
        policies: Policies,
        evaluator: Evaluator,
        scheduler_names: Collection[str],
        waits: Callable[[Pod], bool],
        *,
        enabled: bool,
    ) -> None:
        self._waits = waits
        self._enabled = enabled
        self.waiting: dict[str, float] = {}
        self.evaluator = evaluator
        self._cycle = cycle
        self._state = cycle.state
        self._queue = queue
        self._policies = policies
        self._scheduler_names = scheduler_names
        self._under_way: dict[str, Preemption] = {}
        """By the UID of the pod that gets the room."""
        self._consumed: dict[str, Hold] = {}
        """The room that pods were placed on which are not bound yet, by UID."""

    # Questions -------------------------------------------------------------------------------------------------------

    def of(self, uid: str) -> Preemption | None:
        """Return the preemption that is under way for a pod; None if there is none, or no more."""
        found = self._under_way.get(uid)
        hold = self._state.holds.get(uid)
        return found if found is not None and hold is not None and hold.node == found.node else None

    def under_way(self) -> list[tuple[str, Preemption]]:
        """Return the preemptions that are under way, by the UID of the pod that gets the room."""
        return [(uid, found) for uid in sorted(self._under_way) if (found := self.of(uid)) is not None]

    @contextmanager
    def supposing(self) -> Iterator[None]:
        """Have what is kept, begun and given up meanwhile be undone afterwards: a question changes nothing.

        Placements that were assumed meanwhile must have been taken back by then.
        """
        state, limits = self._state, self.evaluator.limits
        holds, under_way, decided = {hold.uid: hold for hold in state.holds}, dict(self._under_way), limits.reserved()
        waiting = dict(self.waiting)
        try:
            yield
        finally:
            for hold in list(state.holds):
                if holds.get(hold.uid) is not hold:
                    state.give_up(hold.uid)
            for uid, hold in holds.items():
                if state.holds.get(uid) is None:
                    state.keep(hold)
            self._under_way, self.waiting = under_way, waiting
            limits.restore(decided)

    # Attempts --------------------------------------------------------------------------------------------------------

    def post_filter(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Return the decision about a pod that fits nowhere with what preemption does about it.

        Room that is found is kept for the pod from now on.
        """
        if decision.outcome in {Outcome.PLACED, Outcome.ERROR, Outcome.WAITING}:
            return decision  # what was kept for it, others have left perhaps: that is not given up for an error
        may_preempt = self._enabled and self._policies.resolve(pod).preemption.may_preempt
        if decision.outcome is not Outcome.UNSCHEDULABLE or not may_preempt:
            self._stop(pod.uid)
            return decision
        if self._is_waiting_for_victims(pod.uid) and self._can_be_placed_on(self._state.holds.get(pod.uid)):
            reason = "not eligible due to a terminating pod on the nominated node."
            return replace(decision, message=f"{decision.message} preemption: {reason}", equivalence=None)
        self._stop(pod.uid)
        answer = self.evaluator.search(pod, now)
        if answer.preemption is None:
            message = f"{decision.message} preemption: {answer.reason}" if answer.reason else decision.message
            # Which pods run there, and for how long, is nothing that the version of a node tells.
            helped_by = decision.helped_by | Hint.BUDGET
            return replace(decision, message=message, helped_by=helped_by, per_node=False, again_at=answer.again_at)
        self._begin(pod, answer.preemption, now)
        return replace(decision, preemption=answer.preemption, equivalence=None, per_node=False)

    def _stop(self, uid: str) -> None:
        """Keep no room for a pod any more that others are evicted from; what they leave by themselves stays its."""
        if uid not in self.waiting:
            self.withdraw(uid)

    def _is_waiting_for_victims(self, uid: str) -> bool:
        return self.of(uid) is not None and any(self.still_there(uid))

    def still_there(self, uid: str) -> list[Victim]:
        """Return the victims of the preemption for a pod that have not left yet."""
        found = self.of(uid)
        if found is None:
            return []
        held = ((victim, self._state.reservation(victim.uid)) for victim in found.victims)
        return [victim for victim, there in held if there is not None and there.node == found.node]

    def _begin(self, pod: Pod, preemption: Preemption, now: float) -> None:
        """Keep the room for a pod; who has less priority and waits for room there goes on waiting elsewhere."""
        for hold in self._state.holds.on(preemption.node):
            if hold.priority < self._ranked(pod).priority:
                self.displace(hold.uid, now)
        self.withdraw(pod.uid)
        self._state.keep(self.room_for(pod, preemption.placement, (victim.uid for victim in preemption.victims)))
        self._under_way[pod.uid] = preemption
        self._state.wakes.hints |= self._state.nominations.placed(pod.uid)  # its room counts instead, card by card
        self.evaluator.reserve(pod, (victim.uid for victim in preemption.victims), now)

    def room_for(self, pod: Pod, placement: Placement, leaving: Iterable[str]) -> Hold:
        """Return the room that a pod is to get; of cards that it takes only if nobody uses them, nobody gets a part."""
        claimed = self._cycle.classes.claimed(pod)
        assert claimed is not None, f"pod {pod.key} was placed and is refused"
        usage = placement_usage(placement, claimed.claims)
        if claimed.choice.takes_idle_cards:
            row = self._state.nodes.row(placement.node)
            devices = () if row is None else self._state.matrix(placement.dialect).devices(row)
            whole = {
                device.uuid: peak(usage.charges[device.uuid], device.total)
                for device in devices
                if device.uuid in usage.charges
            }
            usage = replace(usage, charges={**usage.charges, **whole})
        uses = {placement.dialect: usage} if usage.charges else {}
        claim = Reservation(
            pod.uid, pod.key, placement.node, Phase.HELD, uses, pod.spec.requests, ports=pod.spec.host_ports
        )
        return Hold(claim, self._ranked(pod).priority, frozenset(leaving))

    def _ranked(self, pod: Pod) -> Pod:
        """Return a pod with the priority that counts where pods have others end."""
        return self.evaluator.disruption.ranked(pod)

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
        if hold.node == given_back.node and self._cycle.classes.claimed(pod) is not None:
            self._state.keep(self.room_for(pod, given_back.placement, ()))

    def placed(self, decision: Decision, now: float) -> None:
        """Take in that a pod was placed, and whose room it took; what is under way for it is over."""
        self.withdraw(decision.uid)
        for uid in decision.displaces:
            self.displace(uid, now)

    def left(self, kept_for: Iterable[str], now: float) -> None:
        """Take in that a pod has left the room that is kept for others; who has all of it now is tried at once."""
        for uid in kept_for:
            pod = self._state.pod(uid)
            has_all = self.of(uid) is not None and not self.still_there(uid)
            if pod is not None and (has_all or uid in self.waiting):
                self._queue.add(uid, pod.priority, now, created=pod.creation_timestamp)

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
        if not self._can_be_placed_on(self._state.holds.get(uid)):
            return f"node {found.node} does not take the pod any more"
        return self.evaluator.forbids(pod, victim, now)

    def retry(self, uid: str, now: float, wait: float) -> None:
        """Give up a preemption that cannot be carried out, and have its pod tried again after so many seconds."""
        self.withdraw(uid)
        if uid in self._queue and self._state.reservation(uid) is None:
            self._queue.back_off(uid, now, wait)

    # Without evictions ------------------------------------------------------------------------------------------------

    def room_once_left(self, pod: Pod) -> Hold | None:
        """Return the room that a pod would have where the fewest pods have to end by themselves; None if nowhere."""
        others = {hold.node for hold in self._state.holds if hold.uid != pod.uid}
        found = self.evaluator.once_left(pod, others)
        return None if found is None else self.room_for(pod, found.placement, (each.uid for each in found.victims))

    def keep_while_waiting(self, room: Hold, now: float) -> None:
        """Keep room for a pod as others leave it by themselves."""
        self._state.keep(room)
        self.waiting[room.uid] = now

    def is_possible(self, uid: str) -> bool:
        """Tell whether a pod could be placed on the room that is kept for it, once the others have left."""
        return self._can_be_placed_on(self._state.holds.get(uid))

    def still_on(self, hold: Hold) -> int:
        """Return how many pods have not left some room yet."""
        there = (self._state.reservation(uid) for uid in hold.leaving)
        return sum(held is not None and held.node == hold.node for held in there)

    # Another leader's ------------------------------------------------------------------------------------------------

    def restore(self, now: float, foreign: Collection[str] = ()) -> None:
        """Keep the room again that an earlier leader kept: of all pods that are nominated, the most important first.

        What pods hold that end on the node of a nomination is as good as free: where that is enough for the pod, its
        room is there. Else others are searched that would have to leave that node, too. Without any that end so,
        nothing is kept but what every nominated pod has.

        Parameters
        ----------
        foreign
            The UIDs of pods that somebody else nominated: they have no more than that, whoever ends.
        """
        waiting = [pod for pod in self._nominated() if pod.uid not in foreign and self._may_be_restored(pod)]
        for pod in sorted(waiting, key=lambda pod: (-self._ranked(pod).priority, pod.uid)):
            with suppress(Exception):  # whatever it is, it is this pod's: it is told when it is decided
                self._restore(pod, now)

    def restorable(self) -> list[tuple[str, str]]:
        """Return the pods that :meth:`restore` would look for room for, by UID, with the nodes of their nominations."""
        found = (pod for pod in self._nominated() if self._may_be_restored(pod) and self._ending(pod))
        return [(pod.uid, pod.nominated_node_name) for pod in found]

    def nominated(self) -> list[tuple[str, str]]:
        """Return the pods of ours that wait and are nominated to a node, by UID, with that node."""
        return [(pod.uid, pod.nominated_node_name) for pod in self._nominated()]

    def _nominated(self) -> list[Pod]:
        nominations = self._state.nominations
        known = (self._state.pod(uid) for node in nominations for uid in nominations.on(node))
        return [pod for pod in known if pod is not None and self._is_ours_and_waits(pod)]

    def _restore(self, pod: Pod, now: float) -> None:
        ending = self._ending(pod)
        if not ending:
            return
        answer = self.evaluator.search_on(pod, pod.nominated_node_name, now, ending)
        if answer.preemption is not None:
            self._begin(pod, answer.preemption, now)

    def _may_be_restored(self, pod: Pod) -> bool:
        state = self._state
        is_new = state.nodes.row(pod.nominated_node_name) is not None and state.holds.get(pod.uid) is None
        return is_new and pod.preemption_policy != "Never" and self._policies.resolve(pod).preemption.may_preempt

    def _is_ours_and_waits(self, pod: Pod) -> bool:
        ours = pod.scheduler_name in self._scheduler_names
        return ours and self._waits(pod) and self._state.reservation(pod.uid) is None

    def _ending(self, pod: Pod) -> list[Pod]:
        """Return the pods of lower priority that end on the node that a pod is nominated to, for preemption."""
        known = (self._state.pod(held.uid) for held in self._state.reservations(pod.nominated_node_name))
        ending = [self._ranked(each) for each in known if each and each.deleting and each.disruption in BY_PREEMPTION]
        return by_importance(each for each in ending if each.priority < self._ranked(pod).priority)

    def withdraw(self, uid: str) -> None:
        """Keep no room for a pod any more."""
        self.waiting.pop(uid, None)
        self._state.wakes.hints |= self._state.give_up(uid)
        found = self._under_way.pop(uid, None)
        if found is not None:
            shared = {victim.uid for _, other in self.under_way() for victim in other.victims}
            self.evaluator.limits.release({victim.uid for victim in found.victims} - shared)

    def node_changed(self, node: str, now: float) -> None:
        """Take in that a node is another: whom it does not take any more, whoever leaves, is decided anew."""
        for hold in self._state.holds.on(node):
            if not self._can_be_placed_on(hold):
                self.displace(hold.uid, now)

    def _can_be_placed_on(self, hold: Hold | None) -> bool:
        """Tell whether a pod could be placed on the room that is kept for it, once the others have left."""
        pod = None if hold is None else self._state.pod(hold.uid)
        if hold is None or pod is None or not self.evaluator.might_help_on(pod, hold.node):
            return False
        return all(
            usage.charges.keys() <= self._cards_in_service(dialect, hold.node)
            for dialect, usage in hold.claim.uses.items()
        )

    def _cards_in_service(self, dialect: str, node: str) -> set[str]:
        row = self._state.nodes.row(node)
        devices = () if row is None else self._state.matrix(dialect).devices(row)
        return {device.uuid for device in devices if device.healthy and not device.cordoned}

    def node_gone(self, node: str, now: float) -> None:
        """Take in that a node is gone: who was to get room there is decided anew."""
        for hold in self._state.holds.on(node):
            self.displace(hold.uid, now)

    def displace(self, uid: str, now: float) -> None:
        """Give up the room that is kept for a pod, for one of higher priority takes it; the pod is decided anew."""
        self.withdraw(uid)
        self._queue.wake([uid], now, QueueEvent.ATTEMPT_FAILURE)

"""Preemption as a part of attempts: who gets the room of others, and that room is kept until they have left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.equivalence import Fitted, Refused
from vgpu_scheduler.engine.preemption.eligible import EvictionLimits, MayEnd, may_preempt_at
from vgpu_scheduler.engine.preemption.search import NOT_HELPFUL, PROTECTED, Candidates, VictimSearch, ineligible
from vgpu_scheduler.engine.preemption.victims import Asked, Victims
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pod import QueueEvent
from vgpu_scheduler.kube import DisruptionBudget, Pod, violated_budgets
from vgpu_scheduler.model import Decision, Hint, Outcome, Placement, Preemption, Victim, peak
from vgpu_scheduler.policy import Budgets, Policies, PreemptionRules
from vgpu_scheduler.predicates import Rejection, unschedulable_message
from vgpu_scheduler.state import Hold, Phase, Reservation

__all__ = ["Preemptions"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for a pod: how it gets room, or why it does not now, and when that may be otherwise."""

    preemption: Preemption | None = None
    reason: str = ""
    again_at: float | None = None


class Preemptions:
    """Decides whether pods that fit nowhere get the room of others, and keeps that room for them.

    Parameters
    ----------
    cycle, queue, policies
        What it works with.
    budgets
        Returns the disruption budgets.
    scheduler_names
        Those of this scheduler.
    protected
        Namespaces of which no pod is ever a victim.

    Attributes
    ----------
    unix_ahead
        By how many seconds the time since 1970 is ahead of the time that callers hand in.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: SchedulingQueue,
        policies: Policies,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        scheduler_names: Collection[str],
        protected: Collection[str] = (),
    ) -> None:
        self.unix_ahead = 0.0
        self.limits = EvictionLimits(policies)
        self._cycle = cycle
        self._state = cycle.state
        self._queue = queue
        self._policies = policies
        self._budgets = budgets
        self._scheduler_names = scheduler_names
        self._protected = protected
        self._under_way: dict[str, Preemption] = {}
        """By the UID of the pod that gets the room."""
        self._spared: dict[str, str] = {}
        """Why pods have turned out to be no victims, by UID."""

    # Questions -------------------------------------------------------------------------------------------------------

    def of(self, uid: str) -> Preemption | None:
        """Return the preemption that is under way for a pod; None if there is none, or no more."""
        found = self._under_way.get(uid)
        hold = self._state.holds.get(uid)
        return found if found is not None and hold is not None and hold.node == found.node else None

    def under_way(self) -> list[tuple[str, Preemption]]:
        """Return the preemptions that are under way, by the UID of the pod that gets the room."""
        return [(uid, found) for uid in sorted(self._under_way) if (found := self.of(uid)) is not None]

    def search(self, pod: Pod, now: float) -> Answer:
        """Say how a pod that fits nowhere gets room now, or why it does not; nothing is kept for it yet."""
        pod_class = self._cycle.classes.of(pod)
        if isinstance(pod_class, Refused):
            return Answer(reason=pod_class.reason)
        rules, moment = pod_class.claimed.policy.preemption, now + self.unix_ahead
        if not rules.may_preempt:
            return Answer()
        allowed_at = may_preempt_at(pod, rules) if rules.delay else moment
        if moment < allowed_at:
            reason = f"not eligible before {rules.delay:g} seconds have passed since its creation."
            return Answer(reason=reason, again_at=allowed_at - self.unix_ahead)
        return self._search(pod, pod_class, rules, moment)

    def _search(self, pod: Pod, pod_class: Fitted, rules: PreemptionRules, moment: float) -> Answer:
        state, nodes = self._state, self._state.nodes
        found = self._cycle.filter(pod, pod_class)
        rejections = {nodes.name(row): rejection for row, rejection in found.rejections().items()}
        reason = ineligible(pod, state, rejections)
        if reason:
            return Answer(reason=reason)
        may_end = MayEnd(
            state, self._policies, rules, self._scheduler_names, self._protected, moment, self._spared.keys()
        )
        search = VictimSearch(state, self._cycle.nominated, self._budgets, may_end)
        asked = Asked(pod, pod_class.node, pod_class.cluster)
        closed = self._cycle.on_node.closed_to(pod_class, pod)
        helpful = [node for node in search.helpful(asked, found) if node not in closed]
        candidates = search.candidates(asked, helpful)
        allowed = _allowed(candidates, rules)
        if not allowed.victims:
            return Answer(reason=_why_not(allowed, len(nodes)))
        best = allowed.best[0]
        left, key = self.limits.left(rules, moment)
        if left is not None and key is not None and len(best.pods) > left:
            kind, namespace, name = key
            policy = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
            reason = f"{policy} allows {max(left, 0)} more evictions within the hour, and {len(best.pods)} are needed."
            return Answer(reason=reason, again_at=self.limits.again_at(key, moment) - self.unix_ahead)
        preemption = self._preemption(pod, best, pod_class.claimed.policy.source_of.get("preemption", ""))
        if preemption is None:
            return Answer(reason=_why_not(Candidates({}, {}), len(nodes)))
        return Answer(preemption)

    def _preemption(self, pod: Pod, best: Victims, policy: str) -> Preemption | None:
        state = self._state
        there = [held for each in best.pods if (held := state.reservation(each.uid)) is not None]
        placement = self._cycle.on_node.fits_once_gone(pod, best.node, there)
        if placement is None:
            return None  # it could not be written on the pod
        violated = violated_budgets(best.pods, self._budgets())
        victims = tuple(
            Victim(
                each.uid,
                each.key,
                each.priority,
                tuple(sorted(uuid for usage in held.uses.values() for uuid in usage.charges)),
                bool(each.node_name),
                violated.get(each.uid, ()),
            )
            for each, held in zip(best.pods, there, strict=True)
        )
        return Preemption(best.node, placement, victims, policy)

    # Attempts --------------------------------------------------------------------------------------------------------

    def consider(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Return the decision about a pod that fits nowhere with what preemption does about it.

        Room that is found is kept for the pod from now on.
        """
        if decision.outcome is not Outcome.UNSCHEDULABLE or not self._policies.resolve(pod).preemption.may_preempt:
            return decision
        if self._is_waiting_for_victims(pod.uid):
            reason = "not eligible due to a terminating pod on the nominated node."
            return replace(decision, message=f"{decision.message} preemption: {reason}", equivalence=None)
        self.withdraw(pod.uid)
        answer = self.search(pod, now)
        if answer.preemption is None:
            message = f"{decision.message} preemption: {answer.reason}" if answer.reason else decision.message
            # Which pods run there, and for how long, is nothing that the version of a node tells.
            helped_by = decision.helped_by | Hint.BUDGET
            return replace(decision, message=message, helped_by=helped_by, per_node=False, again_at=answer.again_at)
        self._begin(pod, answer.preemption, now)
        return replace(decision, preemption=answer.preemption, equivalence=None, per_node=False)

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
            if hold.priority < pod.priority:
                self.displace(hold.uid, now)
        self._state.keep(self.room_for(pod, preemption.placement, (victim.uid for victim in preemption.victims)))
        self._under_way[pod.uid] = preemption
        rules = self._policies.resolve(pod).preemption
        self.limits.decide(rules, [victim.uid for victim in preemption.victims if victim.bound], now + self.unix_ahead)

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
        return Hold(claim, pod.priority, frozenset(leaving))

    def placed(self, decision: Decision, now: float) -> None:
        """Take in that a pod was placed, and whose room it took; what is under way for it is over."""
        self._under_way.pop(decision.uid, None)
        for uid in decision.displaces:
            self.displace(uid, now)

    def left(self, kept_for: Iterable[str], now: float) -> None:
        """Take in that a pod has left the room that is kept for others; who has all of it now is tried at once."""
        for uid in kept_for:
            pod = self._state.pod(uid)
            if pod is not None and self.of(uid) is not None and not self.still_there(uid):
                self._queue.add(uid, pod.priority, now)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone: nothing is under way for it any more, and it is nobody's victim."""
        self._under_way.pop(uid, None)
        self._spared.pop(uid, None)

    def spare(self, uid: str, victim: str, reason: str, now: float) -> None:
        """Take in that a victim cannot be evicted: the pod that was to get its room is decided anew without it."""
        self._spared[victim] = reason
        self.displace(uid, now)

    def withdraw(self, uid: str) -> None:
        """Keep no room for a pod any more."""
        self._state.wakes.hints |= self._state.give_up(uid)
        self._under_way.pop(uid, None)

    def displace(self, uid: str, now: float) -> None:
        """Give up the room that is kept for a pod, for one of higher priority takes it; the pod is decided anew."""
        self.withdraw(uid)
        self._queue.wake([uid], now, QueueEvent.ATTEMPT_FAILURE)


def _allowed(candidates: Candidates, rules: PreemptionRules) -> Candidates:
    """Leave out the candidates that violate budgets where these are respected."""
    if rules.budgets is Budgets.EXCEED:
        return candidates
    victims = {node: found for node, found in candidates.victims.items() if not found.violations}
    protected = Rejection((PROTECTED,), resolvable=False)
    rejections = dict.fromkeys(candidates.victims.keys() - victims.keys(), protected)
    return Candidates(victims, {**candidates.rejections, **rejections})


def _why_not(candidates: Candidates, nodes: int) -> str:
    """Word why a pod gets no room, as kube-scheduler does."""
    tried = [*candidates.rejections.values()]
    tried += [Rejection((NOT_HELPFUL,), resolvable=False)] * (nodes - len(tried))
    counts = Counter(text for rejection in tried for text in rejection.texts)
    return unschedulable_message(nodes, counts)

"""The question of preemption: whose room would a pod get that fits nowhere, and why nobody's if it gets none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.equivalence import Fitted, Refused
from vgpu_scheduler.engine.preemption.eligible import EvictionLimits, MayEnd, may_preempt_at
from vgpu_scheduler.engine.preemption.search import (
    NOT_HELPFUL,
    PROTECTED,
    Candidates,
    VictimSearch,
    ineligible,
)
from vgpu_scheduler.engine.preemption.victims import Asked
from vgpu_scheduler.kube import DisruptionBudget, Pod, violated_budgets
from vgpu_scheduler.model import Preemption, Victim
from vgpu_scheduler.policy import Budgets, Policies, PreemptionRules
from vgpu_scheduler.predicates import Rejection, unschedulable_message

__all__ = ["Answer", "Evaluator"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for a pod: how it gets room, or why it does not now, and when that may be otherwise.

    Attributes
    ----------
    preemption
        How it gets room; None if it does not.
    reason
        Why not; empty where no policy lets the pod preempt others.
    again_at
        From when on the answer may be another, whatever else happens.
    candidates
        The nodes that were compared; None where none were.
    """

    preemption: Preemption | None = None
    reason: str = ""
    again_at: float | None = None
    candidates: Candidates | None = None


class Evaluator:
    """Finds whose room a pod would get.

    Parameters
    ----------
    cycle, policies
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
    searches
        How often victims were searched for.
    limits
        How many pods may be evicted.
    """

    def __init__(
        self,
        cycle: Cycle,
        policies: Policies,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        scheduler_names: Collection[str],
        protected: Collection[str] = (),
    ) -> None:
        self.unix_ahead = 0.0
        self.searches = 0
        self.limits = EvictionLimits(policies)
        self._cycle = cycle
        self._state = cycle.state
        self._policies = policies
        self._budgets = budgets
        self._scheduler_names = scheduler_names
        self._protected = protected
        self._spared: dict[str, str] = {}
        self._denied, self._denied_until = "", 0.0

    def spare(self, victim: str, reason: str) -> None:
        """Take in that a pod cannot be evicted: it is nobody's victim any more."""
        self._spared[victim] = reason

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        self._spared.pop(uid, None)

    def deny(self, reason: str, until: float) -> None:
        """Take in that the right to evict is missing: nobody is searched for until some time."""
        self._denied, self._denied_until = reason, until

    def search(self, pod: Pod, now: float) -> Answer:
        """Say how a pod that fits nowhere gets room now, or why it does not; nothing is kept for it."""
        pod_class = self._cycle.classes.of(pod)
        if isinstance(pod_class, Refused):
            return Answer(reason=pod_class.reason)
        rules = pod_class.claimed.policy.preemption
        if not rules.may_preempt:
            return Answer()
        return self._not_yet(pod, rules, now) or self._search(pod, pod_class, now)

    def search_on(self, pod: Pod, node: str, now: float) -> Answer:
        """Say who would have to leave one node for a pod; pods that end there already are among them."""
        pod_class = self._cycle.classes.of(pod)
        if isinstance(pod_class, Refused) or node in self._cycle.on_node.closed_to(pod_class, pod):
            return Answer()
        return self._choose(pod, pod_class, [node], now)

    def _not_yet(self, pod: Pod, rules: PreemptionRules, now: float) -> Answer | None:
        """Say why a pod that may preempt others may not do so yet; None if it may."""
        if now < self._denied_until:
            return Answer(reason=f"the right to evict is missing: {self._denied}.", again_at=self._denied_until)
        may_at = may_preempt_at(pod, rules) - self.unix_ahead if rules.delay else now
        if now < may_at:
            reason = f"not eligible before {rules.delay:g} seconds have passed since its creation."
            return Answer(reason=reason, again_at=may_at)
        return None

    def _search(self, pod: Pod, pod_class: Fitted, now: float) -> Answer:
        nodes = self._state.nodes
        found = self._cycle.filter(pod, pod_class)
        rejections = {nodes.name(row): rejection for row, rejection in found.rejections().items()}
        reason = ineligible(pod, self._state, rejections)
        if reason:
            return Answer(reason=reason)
        closed = self._cycle.on_node.closed_to(pod_class, pod)
        asked = Asked(pod, pod_class.node, pod_class.cluster)
        helpful = self._victim_search(pod_class.claimed.policy.preemption, now).helpful(asked, found)
        return self._choose(pod, pod_class, [node for node in helpful if node not in closed], now)

    def _victim_search(self, rules: PreemptionRules, now: float) -> VictimSearch:
        moment, spared = now + self.unix_ahead, self._spared.keys()
        may_end = MayEnd(self._state, self._policies, rules, self._scheduler_names, self._protected, moment, spared)
        return VictimSearch(self._state, self._cycle.nominated, self._budgets, may_end)

    def _choose(self, pod: Pod, pod_class: Fitted, among: Sequence[str], now: float) -> Answer:
        """Choose among the nodes on which the end of pods may help."""
        self.searches += 1
        policy = pod_class.claimed.policy
        rules, nodes = policy.preemption, len(self._state.nodes)
        asked = Asked(pod, pod_class.node, pod_class.cluster)
        candidates = _allowed(self._victim_search(rules, now).candidates(asked, among), rules)
        if not candidates.victims:
            return Answer(reason=_why_not(candidates, nodes))
        best = candidates.best[0]
        too_many = self._over_limit(rules, len(best.pods), now)
        if too_many is not None:
            return too_many
        there = [held for each in best.pods if (held := self._state.reservation(each.uid)) is not None]
        placement = self._cycle.on_node.fits_once_gone(pod, best.node, there)
        if placement is None:  # it could not be written on the pod
            return Answer(reason=_why_not(Candidates({}, {}), nodes))
        source = policy.source_of.get("preemption", "")
        return Answer(Preemption(best.node, placement, self.victims(best.pods), source), candidates=candidates)

    def _over_limit(self, rules: PreemptionRules, victims: int, now: float) -> Answer | None:
        """Say which policy does not allow so many evictions now; None if all do."""
        moment = now + self.unix_ahead
        left, key = self.limits.left(rules, moment)
        if left is None or key is None or victims <= left:
            return None
        kind, namespace, name = key
        policy = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        reason = f"{policy} allows {max(left, 0)} more evictions within the hour, and {victims} are needed."
        return Answer(reason=reason, again_at=self.limits.again_at(key, moment) - self.unix_ahead)

    def victims(self, pods: Sequence[Pod]) -> tuple[Victim, ...]:
        """Return what is said of pods that have to end, the most important of them first."""
        violated, state = violated_budgets(pods, self._budgets()), self._state
        return tuple(
            Victim(
                each.uid,
                each.key,
                each.priority,
                tuple(sorted(uuid for usage in held.uses.values() for uuid in usage.charges)),
                bool(each.node_name),
                violated.get(each.uid, ()),
            )
            for each in pods
            if (held := state.reservation(each.uid)) is not None
        )


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

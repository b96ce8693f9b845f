"""Evaluates preemption: which victims would make room for a pod that fits nowhere, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import RefusedClass, SchedulableClass
from vgpu_scheduler.engine.preemption.candidates import CheapestVictims
from vgpu_scheduler.engine.preemption.eligible import EvictionLimits, RecordingVictimFilter, VictimFilter
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.order import SearchOrder
from vgpu_scheduler.engine.preemption.result import PreemptionResult, earliest
from vgpu_scheduler.engine.preemption.search import TERMINATING, VictimSearch, ineligible
from vgpu_scheduler.engine.preemption.victims import Preemptor, Victims, has_to_be_evicted, waits_to_be_bound
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget, LabelSelector, Pod, violated_budgets, violating_budgets
from vgpu_scheduler.model import ClusterEvent, Preemption, Victim, counted
from vgpu_scheduler.policy import DisruptionBudgetMode, Policies, PreemptionRules, key_title
from vgpu_scheduler.predicates import unschedulable_message

_Covering = tuple[str, LabelSelector | None, int]
"""What matters of a budget to a pod that it covers: its UID, its selector, and how many disruptions it allows."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialGroupPlan:
    """The plan so far for some pods of a group; one more pod is to get room.

    Attributes
    ----------
    priority
        That of the group: pods of lower priority may be evicted.
    rows
        The node rows that the pod may go to, shape (n,).
    leaving
        The pods that have to be evicted for the others; they hold nothing now.
    """

    priority: int
    rows: NDArray[np.int64]
    leaving: Sequence[Pod] = ()


class Evaluator:
    """Finds the victims for a pod.

    Parameters
    ----------
    algorithm, policies
        Collaborators.
    budgets
        Returns the disruption budgets.
    scheduler_names
        The names of this scheduler.
    protected
        Namespaces whose pods are never victims.
    disruption
        Tells which pods end together, and by which priority.

    Attributes
    ----------
    budgets, disruption
        As given.
    unix_ahead
        Unix time minus the callers' monotonic time (seconds).
    attempts
        Number of evaluations for pods that may preempt others.
    limits
        Limits on the number of evictions.
    order
        The order in which nodes are searched.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        policies: Policies,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        scheduler_names: Collection[str],
        protected: Collection[str],
        disruption: GroupDisruption,
    ) -> None:
        self.unix_ahead = 0.0
        self.attempts = 0
        self.limits = EvictionLimits(policies)
        self._algorithm = algorithm
        self._state = algorithm.state
        self._policies = policies
        self.budgets = budgets
        self._scheduler_names = scheduler_names
        self._protected = protected
        self.disruption = disruption
        self.order = SearchOrder(algorithm.state, self.disruption)
        self._excluded: dict[str, tuple[float, list[_Covering]]] = {}
        """By UID: until when a pod cannot be a victim, and the budgets that covered it when that was found."""
        self._denied: dict[str, tuple[float, bool]] = {}
        """By right: until when it is assumed to be missing, and whether only pods that exceed budgets need it."""
        self._ungated: dict[str, float] = {}
        """When the scheduling gates of pods were removed, by UID."""

    def exclude(self, victim: str, until: float = math.inf) -> None:
        """Note that a pod cannot be evicted: it is no victim until the given time, or until its budgets change."""
        self._excluded[victim] = until, self._covering(victim)

    def _covering(self, uid: str) -> list[_Covering]:
        pod = self._state.pod(uid)
        covering = () if pod is None else (budget for budget in self.budgets() if budget.covers(pod))
        return [(budget.uid, budget.selector, budget.allowed) for budget in covering]

    def _is_excluded(self, uid: str, now: float) -> bool:
        until, budgets = self._excluded[uid]
        return until == math.inf or (now < until and budgets == self._covering(uid))

    def forget(self, uid: str) -> None:
        """Note that a pod is gone."""
        self._excluded.pop(uid, None)
        self._ungated.pop(uid, None)

    def ungated(self, uid: str, now: float) -> None:
        """Note that a pod's scheduling gates were removed: no autoscaler acts for a gated pod."""
        self._ungated[uid] = now

    def deny(self, right: str, until: float, *, exceeding: bool = False) -> None:
        """Note that a right is missing: no victims are searched for until the given time.

        Parameters
        ----------
        exceeding
            Whether that concerns only pods that may exceed disruption budgets.
        """
        self._denied[right] = until, exceeding

    def search(self, pod: Pod, now: float) -> PreemptionResult:
        """Search for victims for a pod that fits nowhere, or say why there are none; no room is reserved."""
        pod_class = self._algorithm.classes.of(pod)
        if isinstance(pod_class, RefusedClass):
            return PreemptionResult(reason=pod_class.reason)
        rules = pod_class.claimed.policy.preemption
        if not rules.may_preempt:
            return PreemptionResult()
        self.attempts += 1
        return self._not_yet(pod, rules, now) or self._search(pod, pod_class, now)

    def why_not_eligible(self, pods: Iterable[Pod], now: float) -> PreemptionResult | None:
        """Say why pods that are placed together may not preempt others now, on any node; None if all of them may."""
        self.attempts += 1
        for pod in pods:
            refused = self._ineligible(pod, None)
            if refused is not None:
                return refused
            not_yet = self._not_yet(pod, self._policies.resolve(pod).preemption, now)
            if not_yet is not None:
                return not_yet
        return None

    def search_next_member(self, pod: Pod, now: float, planned: PartialGroupPlan) -> PreemptionResult:
        """Search for victims for one more pod of a group, beside those chosen already, or say why there are none."""
        pod_class = self._algorithm.classes.of(pod)
        if isinstance(pod_class, RefusedClass):
            return PreemptionResult(reason=pod_class.reason)
        return self._search(pod, pod_class, now, planned)

    def search_on(
        self, pod: Pod, node: str, now: float, ending: Sequence[Pod], priority: int | None = None
    ) -> PreemptionResult:
        """Search for victims on one node for a pod, where some pods are terminating already.

        Parameters
        ----------
        ending
            The terminating pods. If their room is not enough, as few other victims as possible are searched for.
        priority
            The priority of its group, if the pod is placed with its group.
        """
        pod_class = self._algorithm.classes.of(pod)
        if isinstance(pod_class, RefusedClass) or node in self._algorithm.node_fit.closed_to(pod_class, pod):
            return PreemptionResult()
        judge = self._victim_filter(pod_class.claimed.policy.preemption, now)
        search = self._victim_search(pod_class, now, RecordingVictimFilter(judge))
        preemptor = self._preemptor(pod, pod_class, priority)
        found = search.best_with_terminating_pods(preemptor, node, ending)
        if not isinstance(found, Victims):
            return PreemptionResult()
        left_behind = [each for each in search.left_behind(preemptor, found.pods) if each not in found.pods]
        whole = replace(found, pods=(*found.pods, *left_behind))
        if all(each in ending for each in found.pods):
            return self.placed(preemptor, whole)
        others = [each for each in found.evicted if each not in ending]
        respects = pod_class.claimed.policy.preemption.budget_mode is DisruptionBudgetMode.RESPECT
        is_protected = respects and violating_budgets(others, self.budgets())
        return PreemptionResult() if is_protected else self._answer(preemptor, whole, now)

    def waiting_since(self, pod: Pod) -> float:
        """Return since when a pod waits: since its scheduling gates were removed, if that was seen, or its creation."""
        ungated = self._ungated.get(pod.uid)
        return (pod.created_at or 0.0) - self.unix_ahead if ungated is None else ungated

    def might_help_on(self, pod: Pod, node: str) -> bool:
        """Tell whether a node rejects a pod only for reasons that preemption could resolve."""
        pod_class, row = self._algorithm.classes.of(pod), self._state.nodes.row(node)
        if isinstance(pod_class, RefusedClass) or row is None:
            return False
        rejection = self._algorithm.filter(pod, pod_class).rejection(row)
        return rejection is None or rejection.resolvable

    def forbids(self, pod: Pod, victim: Pod, now: float) -> str:
        """Return why a chosen victim must not be evicted for a pod any more; empty if it may."""
        rules = self._policies.resolve(pod).preemption
        if not rules.may_preempt:
            return "no policy lets the pod preempt others any more"
        verdict = self._victim_filter(rules, now)(victim)
        return "" if verdict.may_end else f"pod {victim.key} must not be evicted any more"

    def _not_yet(self, pod: Pod, rules: PreemptionRules, now: float) -> PreemptionResult | None:
        """Say why a pod that may preempt others must wait before it does; None if it need not."""
        for right, (until, exceeding) in self._denied.items():
            if now < until and (rules.budget_mode is DisruptionBudgetMode.EXCEED or not exceeding):
                reason = f"the right to evict is missing: {right}."
                return PreemptionResult(reason=reason, retry_at=until, is_eligible=False)
        may_at = self.waiting_since(pod) + rules.delay
        if not rules.delay or now >= may_at:
            return None
        reason = f"not eligible before {rules.delay:g} seconds have passed since its creation."
        if pod.uid in self._ungated:
            reason = f"not eligible before {rules.delay:g} seconds have passed since its scheduling gates were removed."
        return PreemptionResult(reason=reason, retry_at=may_at, is_eligible=False)

    def _search(
        self, pod: Pod, pod_class: SchedulableClass, now: float, planned: PartialGroupPlan | None = None
    ) -> PreemptionResult:
        found = self._algorithm.filter(pod, pod_class, None if planned is None else planned.rows)
        refused = self._ineligible(pod, found) if planned is None else None
        if refused is not None:
            return refused
        may_end = RecordingVictimFilter(self._victim_filter(pod_class.claimed.policy.preemption, now))
        leaving = () if planned is None else planned.leaving
        search = self._victim_search(pod_class, now, may_end, leaving)
        preemptor = self._preemptor(pod, pod_class, None if planned is None else planned.priority)
        best = self.cheapest(search, preemptor, found)
        retry_at = None if math.isinf(may_end.first_at) else may_end.first_at - self.unix_ahead
        helped_by = ClusterEvent.BUDGET
        if may_end.any_excluded:  # pods are excluded until their budgets change, even if they allow fewer disruptions
            helped_by |= ClusterEvent.BUDGET_TIGHTENED
        if best.victims is None and best.over_limit is not None:
            answer = self._answer(preemptor, best.over_limit, now, leaving)
            return replace(answer, retry_at=earliest(answer.retry_at, retry_at))
        if best.victims is not None:
            answer = self._answer(preemptor, best.victims, now, leaving)
            return replace(answer, candidates=best.compared)
        counts = search.rejections(preemptor, found, best, self.order)
        reason = unschedulable_message(len(self._state.nodes), counts)
        return PreemptionResult(reason=reason, helped_by=helped_by, retry_at=retry_at)

    def cheapest(self, search: VictimSearch, preemptor: Preemptor, found: Filtered) -> CheapestVictims:
        """Return the victims of least cost for a pod that fits nowhere, on nodes that are open to it."""
        closed = self._algorithm.node_fit.closed_to(preemptor.pod_class, preemptor.pod)
        return search.best(preemptor, found, closed, self.order)

    def _ineligible(self, pod: Pod, found: Filtered | None) -> PreemptionResult | None:
        """Say why a pod may not preempt others now; None if it may."""
        reason = ineligible(pod, self._state, found, self.disruption.with_group_priority)
        helped_by = (
            ClusterEvent.BUDGET | ClusterEvent.ASSIGNED_POD_DELETE if reason == TERMINATING else ClusterEvent.BUDGET
        )
        return PreemptionResult(reason=reason, helped_by=helped_by, is_eligible=False) if reason else None

    def _victim_search(
        self, pod_class: SchedulableClass, now: float, may_end: Callable[[Pod], bool], leaving: Sequence[Pod] = ()
    ) -> VictimSearch:
        rules = pod_class.claimed.policy.preemption
        exceed = rules.budget_mode is DisruptionBudgetMode.EXCEED
        return VictimSearch(
            self._state,
            self._algorithm.nominated,
            (lambda: [budget.after(leaving) for budget in self.budgets()]) if leaving else self.budgets,
            may_end,
            exceed=exceed,
            within_limits=lambda found: self._over_limit(rules, found.pods, now, leaving) is None,
            disruption=self.disruption,
        )

    def _victim_filter(self, rules: PreemptionRules, now: float) -> VictimFilter:
        moment, ahead = now + self.unix_ahead, self.unix_ahead
        excluded = {uid: until + ahead for uid, (until, _) in self._excluded.items() if self._is_excluded(uid, now)}
        return VictimFilter(
            self._state, self._policies, rules, self._scheduler_names, self._protected, moment, excluded
        )

    def _answer(self, preemptor: Preemptor, best: Victims, now: float, leaving: Sequence[Pod] = ()) -> PreemptionResult:
        """Return the preemption with the given victims beside those leaving for others, or which limit forbids it."""
        too_many = self._over_limit(preemptor.policy.preemption, best.pods, now, leaving)
        if too_many is not None:
            return too_many
        return self.placed(preemptor, best)

    def placed(self, preemptor: Preemptor, best: Victims) -> PreemptionResult:
        """Return the preemption that places a pod once the given victims are gone."""
        there = [reservation for each in best.pods if (reservation := self._state.reservation(each.uid)) is not None]
        placement = self._algorithm.node_fit.fits_once_gone(preemptor.pod, best.node, there)
        if placement is None:
            return PreemptionResult(
                reason=f"the allocation of the pod on node {best.node} cannot be written to its annotations."
            )
        source = preemptor.policy.source_of.get("preemption", "")
        return PreemptionResult(Preemption(best.node, placement, self.victims(best), source))

    def reserve(self, pod: Pod, victims: Iterable[str], now: float) -> None:
        """Count the victims of a pod that have to be evicted towards the limits."""
        self.limits.reserve(self._policies.resolve(pod).preemption, self._evicted(victims), now + self.unix_ahead)

    def _evicted(self, victims: Iterable[str]) -> list[str]:
        """Return which victims have to be evicted; the others are terminating already, or not bound yet."""
        state = self._state
        return [uid for uid in victims if has_to_be_evicted(state.pod(uid), state.reservation(uid))]

    def _over_limit(
        self, rules: PreemptionRules, pods: Iterable[Pod], now: float, leaving: Iterable[Pod] = ()
    ) -> PreemptionResult | None:
        """Say which policy's limit forbids so many evictions now, beside those for others; None if none does."""
        moment = now + self.unix_ahead
        evicted = {*self._evicted(pod.uid for pod in pods), *(pod.uid for pod in leaving)}
        over = self.limits.exceeded(rules, evicted, moment)
        if over is None:
            return None
        allowed, verb = counted(over.remaining, "more eviction"), "is" if over.needed == 1 else "are"
        reason = f"{key_title(over.key)} allows {allowed} within the hour, and {over.needed} {verb} needed."
        retry_at = self.limits.retry_at(over.key, moment) - self.unix_ahead
        return PreemptionResult(
            reason=reason, helped_by=ClusterEvent.BUDGET | ClusterEvent.BUDGET_TIGHTENED, retry_at=retry_at
        )

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return the given pods as victims, the most important first."""
        violated, state = violated_budgets(best.evicted, self.budgets()), self._state
        return tuple(
            Victim(
                each.uid,
                each.key,
                each.priority,
                tuple(sorted(uuid for usage in reservation.uses.values() for uuid in usage.charges)),
                not waits_to_be_bound(each, reservation),
                violated.get(each.uid, ()),
                reservation.node,
                self.disruption.ends_with(each),
                each.deleting,
            )
            for each in best.pods
            if (reservation := state.reservation(each.uid)) is not None
        )

    def _preemptor(self, pod: Pod, pod_class: SchedulableClass, priority: int | None = None) -> Preemptor:
        counted = self.disruption.with_group_priority(pod)
        if priority is not None:
            counted = msgspec.structs.replace(pod, priority=priority)
        return Preemptor(counted, pod_class)

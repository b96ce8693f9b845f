"""The victims of an unschedulable pod's preemption, planned or under way, and the preemptor of an evicted pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.engine import Candidates, GroupStatus, ends_by_preemption
from vgpu_scheduler.engine.preemption import PreemptionResult, Victims
from vgpu_scheduler.kube import MANAGER, Pod, nominators_of
from vgpu_scheduler.model import Outcome, Preemption, Victim, by_name, counted
from vgpu_scheduler.policy import title
from vgpu_scheduler.whatif.advice.eviction_limits import eviction_limits_to_raise
from vgpu_scheduler.whatif.advice.letting_preempt import what_to_set, what_to_set_for_group
from vgpu_scheduler.whatif.advice.victim_protection import Search, fields_sparing_victims, would_go
from vgpu_scheduler.whatif.objects.objects import metadata_of
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.tables import few, indented
from vgpu_scheduler.whatif.world.victims import (
    as_counted,
    nameless,
    protected_victims,
    victim_row,
    victims_as_json,
    with_card_names,
)
from vgpu_scheduler.whatif.world.world import World

_MOST_OTHERS: Final = 3
"""The most nodes that are named beside the chosen one."""
_HEAD: Final = ("POD", "PRIORITY", "CARDS", "AGAINST THE BUDGET", "IS")


def take_up_preemptions(world: World, now: datetime) -> None:
    """Restore the room that the scheduler has reserved for nominated pods, as a new leader does.

    For a pod that another component nominated, according to its ``metadata.managedFields``, only its requests are
    reserved. Where files do not tell who nominated a pod, the scheduler is assumed to have done so.

    Parameters
    ----------
    now
        The time of day, from which delays and run times are counted.
    """
    preemptions = world.engine.preemptions
    preemptions.evaluator.unix_ahead = now.timestamp()
    if world.engine.preemption:
        for namespace in sorted({pod.namespace for pod in world.bound.values()}):
            world.ensure_namespace(namespace)  # pods of an unknown namespace are no victims
        earlier = world.engine.earlier_nominations
        earlier.restore(0.0, {uid for uid, _ in earlier.restorable() if _is_foreign(world, uid)})


def _is_foreign(world: World, uid: str) -> bool:
    """Tell whether a pending pod is known to have been nominated by another component."""
    written = world.written(world.pending[uid])
    return bool(metadata_of(written).get("managedFields")) and MANAGER not in nominators_of(written)


@dataclass(frozen=True, slots=True)
class PreemptionOutlook:
    """The victims of a pod's preemption, planned or under way, or why there are none.

    Attributes
    ----------
    preemption
        The preemption; None if the scheduler would preempt no pod.
    reason
        Why there is none.
    under_way
        Whether the preemption has begun.
    states
        The states of the victims that are still there, by UID, if it has begun.
    why
        One sentence each: why these victims were chosen, or which policy fields protect possible victims.
    remedy
        What to set so that preemption helps; empty if nothing has to be set, or preemption would not help.
    protected
        The preemption that disruption budgets prevent; None if they prevent none.
    """

    preemption: Preemption | None = None
    reason: str = ""
    under_way: bool = False
    states: Mapping[str, str] | None = None
    why: Sequence[str] = ()
    remedy: str = ""
    protected: Preemption | None = None

    @property
    def victims(self) -> Sequence[Victim]:
        """The victims, or those that disruption budgets protect."""
        found = self.preemption or self.protected
        return () if found is None else found.victims

    def without_names(self, namespaces: Collection[str]) -> PreemptionOutlook:
        """Hide the names of victims, except in the namespaces in which the reader may delete pods."""
        going, protected = (each and nameless(each, namespaces) for each in (self.preemption, self.protected))
        return replace(self, preemption=going, protected=protected)

    def as_json(self) -> dict[str, Any]:
        """Return the outlook as plain values."""
        found: dict[str, Any] = {}
        if self.preemption is not None:
            found = {"node": self.preemption.node, "policy": self.preemption.policy, "underWay": self.under_way}
            states = self.states or {}
            found["victims"] = [
                {**plain, **({"is": states.get(victim.uid, "gone")} if self.under_way else {})}
                for victim, plain in zip(self.preemption.victims, victims_as_json(self.preemption), strict=True)
            ]
        if self.protected is not None:
            found["protected"] = {"node": self.protected.node, "victims": victims_as_json(self.protected)}
        optional = {"reason": self.reason, "why": list(self.why), "remedy": self.remedy}
        return found | {name: value for name, value in optional.items() if value}

    def text(self, *, wide: bool = False) -> str:
        """Format the outlook for people."""
        if self.preemption is None:
            nobody = f"No pod would be evicted for it: {self.reason}"
            return self.remedy or "\n".join([nobody, *self.why, *self._protected(wide=wide)])
        sentences = (*_whole_groups(self.preemption), *self.why)
        lines = [self._head(self.preemption), *indented([*self._rows(self.preemption)], wide=wide)]
        return "\n".join([*lines, *(f"  {sentence}" for sentence in sentences)])

    def _head(self, found: Preemption) -> str:
        """Say how many pods are evicted, and for which."""
        allowed = f" ({found.policy} allows it)" if found.policy else ""
        count, more = len(found.victims), len(found.gang) - 1
        ending = sum(victim.terminating for victim in found.victims)
        if self.under_way:
            there = len(self.states or ())
            return f"Room is made for it on node {found.node}{allowed}: {there} of {counted(count, 'pod')} still there."
        would = f"{counted(count - ending, 'pod')} would be evicted"
        if ending == count:
            would = (
                f"no further pod would be evicted: {counted(ending, 'pod')} {'is' if ending == 1 else 'are'} "
                "already terminating"
            )
        elif ending:
            would += f" beside {counted(ending, 'pod')} that {'is' if ending == 1 else 'are'} already terminating"
        if more > 0:
            group = f"it and {counted(more, 'more pod')} of its group"
            return f"For {group} {would}, and it gets node {found.node}{allowed}:"
        return f"For it {would}, on node {found.node}{allowed}:"

    def _rows(self, found: Preemption) -> Iterator[tuple[str, ...]]:
        """Yield the head of a table and a row for each victim, with nodes if the victims are on several."""
        states, elsewhere = self.states or {}, any(each.node not in {"", found.node} for each in found.victims)
        yield (*_HEAD[:-1], *(["NODE"] if elsewhere else []), *(_HEAD[-1:] if self.under_way else []))
        for victim in found.victims:
            on, state = [victim.node] if elsewhere else [], [states.get(victim.uid, "gone")] if self.under_way else []
            yield (*victim_row(replace(victim, terminating=victim.terminating and not self.under_way)), *on, *state)

    def _protected(self, *, wide: bool) -> Iterator[str]:
        """Yield lines about the victims that disruption budgets protect."""
        if self.protected is not None:
            yield f"If disruption budgets allowed it, {would_go(self.protected)}:"
            rows = map(victim_row, self.protected.victims)
            yield from indented([_HEAD[:-1], *rows], wide=wide)


def preemption_outlook(world: World, answer: PodResult) -> PreemptionOutlook | None:
    """Return the preemption outlook of a pod; None if the pod is not unschedulable or nothing applies.

    Parameters
    ----------
    answer
        The decision about the pod without preemption.
    """
    if answer.decision.outcome is not Outcome.UNSCHEDULABLE:
        return None
    engine, pod = world.engine, created(world, answer.pod, answer.pod.uid)
    preemptions = engine.preemptions
    if not engine.preemption or not engine.policies.resolve(pod).preemption.may_preempt:
        remedy = what_to_set(world, pod)
        return PreemptionOutlook(remedy=remedy) if remedy else None
    found, there = preemptions.of(pod.uid), preemptions.still_there(pod.uid)
    if found is not None and there:
        states = {each.uid: _state(world, each) for each in there}
        return PreemptionOutlook(with_card_names(world, as_counted(world, found)), under_way=True, states=states)
    searched = preemptions.evaluator.search(pod, 0.0)
    if searched.preemption is None:
        return _nobody(world, [pod], searched.reason, lambda: preemptions.evaluator.search(pod, 0.0).preemption)
    why = tuple(_compared(searched.preemption.node, searched.candidates)) if searched.candidates is not None else ()
    return PreemptionOutlook(with_card_names(world, as_counted(world, searched.preemption)), why=why)


def _nobody(world: World, pods: Sequence[Pod], reason: str, search: Search) -> PreemptionOutlook:
    """Return the outlook of a pod, or of the waiting pods of a group, without victims: what protects possible ones."""
    protected = protected_victims(world, search)
    spared = (
        ()
        if protected
        else (*eviction_limits_to_raise(world, pods, search), *fields_sparing_victims(world, pods, search))
    )
    return PreemptionOutlook(reason=reason, protected=protected and with_card_names(world, protected), why=spared)


def group_preemption_outlook(world: World, answer: PodResult, group: GroupStatus) -> PreemptionOutlook | None:
    """Return the preemption outlook of a pod's group; None if the group is not unschedulable or nothing applies.

    Parameters
    ----------
    answer
        The decision about the pod without preemption.
    """
    preemptions, asked = world.engine.preemptions, world.engine.attempts.group_preemptions
    waits = answer.decision.outcome is Outcome.UNSCHEDULABLE and group.schedules_as_gang
    if not waits:
        return None
    if not world.engine.preemption or not asked.may_preempt(group):
        remedy = what_to_set_for_group(world, group)
        return PreemptionOutlook(remedy=remedy) if remedy else None
    uid = answer.pod.uid
    found = preemptions.with_others(uid)
    if found is not None and (there := preemptions.still_there_for_gang(uid)):
        states = {each.uid: _state(world, each) for each in there}
        return PreemptionOutlook(with_card_names(world, as_counted(world, found)), under_way=True, states=states)
    plan = asked.search(group, 0.0)
    if isinstance(plan, PreemptionResult):
        return _nobody_for_group(world, group, plan.reason) if plan.reason else None
    planned = asked.preemption_of(uid, plan)
    if planned is None:
        others = ", ".join(member.pod.key for member in plan.members)
        return PreemptionOutlook(reason=f"others of its group would get room first: {others}")
    return PreemptionOutlook(with_card_names(world, as_counted(world, planned)))


def _nobody_for_group(world: World, group: GroupStatus, reason: str) -> PreemptionOutlook:
    """Return the outlook of a group without victims: what protects possible ones, or that its priority is too low."""
    found = _nobody(world, group.waiting, reason, lambda: _of_group(world, group))
    return found if found.protected or found.why else replace(found, why=tuple(_lowest_priority(world, group)))


def _of_group(world: World, group: GroupStatus, priority: int | None = None) -> Preemption | None:
    """Return the preemption that is possible for a group, by default with its priority; None without one."""
    asked = world.engine.attempts.group_preemptions
    plan = asked.search(group, 0.0, priority)
    return None if isinstance(plan, PreemptionResult) else asked.preemption_of(plan.members[0].pod.uid, plan)


def _lowest_priority(world: World, group: GroupStatus) -> Iterator[str]:
    """Yield a sentence if a group has no victims because the lowest priority of its pods counts for all of them."""
    groups = world.engine.groups
    lowest, highest = groups.priority(group.waiting[0]), max(pod.priority for pod in group.waiting)
    if (
        groups.described_priority(group.key) is None
        and lowest < highest
        and (found := _of_group(world, group, highest))
    ):
        names = sorted(pod.name for pod in groups.pods(group.key) if pod.priority == lowest)
        whose = f"{by_name('pod', names[:1])}{' and others' if len(names) > 1 else ''}"
        yield f"Its group has priority {lowest}, the lowest of its pods ({whose}): with {highest}, {would_go(found)}."


def _state(world: World, victim: Victim) -> str:
    """Describe the state of a victim that is still there."""
    pod, now = world.engine.state.pod(victim.uid), world.engine.preemptions.evaluator.unix_ahead
    if pod is None or not pod.deleting:
        return "about to be evicted"
    late = 0.0 if pod.ends_by is None else now - pod.ends_by
    return f"terminating, {late:.0f} s past its grace period" if late > 0.0 else "terminating"


def _compared(node: str, candidates: Candidates) -> Iterator[str]:
    """Yield sentences that compare the cost of evictions on the chosen node with that on others."""
    chosen = candidates.victims[node]
    least = chosen.cost
    compared = f"Of the first {counted(len(candidates.victims), 'node')} with victims, this"
    yield f"{'This' if candidates.is_complete else compared} costs least: {_cost(chosen)}."
    others = sorted((found.cost, name) for name, found in candidates.victims.items() if name != node)
    for cost, name in others[:_MOST_OTHERS]:
        found = candidates.victims[name]
        same = "costs the same, and comes later by its name" if cost == least else "costs more"
        yield f"Node {name} {same}: {_cost(found)}."
    if len(others) > _MOST_OTHERS:
        yield f"{counted(len(others) - _MOST_OTHERS, 'more node')} cost no less."
    reasons: dict[str, list[str]] = {}
    for name, rejection in sorted(candidates.rejections.items()):
        reasons.setdefault(", ".join(rejection.texts), []).append(name)
    for reason, names in reasons.items():
        yield f"{few(names)}: {reason}."


def _whole_groups(preemption: Preemption) -> Iterator[str]:
    """Yield a sentence about each group that is evicted as a whole."""
    groups = Counter(victim.group for victim in preemption.victims if victim.group)
    for group, number in groups.items():
        yield f"Group {group} is evicted as a whole, as its PodGroup says: {counted(number, 'pod')}."


def _cost(found: Victims) -> str:
    """Describe the cost of evictions, in the order in which costs are compared."""
    counted_pods, violations = found.counted, found.violations
    if not counted_pods:
        return "no pod is evicted: the victims end already, or only wait to be bound"
    against = f"{violations} against a disruption budget" if violations else "none against a disruption budget"
    return f"{counted(len(counted_pods), 'pod')}, the highest of priority {counted_pods[0].priority}, {against}"


@dataclass(frozen=True, slots=True)
class PreemptedBy:
    """The pod for which another pod is evicted.

    Attributes
    ----------
    uid, pod
        The preemptor, with its ``namespace/name``; empty if unknown.
    priority
        The preemptor's priority.
    node
        The node of the evicted pod.
    records
        The policies that have recorded the eviction.
    by_scheduler
        Whether it is certain that the pod was evicted by preemption.
    """

    node: str
    uid: str = ""
    pod: str = ""
    priority: int = 0
    records: tuple[str, ...] = ()
    by_scheduler: bool = False

    def without_names(self, namespaces: Collection[str]) -> PreemptedBy:
        """Hide the preemptor's name, unless the reader may delete pods in its namespace."""
        return self if self.pod.partition("/")[0] in namespaces else replace(self, pod="")

    def as_json(self) -> dict[str, Any]:
        """Return the values as plain ones."""
        whom = {"pod": self.pod, "priority": self.priority} if self.uid else {}
        return {"node": self.node, **whom, **({"policies": list(self.records)} if self.records else {})}

    def text(self) -> str:
        """Format a sentence for people."""
        records = f" ({', '.join(self.records)} recorded it)" if self.records else ""
        whom = f"{self.pod or 'a pod of another team'}, of priority {self.priority},"
        if self.by_scheduler:
            if not self.uid:
                return f"It was evicted for a pod of higher priority{records}, which no longer waits."
            return f"It was evicted for {whom} which is nominated to its node{records}."
        if not self.uid:
            return ""
        return f"It was evicted, and {whom} is nominated to its node and waits for room there."


def preempted_by(world: World, pod: Pod) -> PreemptedBy | None:
    """Return the pod for which a bound pod is evicted; None if it is not evicted by preemption."""
    policies = [
        title(policy)
        for policy in world.engine.policies.catalogue.all()
        if any(each.uid == pod.uid for each in policy.evictions)
    ]
    evicted = ends_by_preemption(pod)
    if not evicted and not policies:
        return None
    preemptor = _preemptor(world, pod)
    certain = bool(policies) or pod.disruption == "PreemptionByScheduler"
    if preemptor is None:
        return PreemptedBy(pod.node_name, records=tuple(policies), by_scheduler=certain) if certain else None
    return PreemptedBy(
        pod.node_name, preemptor.uid, preemptor.key, preemptor.priority, tuple(policies), by_scheduler=certain
    )


def _preemptor(world: World, victim: Pod) -> Pod | None:
    """Return the preemptor of a victim: the pod with a hold on its room, else the first one nominated to its node."""
    state = world.engine.state
    uids = [*state.holds.beneficiaries_of(victim.uid), *sorted(state.nominations.on(victim.node_name))]
    pods = (state.pod(uid) for uid in uids)
    higher = [pod for pod in pods if pod is not None and pod.priority > victim.priority]
    leaves_for = set(state.holds.beneficiaries_of(victim.uid))
    return min(higher, key=lambda pod: (pod.uid not in leaves_for, -pod.priority, pod.key), default=None)

"""Who would have to go for a pod that fits nowhere, or is going, and for whom a pod goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from vgpu_scheduler.engine import BY_PREEMPTION, Candidates, GroupStatus
from vgpu_scheduler.engine.preemption import PreemptionResult, Victims
from vgpu_scheduler.kube import MANAGER, Pod, nominators_of
from vgpu_scheduler.model import Outcome, Preemption, Victim, counted
from vgpu_scheduler.policy import title
from vgpu_scheduler.whatif.advice.letting_preempt import what_to_set, what_to_set_for_group
from vgpu_scheduler.whatif.advice.victim_protection import fields_sparing_victims
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

__all__ = [
    "PreemptedBy",
    "PreemptionOutlook",
    "group_preemption_outlook",
    "preempted_by",
    "preemption_outlook",
    "take_up_preemptions",
]

_MOST_OTHERS: Final = 3
"""Nodes that are named beside the one that was chosen."""
_HEAD: Final = ("POD", "PRIORITY", "CARDS", "AGAINST THE BUDGET", "IS")


def take_up_preemptions(world: World, now: datetime) -> None:
    """Have a world keep the room that its scheduler keeps, as one does that has just become the leader.

    For a pod that somebody else has nominated, as ``metadata.managedFields`` of it tells, no more is kept than its
    requests. Files need not tell who did: a nomination of which that is not known is taken for one of the scheduler's.

    Parameters
    ----------
    now
        The time of day; delays and run times count from it.
    """
    preemptions = world.engine.preemptions
    preemptions.evaluator.unix_ahead = now.timestamp()
    if world.engine.preemption:
        for namespace in sorted({pod.namespace for pod in world.bound.values()}):
            world.ensure_namespace(namespace)  # nobody is evicted from one that is not known
        earlier = world.engine.earlier_nominations
        earlier.restore(0.0, {uid for uid, _ in earlier.restorable() if _is_foreign(world, uid)})


def _is_foreign(world: World, uid: str) -> bool:
    """Tell whether a pod that waits is known to have been nominated to its node by somebody else."""
    written = world.written(world.pending[uid])
    return bool(metadata_of(written).get("managedFields")) and MANAGER not in nominators_of(written)


@dataclass(frozen=True, slots=True)
class PreemptionOutlook:
    """Who would have to go for a pod, or is going, or why nobody has to.

    Attributes
    ----------
    preemption
        What the scheduler would do, or does; None if it does nothing.
    reason
        Why it does nothing.
    under_way
        Whether it has begun.
    states
        What becomes of the victims that are still there, by UID, where it has begun.
    why
        Why these and not others, or what of policies spares those that would go, a sentence each.
    remedy
        What would have to be set so that preemption helps; empty where nothing has to, or it would not.
    protected
        Who would go if disruption budgets allowed it, where it does nothing because of these.
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
        """Those that go, or would go if disruption budgets allowed it."""
        found = self.preemption or self.protected
        return () if found is None else found.victims

    def without_names(self, namespaces: Collection[str]) -> PreemptionOutlook:
        """Return it for somebody who may delete pods in these namespaces alone: of all others there are numbers."""
        going, protected = (each and nameless(each, namespaces) for each in (self.preemption, self.protected))
        return replace(self, preemption=going, protected=protected)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
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
        """Say it to people."""
        if self.preemption is None:
            nobody = f"Nobody has to go for it: {self.reason}"
            return self.remedy or "\n".join([nobody, *self.why, *self._protected(wide=wide)])
        sentences = (*_whole_groups(self.preemption), *self.why)
        lines = [self._head(self.preemption), *indented([*self._rows(self.preemption)], wide=wide)]
        return "\n".join([*lines, *(f"  {sentence}" for sentence in sentences)])

    def _head(self, found: Preemption) -> str:
        """Say how many pods go, and for whom."""
        allowed = f" ({found.policy} allows it)" if found.policy else ""
        count, more = len(found.victims), len(found.gang) - 1
        ending = sum(victim.terminating for victim in found.victims)
        if self.under_way:
            there = len(self.states or ())
            return f"Room is made for it on node {found.node}{allowed}: {there} of {counted(count, 'pod')} still there."
        would = f"{counted(count - ending, 'pod')} would have to go"
        if ending == count:
            would = f"nobody would have to go, for the end of {counted(ending, 'pod')} is waited for"
        elif ending:
            would += f" beside {counted(ending, 'pod')} of which the end is waited for"
        if more > 0:
            group = f"it and {counted(more, 'more pod')} of its group"
            return f"For {group} {would}, and it gets node {found.node}{allowed}:"
        return f"For it {would}, on node {found.node}{allowed}:"

    def _rows(self, found: Preemption) -> Iterator[tuple[str, ...]]:
        """Yield the head of a table and a row for each victim; with their nodes where they are not on one."""
        states, elsewhere = self.states or {}, any(each.node not in {"", found.node} for each in found.victims)
        yield (*_HEAD[:-1], *(["NODE"] if elsewhere else []), *(_HEAD[-1:] if self.under_way else []))
        for victim in found.victims:
            on, state = [victim.node] if elsewhere else [], [states.get(victim.uid, "gone")] if self.under_way else []
            yield (*victim_row(replace(victim, terminating=victim.terminating and not self.under_way)), *on, *state)

    def _protected(self, *, wide: bool) -> Iterator[str]:
        """Yield the lines about whom disruption budgets protect."""
        if self.protected is not None:
            pods = counted(len(self.protected.victims), "pod")
            yield f"If disruption budgets allowed it, {pods} would go on node {self.protected.node}:"
            rows = map(victim_row, self.protected.victims)
            yield from indented([_HEAD[:-1], *rows], wide=wide)


def preemption_outlook(world: World, answer: PodResult) -> PreemptionOutlook | None:
    """Say who would have to go for a pod that waits, or is going; None where there is nothing to be said.

    Parameters
    ----------
    answer
        What becomes of it without anybody's end.
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
        protected = protected_victims(world, pod)
        spared = () if protected else tuple(fields_sparing_victims(world, pod))
        return PreemptionOutlook(
            reason=searched.reason, protected=protected and with_card_names(world, protected), why=spared
        )
    why = tuple(_compared(searched.preemption.node, searched.candidates)) if searched.candidates is not None else ()
    return PreemptionOutlook(with_card_names(world, as_counted(world, searched.preemption)), why=why)


def group_preemption_outlook(world: World, answer: PodResult, group: GroupStatus) -> PreemptionOutlook | None:
    """Say who would have to go for the group of a pod, or is going; None where there is nothing to be said.

    Parameters
    ----------
    answer
        What becomes of the pod without anybody's end.
    """
    preemptions, asked = world.engine.preemptions, world.engine.attempts.group_preemptions
    waits = answer.decision.outcome is Outcome.UNSCHEDULABLE and group.schedules_as_gang
    if asked is None or not waits:
        return None
    if not asked.may_preempt(group):
        remedy = what_to_set_for_group(world, group)
        return PreemptionOutlook(remedy=remedy) if remedy else None
    uid = answer.pod.uid
    found = preemptions.with_others(uid)
    if found is not None and (there := preemptions.still_there_for_gang(uid)):
        states = {each.uid: _state(world, each) for each in there}
        return PreemptionOutlook(with_card_names(world, as_counted(world, found)), under_way=True, states=states)
    plan = asked.search(group, 0.0)
    if isinstance(plan, PreemptionResult):
        return PreemptionOutlook(reason=plan.reason) if plan.reason else None
    planned = asked.preemption_of(uid, plan)
    if planned is None:
        others = ", ".join(member.pod.key for member in plan.members)
        return PreemptionOutlook(reason=f"others of its group would get room first: {others}")
    return PreemptionOutlook(with_card_names(world, as_counted(world, planned)))


def _state(world: World, victim: Victim) -> str:
    """Say what becomes of a victim that is still there."""
    pod, now = world.engine.state.pod(victim.uid), world.engine.preemptions.evaluator.unix_ahead
    if pod is None or not pod.deleting:
        return "about to be evicted"
    late = 0.0 if pod.ends_by is None else now - pod.ends_by
    return f"terminating, {late:.0f} s past its grace period" if late > 0.0 else "terminating"


def _compared(node: str, candidates: Candidates) -> Iterator[str]:
    """Say what the end of pods on the node that was chosen costs, and on others."""
    chosen = candidates.victims[node]
    least = chosen.cost
    yield f"That costs least: {_cost(chosen)}."
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
    """Yield a sentence about each group of which all pods go together."""
    groups = Counter(victim.group for victim in preemption.victims if victim.group)
    for group, number in groups.items():
        yield f"Group {group} goes whole, as its PodGroup says: {counted(number, 'pod')}."


def _cost(found: Victims) -> str:
    """Word what the end of pods costs, in the order in which it is compared."""
    counted_pods, violations = found.counted, found.violations
    if not counted_pods:
        return "nobody is evicted, for those end already, or only wait to be bound"
    against = f"{violations} against a disruption budget" if violations else "none against a disruption budget"
    return f"{counted(len(counted_pods), 'pod')}, the highest of priority {counted_pods[0].priority}, {against}"


@dataclass(frozen=True, slots=True)
class PreemptedBy:
    """For whom a pod goes.

    Attributes
    ----------
    uid, pod
        The pod that gets its room, with its ``namespace/name``; empty where nobody is known.
    priority
        That of the pod.
    node
        The node.
    records
        The policies that have recorded the eviction.
    by_scheduler
        Whether it is certain that it was evicted for another pod.
    """

    node: str
    uid: str = ""
    pod: str = ""
    priority: int = 0
    records: tuple[str, ...] = ()
    by_scheduler: bool = False

    def without_names(self, namespaces: Collection[str]) -> PreemptedBy:
        """Return it for somebody who may delete pods in these namespaces alone."""
        return self if self.pod.partition("/")[0] in namespaces else replace(self, pod="")

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        whom = {"pod": self.pod, "priority": self.priority} if self.uid else {}
        return {"node": self.node, **whom, **({"policies": list(self.records)} if self.records else {})}

    def text(self) -> str:
        """Say it to people."""
        records = f" ({', '.join(self.records)} recorded it)" if self.records else ""
        whom = f"{self.pod or 'a pod of another team'}, of priority {self.priority},"
        if self.by_scheduler:
            if not self.uid:
                return f"It was evicted for a pod of higher priority{records}, which does not wait any more."
            return f"It was evicted for {whom} which is nominated to its node{records}."
        if not self.uid:
            return ""
        return f"It was evicted, and {whom} is nominated to its node and waits for room there."


def preempted_by(world: World, pod: Pod) -> PreemptedBy | None:
    """Say for whom a bound pod goes; None if it does not go, or not for that."""
    policies = [
        title(policy)
        for policy in world.engine.policies.catalogue.all()
        if any(each.uid == pod.uid for each in policy.evictions)
    ]
    evicted = pod.deleting and pod.disruption in BY_PREEMPTION
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
    """Return the pod that gets the room of one: whose room it leaves, else the first that is nominated to its node."""
    state = world.engine.state
    uids = [*state.holds.beneficiaries_of(victim.uid), *sorted(state.nominations.on(victim.node_name))]
    pods = (state.pod(uid) for uid in uids)
    higher = [pod for pod in pods if pod is not None and pod.priority > victim.priority]
    leaves_for = set(state.holds.beneficiaries_of(victim.uid))
    return min(higher, key=lambda pod: (pod.uid not in leaves_for, -pod.priority, pod.key), default=None)

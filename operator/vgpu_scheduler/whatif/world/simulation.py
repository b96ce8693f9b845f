"""Simulate the scheduling of pods: the engine decides each pod with all earlier placements in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, CardReason, Decision, Dimension, Outcome, Preemption, Victim
from vgpu_scheduler.policy import RecordedEviction, shown_sources
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.world.victims import as_counted, victims_as_json, with_card_names
from vgpu_scheduler.whatif.world.world import World


@dataclass(frozen=True, slots=True)
class PodResult:
    """The simulated outcome for one pod.

    Attributes
    ----------
    decision
        The decision, with the scores of feasible nodes and the verdicts of the others.
    annotations
        The annotations that the Binding would write for the node side, with a time of 0.
    sources
        Where each section of the effective policy came from, also for a refused pod.
    dimensions
        The dimensions of the amounts, in order; empty if the pod gets no devices.
    after
        Why binding has to wait; empty unless a device plugin of the node is serving another pod.
    preemption
        The pod's victims, if preemption was simulated; None without victims.
    preempted_by
        The pod, as ``namespace/name``, that preempted this one later in the simulation; empty for none.
    quotas
        The quota status of the namespace, if quotas keep the pod waiting.
    """

    pod: Pod
    decision: Decision
    annotations: Mapping[str, str]
    sources: Mapping[str, Sequence[str]]
    dimensions: tuple[Dimension, ...]
    after: str = ""
    preemption: Preemption | None = None
    preempted_by: str = ""
    quotas: str = ""

    @property
    def node(self) -> str:
        """The node on which the pod is placed, or empty."""
        return self.decision.node

    @property
    def outcome(self) -> str:
        """The outcome as a word for people: a pod with scheduling gates is ``gated``, for it is not tried yet."""
        if self.preempted_by:
            return "preempted"
        if self.preemption is not None and self.node:
            return "preempts"
        waits_for_gates = self.decision.outcome is Outcome.REFUSED and gated(self.pod) is not None
        return "gated" if waits_for_gates else self.decision.outcome.value

    @property
    def cards(self) -> tuple[str, ...]:
        """The devices that the pod gets, in the order of its containers."""
        if self.decision.placement is None:
            return ()
        return tuple(card_name(a.vendor, a.uuid) for container in self.decision.placement.containers for a in container)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        decision, placement = self.decision, self.decision.placement
        return {
            "pod": self.pod.key,
            "outcome": self.outcome,
            "node": self.node,
            "containers": [
                [{"vendor": a.vendor, "device": a.uuid, **self._amounts(a.amounts)} for a in container]
                for container in (placement.containers if placement else ())
            ],
            "score": decision.score,
            "scores": {
                node: [
                    {
                        "scorer": part.scorer,
                        "raw": part.raw,
                        "normalised": part.normalised,
                        "weight": part.weight,
                        "value": part.value,
                        **({"within": part.within} if part.within else {}),
                    }
                    for part in parts
                ]
                for node, parts in sorted(decision.scores.items())
            },
            "volumes": {
                "matched": dict(placement.volumes.matched) if placement else {},
                "provisioned": list(placement.volumes.provisioned) if placement else [],
            },
            "reasons": {node: verdict.detail for node, verdict in sorted(decision.verdicts.items())},
            "message": decision.message,
            **({"quotas": self.quotas} if self.quotas else {}),
            **({"after": self.after} if self.after else {}),
            **({"preempts": victims_as_json(self.preemption)} if self.preemption is not None else {}),
            **({"preemptedBy": self.preempted_by} if self.preempted_by else {}),
            "policy": shown_sources(self.sources),
            "warnings": list(decision.warnings),
            "annotations": dict(self.annotations),
        }

    def _amounts(self, amounts: Amounts) -> dict[str, Any]:
        """Return amounts and their units by dimension name."""
        known = zip(self.dimensions[: len(amounts)], amounts, strict=True)  # a piece of a card has fewer
        given = [(dimension, amount) for dimension, amount in known if not dimension.internal]
        return {
            "amounts": {dimension.name: amount for dimension, amount in given},
            "units": {dimension.name: dimension.unit for dimension, _ in given},
        }


def simulate(
    world: World,
    pods: Iterable[Pod],
    *,
    as_they_are: bool = False,
    explained: bool = True,
    preempt: bool = False,
    each_alone: bool = False,
    on_answer: Callable[[PodResult], None] = lambda _: None,
) -> list[PodResult]:
    """Decide pods in queue order, by priority and then as given, all at one moment.

    Every pod is treated as a newly created pod of this scheduler, whatever scheduler it names and wherever it is bound;
    a pod that already runs in this world is treated as one more copy. Pods that the API server refuses to create come
    first, and pods with scheduling gates last.
    The claims of ephemeral volumes are made, as their controller would.

    Parameters
    ----------
    as_they_are
        The pods are the waiting pods of this world themselves, not copies.
    explained
        Add the score of every node and the reasons of infeasible ones to each answer, which takes longer than deciding.
    preempt
        Evict the victims of preemptions and place the preemptors, so that later pods see the result. This changes the
        world for good.
    each_alone
        Decide each pod by itself, even if it belongs to a group, unless its group declaration is invalid.
    on_answer
        Called with each answer as it comes.
    """
    engine, now = world.engine, 0.0  # one moment for everything: the simulation takes no time
    answers: list[PodResult] = []
    waiting: dict[str, Pod] = {}
    for pod in pods:
        if pod.uid in world.creation.refused:
            answers.append(_uncreated(world, pod))
            on_answer(answers[-1])
            continue
        ours = created(world, pod, pod.uid if as_they_are else world.new_uid())
        waiting[ours.uid] = ours
        engine.observe_pod(ours, now)
        if each_alone and not engine.groups.problem(ours):
            engine.groups.forget(ours.uid)
    preempting: dict[str, Preemption] = {}
    while decided := engine.schedule_next(now, explain=explained):
        asked = [each for each in decided if each.uid in waiting]  # the rest are other members of their groups
        makes_room = preempt and any(each.preemption is not None for each in asked)
        for decision in asked:
            if preempt and (found := decision.preemption or _under_way(world, decision)) is not None:
                preempting[decision.uid] = as_counted(world, found)
                _end_victims(world, decision.uid, found, now)
                engine.queue.add(decision.uid, waiting[decision.uid].priority, now)
                continue
            if makes_room:  # a surplus member: tried by itself once the preempting members are placed
                engine.queue.add(decision.uid, waiting[decision.uid].priority, now)
                continue
            found = preempting.pop(decision.uid, None)
            answers.append(_answer(world, waiting.pop(decision.uid), decision, found))
            on_answer(answers[-1])
        for decision in asked:
            if decision.outcome is not Outcome.PLACED and decision.uid not in waiting:
                _give_up(world, decision.uid, now)
    for uid, pod in waiting.items():
        behind = Decision(uid, pod.key, Outcome.REFUSED, message=gated(pod) or "the pod is not tried")
        answers.append(_answer(world, pod, behind))
        _give_up(world, uid, now)
    return with_preempted(answers)


def _uncreated(world: World, pod: Pod) -> PodResult:
    """Return the answer about a pod that the API server refuses to create."""
    return _answer(world, pod, Decision(pod.uid, pod.key, Outcome.REFUSED, message=world.creation.refused[pod.uid]))


def _under_way(world: World, decision: Decision) -> Preemption | None:
    """Return the preemption that the scheduler has begun for a pod that waits for its victims."""
    preemptions = world.engine.preemptions
    return preemptions.of(decision.uid) if any(preemptions.still_there(decision.uid)) else None


def _end_victims(world: World, preemptor: str, preemption: Preemption, now: float) -> None:
    """Remove the victims of a preemption, and charge their evictions to disruption budgets and policy limits.

    Parameters
    ----------
    preemptor
        The UID of the pod that preempts them.
    """
    engine = world.engine
    _record(world, preemptor, [victim for victim in preemption.victims if victim.bound], now)
    for victim in preemption.victims:
        pod = engine.state.pod(victim.uid)
        if pod is not None and victim.bound:
            for budget in [each for each in engine.budgets.all() if each.covers(pod)]:
                engine.budgets.observe(budget.after([pod], gone=True))
        if victim.uid in world.bound or victim.uid in world.pending:
            world.remove_pod(victim.uid)
        else:
            engine.remove_pod(victim.uid, now)


def _record(world: World, preemptor: str, victims: Iterable[Victim], now: float) -> None:
    """Record evictions in the policies that limit them, as the scheduler does in their status."""
    preemptions, policies = world.engine.preemptions, world.engine.policies.catalogue
    at = datetime.fromtimestamp(preemptions.evaluator.unix_ahead + now, UTC)
    evictions = [RecordedEviction(at, victim.pod, victim.uid, "") for victim in victims]
    for key, _ in preemptions.rules_of(preemptor).eviction_limits:
        policy = policies.get(key)
        if policy is not None:
            world.engine.policy_tracker.observe(replace(policy, evictions=(*policy.evictions, *evictions)))


def with_preempted(answers: Iterable[PodResult]) -> list[PodResult]:
    """Return the answers with ``preempted_by`` set for pods that were placed and later preempted."""
    answers = list(answers)
    preempted = {
        victim.uid: answer.pod.key
        for answer in answers
        if answer.preemption is not None
        for victim in answer.preemption.victims
    }
    return [replace(each, preempted_by=preempted.get(each.decision.uid, each.preempted_by)) for each in answers]


def _give_up(world: World, uid: str, now: float) -> None:
    """Stop trying a pod; a pod that waits in the world keeps the room reserved for it."""
    if uid in world.pending:
        world.engine.queue.remove(uid)
    else:
        world.engine.remove_pod(uid, now)


def _answer(world: World, pod: Pod, decision: Decision, preemption: Preemption | None = None) -> PodResult:
    engine = world.engine
    annotations: Mapping[str, str] = {}
    dimensions: tuple[Dimension, ...] = ()
    if decision.placement is not None:
        annotations = engine.dialects.annotations(decision.placement, 0, pod)
        if decision.placement.dialect:
            dimensions = engine.dialects[decision.placement.dialect].inventory.dimensions
    sources = decision.sources or dict(engine.policies.resolve(pod).sources)
    found = None if preemption is None else with_card_names(world, preemption)
    over = CardReason.ResourceQuotaNotFit in decision.reasons
    quotas = _quota_status(world, pod) if over else ""
    after = _after(world, pod, decision)
    return PodResult(pod, decision, annotations, sources, dimensions, after, found, quotas=quotas)


def _quota_status(world: World, pod: Pod) -> str:
    """Describe the quota status of a pod's namespace, and what the waiting pods of its group ask for together."""
    engine, limits = world.engine, world.engine.quota_limits
    status, group = limits.describe(pod.namespace, engine.state), engine.groups.status_of(pod)
    waiting = () if group is None else group.waiting
    asked: dict[str, int] = {}
    for report in limits.reports(pod.namespace, engine.state) if len(waiting) > 1 else ():
        each = (limits.asked(report.resource, engine.algorithm.classes.claims(other)) for other in waiting)
        asked[f"{report.unit} of {report.key}"] = sum(each)
    sums = ", ".join(f"{amount} {of_what}" for of_what, amount in asked.items() if amount)
    return f"{status}; the {len(waiting)} pods of its group that wait ask for {sums}" if sums else status


def _after(world: World, pod: Pod, decision: Decision) -> str:
    """Say for which other pod the node's lock is held, so that this pod is bound later; empty if for none."""
    if decision.placement is None:
        return ""
    node = decision.placement.node
    served = world.served_before(pod, node)
    if served is None:
        return ""
    return f"it is bound when its turn comes: node {node} is locked for {f'pod {served}' if served else 'another pod'}"


def ask(world: World, pod: Pod) -> PodResult:
    """Decide a pod, with its group, as if it had just been created; place nothing."""
    if pod.uid in world.creation.refused:
        return _uncreated(world, pod)
    ours = created(world, pod, pod.uid)
    return _answer(world, pod, world.engine.attempts.dry_run(ours))


def created(world: World, pod: Pod, uid: str) -> Pod:
    """Return a pod as it was when created, with the claims of its ephemeral volumes made.

    No claims are made for a pod that waits in a world whose claims were read: it waits for its real claims.
    """
    world.ensure_namespace(pod.namespace)
    ours = _created(world, pod, uid)
    if uid not in world.pending or "PersistentVolumeClaim" in world.unread:
        world.make_ephemeral_volume_claims(ours, pod.uid)
    return ours


def _created(world: World, pod: Pod, uid: str) -> Pod:
    """Return a pod as one of this scheduler's; a pod that waits in the world keeps its scheduler and nomination."""
    name, waits = pod.scheduler_name, uid in world.pending
    return msgspec.structs.replace(
        pod.as_created(),
        uid=uid,
        resource_version=0,
        scheduler_name=name if name in world.engine.scheduler_names else world.scheduler_name,
        nominated_node_name=pod.nominated_node_name if waits else "",
    )

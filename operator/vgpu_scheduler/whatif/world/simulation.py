"""What would happen to these pods: the engine decides each, with the placements before it in force."""

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
    """What became of one pod.

    Attributes
    ----------
    decision
        With the scores of every node that fits and the verdicts of those that do not.
    annotations
        What the Binding would write for the node side, with a time of 0.
    sources
        Where each section of the policy in force came from, also for a pod that is refused.
    dimensions
        The dimensions of the amounts, in their order; empty where it gets no devices.
    after
        Why it is bound later, if it is: a device plugin of its node serves another pod.
    preemption
        Who had to go for it, where that was asked about; None if nobody had to.
    preempted_by
        The pod, as ``namespace/name``, for which it went again later, where that was asked about; empty for none.
    quotas
        How its namespace stands, where quotas keep it waiting.
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
        """The node that it goes to, or empty."""
        return self.decision.placement.node if self.decision.placement else ""

    @property
    def outcome(self) -> str:
        """What came of it, in a word for people: a pod behind scheduling gates is not refused, it is not tried yet."""
        if self.preempted_by:
            return "preempted"
        if self.preemption is not None and self.node:
            return "preempts"
        waits_for_gates = self.decision.outcome is Outcome.REFUSED and gated(self.pod) is not None
        return "gated" if waits_for_gates else self.decision.outcome.value

    @property
    def cards(self) -> tuple[str, ...]:
        """The devices that it gets, in the order of its containers."""
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
        """Return amounts by what they are of, with their units."""
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
    """Decide pods in the order of the queue, by priority, then as given, all of them at one moment.

    Every pod is treated as one of ours that was created a moment ago, whatever scheduler it names and wherever it is
    bound: one that runs in this world already is asked about as one more. Pods behind scheduling gates come last.
    The claims of their ephemeral volumes are made, as a controller would.

    Parameters
    ----------
    as_they_are
        The pods wait in this world: they are asked about themselves.
    explained
        Have each answer say what every node scored, and why others do not fit: that takes longer than the decision.
    preempt
        Have the victims of preemptions go, and their pods placed: those that come later find it so. The world is
        another one afterwards.
    each_alone
        Have each pod be decided by itself, whatever group it belongs to, unless it is refused for what it says of one.
    on_answer
        Is called with each answer as it comes.
    """
    engine, now = world.engine, 0.0  # of all that is told: no time passes, whoever comes first in the queue
    waiting: dict[str, Pod] = {}
    for pod in pods:
        ours = created(world, pod, pod.uid if as_they_are else world.new_uid())
        waiting[ours.uid] = ours
        engine.observe_pod(ours, now)
        if each_alone and not engine.groups.problem(ours):
            engine.groups.forget(ours.uid)
    answers: list[PodResult] = []
    preempting: dict[str, Preemption] = {}
    while decided := engine.attempt_group(now, explain=explained):
        asked = [each for each in decided if each.uid in waiting]  # others are of the group of one of them
        makes_room = preempt and any(each.preemption is not None for each in asked)
        for decision in asked:
            if preempt and (found := decision.preemption or _under_way(world, decision)) is not None:
                preempting[decision.uid] = as_counted(world, found)
                _end_victims(world, decision.uid, found, now)
                engine.queue.add(decision.uid, waiting[decision.uid].priority, now)
                continue
            if makes_room:  # more than the group needs: by itself, when these have their places
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


def _under_way(world: World, decision: Decision) -> Preemption | None:
    """Return the preemption that the scheduler has begun for a pod that waits for its victims."""
    preemptions = world.engine.preemptions
    return preemptions.of(decision.uid) if any(preemptions.still_there(decision.uid)) else None


def _end_victims(world: World, preemptor: str, preemption: Preemption, now: float) -> None:
    """Have the victims of a preemption go; disruption budgets and policies let fewer pods go from then on.

    Parameters
    ----------
    preemptor
        The UID of the pod that gets their room.
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
    """Have evictions count in the policies that limit them, as the status of these records them."""
    preemptions, policies = world.engine.preemptions, world.engine.policies.catalogue
    at = datetime.fromtimestamp(preemptions.evaluator.unix_ahead + now, UTC)
    evictions = [RecordedEviction(at, victim.pod, victim.uid, "") for victim in victims]
    for key, _ in preemptions.rules_of(preemptor).eviction_limits:
        policy = policies.get(key)
        if policy is not None:
            world.engine.policy_tracker.observe(replace(policy, evictions=(*policy.evictions, *evictions)))


def with_preempted(answers: Iterable[PodResult]) -> list[PodResult]:
    """Return answers of which those say so whose pods were placed, and went again for a pod that came later."""
    answers = list(answers)
    preempted = {
        victim.uid: answer.pod.key
        for answer in answers
        if answer.preemption is not None
        for victim in answer.preemption.victims
    }
    return [replace(each, preempted_by=preempted.get(each.decision.uid, each.preempted_by)) for each in answers]


def _give_up(world: World, uid: str, now: float) -> None:
    """Try a pod no more, whatever others give back; one that waits in the world keeps the room that is kept for it."""
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
    over = CardReason.ResourceQuotaNotFit.text in decision.reasons
    quotas = _quota_status(world, pod) if over else ""
    after = _after(world, pod, decision)
    return PodResult(pod, decision, annotations, sources, dimensions, after, found, quotas=quotas)


def _quota_status(world: World, pod: Pod) -> str:
    """Say how the namespace of a pod stands, and what it asks for together with the others of its group that wait."""
    engine = world.engine
    status, said = engine.quota_limits.describe(pod.namespace, engine.state), engine.groups.membership(pod)
    waiting = () if said is None or said.problem else engine.groups.status(said.key).waiting
    asked: dict[str, int] = {}
    for report in engine.quota_limits.report(engine.state) if len(waiting) > 1 else ():
        if report.namespace == pod.namespace:
            each = (
                engine.quota_limits.asked(report.resource, engine.algorithm.classes.claims(other)) for other in waiting
            )
            asked[f"{report.unit} of limits.{report.resource}"] = sum(each)
    sums = ", ".join(f"{amount} {of_what}" for of_what, amount in asked.items() if amount)
    return f"{status}; the {len(waiting)} pods of its group that wait ask for {sums}" if sums else status


def _after(world: World, pod: Pod, decision: Decision) -> str:
    """Say whose turn at the device plugin of its node comes before that of a pod; empty if nobody's does."""
    if decision.placement is None:
        return ""
    node = decision.placement.node
    served = world.served_before(pod, node)
    if served is None:
        return ""
    return f"it is bound after its turn: node {node} is locked for {f'pod {served}' if served else 'another pod'}"


def ask(world: World, pod: Pod) -> PodResult:
    """Decide one pod as if it had been created a moment ago, with its group; nothing is placed."""
    ours = created(world, pod, pod.uid)
    return _answer(world, pod, world.engine.attempts.ask(ours))


def created(world: World, pod: Pod, uid: str) -> Pod:
    """Return a pod as it was when it was created, with the claims of its ephemeral volumes made.

    Those of a pod that waits are what they are, where they were read: it waits for its claims, too.
    """
    world.ensure_namespace(pod.namespace)
    ours = _created(world, pod, uid)
    if uid not in world.pending or "PersistentVolumeClaim" in world.unread:
        world.make_ephemeral_claims(ours, pod.uid)
    return ours


def _created(world: World, pod: Pod, uid: str) -> Pod:
    """Return a pod as one of ours; one that waits in the world keeps its name and the node that it is nominated to."""
    name, waits = pod.scheduler_name, uid in world.pending
    return msgspec.structs.replace(
        pod.as_created(),
        uid=uid,
        resource_version=0,
        scheduler_name=name if name in world.engine.scheduler_names else world.scheduler_name,
        nominated_node_name=pod.nominated_node_name if waits else "",
    )

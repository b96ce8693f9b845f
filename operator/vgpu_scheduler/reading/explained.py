"""The explanation of one pod, restricted to what a user may see."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import DECISION, MESSAGE, EventReason, counted, cut
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading.schedulers import announced_for, asks_for_ours, is_ours, is_served, left_to_whom
from vgpu_scheduler.reading.settings import SchedulerSettings
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import Explanation, Remedy, World, awaited_volumes, explain_bound, explain_pod

_ADMISSION_ERROR: Final = "UnexpectedAdmissionError"
"""The reason of a kubelet for a pod whose devices a device plugin does not allocate."""


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """The explanation of a pending or bound pod.

    Attributes
    ----------
    found
        The explanation; for a bound pod, as if it were recreated now.
    scheduler
        The settings that were used.
    ended
        The namespaces of the pods that remedies would end, by UID.
    is_announced
        Whether another scheduler has announced the pod for its node without having bound it.
    awaited
        For a pending pod that has a node: the claims whose volumes are being provisioned, each with its node.
    """

    pod: Pod
    found: Explanation
    scheduler: SchedulerSettings
    ended: Mapping[str, str]
    is_announced: bool = False
    awaited: tuple[tuple[str, str], ...] = ()

    @property
    def waits_for(self) -> list[str]:
        """The volumes for which it waits, one sentence each."""
        return [
            f"Its claim {claim} waits for the volume that is provisioned for node {where}: see the events of the claim."
            for claim, where in self.awaited
        ]

    @property
    def is_bound(self) -> bool:
        """Whether it is bound to a node, or announced for one by another scheduler."""
        return bool(self.pod.node_name)

    @property
    def ours(self) -> bool:
        """Whether it names this scheduler."""
        return is_ours(self.pod.scheduler_name, self.scheduler.settings)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of other pods that are named, as victims, preemptors or holders of reservations."""
        going = [] if self.found.preemption_outlook is None else self.found.preemption_outlook.victims
        preempting = [] if self.found.preempted_by is None else [self.found.preempted_by.pod]
        advised = [*(key for remedy in self.found.remedies for key in remedy.named), *self.found.kept_for]
        keys = [*(each.pod for each in going), *(each.pod for each in self.found.holds), *preempting, *advised]
        return frozenset({*self.ended.values(), *(key.partition("/")[0] for key in keys)} - {""})

    @property
    def where(self) -> str:
        """The node of a bound pod, as a sentence."""
        return describe_place(self.pod, is_announced=self.is_announced)

    @property
    def ending(self) -> str:
        """A sentence if a bound pod is being deleted; empty if it is not, or its preemptor is named anyway."""
        return "" if self.found.preempted_by is not None else describe_terminating(self.pod)

    @property
    def record(self) -> list[str]:
        """The recorded decision about a bound pod, as lines."""
        return describe_decision(self.pod, is_announced=self.is_announced)

    def without_others(self, mine: Collection[str]) -> ExplainedPod:
        """Hide the names of pods outside the namespaces in which the user may delete pods."""
        found, allowed = self.found, frozenset(mine)
        remedies = [
            each if allowed.issuperset(self._named_in(each)) else each.without_names() for each in found.remedies
        ]
        told = replace(
            found,
            remedies=remedies,
            preemption_outlook=found.preemption_outlook and found.preemption_outlook.without_names(allowed),
            preempted_by=found.preempted_by and found.preempted_by.without_names(allowed),
        )
        return replace(self, found=told.without_kept_names(allowed))

    def _named_in(self, remedy: Remedy) -> Iterator[str | None]:
        """Yield the namespaces of the pods that a remedy names."""
        yield from map(self.ended.get, remedy.ended)
        yield from (key.partition("/")[0] for key in remedy.named)

    def lines(self, *, wide: bool = False) -> list[str]:
        """Format the explanation for people, as lines."""
        pod, found = self.pod, self.found
        if not self.is_bound:
            settings = self.scheduler.settings
            left = f"{left_to_whom(pod.scheduler_name, settings)}."
            first = [] if self.ours else [left, "", f"If it named {settings.scheduler_names[0]}:", ""]
            return [*first, found.text(wide=wide)]
        here = "to the same node" if found.answer.node == pod.node_name else f"to {found.answer.node or 'no node'}"
        return [
            self.where,
            *(f"  {line}" for line in (*found.held, *self.record)),
            *([f"  {found.preempted_by.text()}"] if found.preempted_by is not None else []),
            *([f"  {self.ending}"] if self.ending else []),
            "",
            f"If it were created now instead, it would go {here}:",
            "",
            found.text(wide=wide),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        plain: dict[str, Any]
        if not self.is_bound:
            named = {"named": self.pod.scheduler_name, "ours": self.ours}
            awaited = [{"claim": claim, "node": node} for claim, node in self.awaited]
            plain = {**self.found.as_json(), **({"awaitedVolumes": awaited} if awaited else {})}
            return {**plain, "scheduler": named, "settings": self.scheduler.source}
        pod, preempted = self.pod, self.found.preempted_by
        plain = {"pod": pod.key, "node": pod.node_name, "decided": record_of(pod.annotations)}
        plain |= {"announcedBy": pod.scheduler_name} if self.is_announced else {}
        plain |= {"deleting": True} if pod.deleting else {}
        plain["today"] = self.found.as_json()
        return plain | ({"preemptedBy": preempted.as_json()} if preempted is not None else {})


def explain_one(
    world: World, scheduler: SchedulerSettings, pod: Pod, node: str = "", *, all_cards: bool = False
) -> ExplainedPod:
    """Explain a pod of a world.

    Parameters
    ----------
    node, all_cards
        As for :func:`vgpu_scheduler.whatif.explain_pod` and :func:`vgpu_scheduler.whatif.explain_bound`.
    """
    ask = explain_pod if pod.uid in world.pending else explain_bound
    is_announced = world.is_announced(pod)
    awaited = tuple(awaited_volumes(world, pod)) if pod.uid in world.pending and not gated(pod) else ()
    found = ask(world, pod, node, all_cards=all_cards)
    ended = {uid: world.bound[uid].namespace for remedy in found.remedies for uid in remedy.ended}
    return ExplainedPod(pod, found, scheduler, ended, is_announced, awaited if found.answer.node else ())


def describe_place(pod: Pod, *, is_announced: bool) -> str:
    """Return a sentence about the node to which a pod is bound, or for which another scheduler announced it."""
    return announced_for(pod, pod.node_name) if is_announced else f"{pod.key} is bound to {pod.node_name}."


def describe_decision(pod: Pod, *, is_announced: bool) -> list[str]:
    """Describe the recorded decision about a bound pod; there is none for a pod that is only announced."""
    return [] if is_announced else _describe_record(record_of(pod.annotations))


def describe_terminating(pod: Pod) -> str:
    """Return a sentence if a bound pod is being deleted; otherwise an empty one."""
    return "It is being deleted: its resources count as used until it has ended." if pod.deleting else ""


def why_no_more(world: World, pod: Pod, written: Object, settings: Settings) -> str:
    """Return a clause why an existing pod neither waits nor runs, according to its object; empty if it does."""
    if pod.node_name and not pod.terminal:
        return ""
    if pod.terminal:
        return f"has ended ({pod.phase}): it neither waits nor runs{_last_words(world, pod, written, settings)}"
    return "is being deleted and is bound to no node: it no longer waits" if pod.deleting else ""


def why_no_more_in(world: World, key: str, settings: Settings) -> str:
    """Return :func:`why_no_more` of a pod of a world; empty if there is no such pod."""
    pod = world.pods.get(key)
    return "" if pod is None else why_no_more(world, pod, world.written(pod), settings)


def _last_words(world: World, pod: Pod, written: Object, settings: Settings) -> str:
    """Return what the status of an ended pod says, as the end of a sentence; empty if it gives no reason."""
    status = written.get("status") or {}
    said = (" ".join(str(status.get(field) or "").split()) for field in ("reason", "message"))
    told = ": ".join(filter(None, said))
    where = f"; see {EventReason.REJECTED_BY_KUBELET} in the runbook" if pod.rejection else ""
    if pod.rejection == _ADMISSION_ERROR and asks_for_ours(world, pod) and not is_served(pod.scheduler_name, settings):
        ours = settings.scheduler_names[0]
        cause = f"it names the scheduler {pod.scheduler_name}, whose pods the device plugin of shared cards rejects"
        where += f"; the likely cause is that {cause}: create it anew with spec.schedulerName: {ours}"
    return f"; its status says {cut(told, MESSAGE)}{where}" if told else ""


def record_of(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the decision that is recorded in a pod's annotations; empty if there is none."""
    try:
        found = json.loads(annotations.get(DECISION, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _describe_record(record: Mapping[str, Any]) -> list[str]:
    """Describe a recorded decision."""
    if not record:
        return ["vgpu-scheduler recorded no decision: it did not bind the pod"]
    nodes = record.get("nodes", "?")
    among = counted(nodes, "node") if isinstance(nodes, int) else f"{nodes} nodes"
    lines = [f"decided among {among}, score {record.get('score', '?')}"]
    policy = record.get("policy")
    for section, source in sorted(policy.items()) if isinstance(policy, Mapping) else ():
        lines.append(f"{section} by {source}")
    return lines

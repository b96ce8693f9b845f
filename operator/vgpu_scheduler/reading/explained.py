"""One pod explained, with what its cluster is and what may be told of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import DECISION, counted
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading.schedulers import announced_for, is_ours, left_to_whom
from vgpu_scheduler.reading.settings import SchedulerSettings
from vgpu_scheduler.whatif import Explanation, World, awaited_volumes, explain_bound, explain_pod

__all__ = [
    "ExplainedPod",
    "describe_decision",
    "describe_place",
    "describe_terminating",
    "explain_one",
    "record_of",
    "why_no_more",
]


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """What is to be said of a pod that waits, or of one that is bound.

    Attributes
    ----------
    found
        Of a bound pod: what would become of it if it were created now, without itself.
    scheduler
        The settings by which it was asked.
    ended
        The namespaces of the pods that remedies would end, by the UIDs of these.
    is_announced
        Whether its scheduler, another one, has announced it for its node and has not bound it.
    awaited
        The claims of one that waits and has a node whose volumes are being made, each with the node they are made for.
    """

    pod: Pod
    found: Explanation
    scheduler: SchedulerSettings
    ended: Mapping[str, str]
    is_announced: bool = False
    awaited: tuple[tuple[str, str], ...] = ()

    @property
    def waits_for(self) -> list[str]:
        """Which volumes it waits for, a sentence each."""
        return [
            f"Its claim {claim} waits for the volume that is made for node {where}: the events of the claim say more."
            for claim, where in self.awaited
        ]

    @property
    def is_bound(self) -> bool:
        """Whether it is bound to a node, or as good as bound there by another scheduler."""
        return bool(self.pod.node_name)

    @property
    def ours(self) -> bool:
        """Whether it names this scheduler."""
        return is_ours(self.pod.scheduler_name, self.scheduler.settings)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of other pods that are named as going for it or for whom it goes."""
        going = [] if self.found.preemption_outlook is None else self.found.preemption_outlook.victims
        preempting = [] if self.found.preempted_by is None else [self.found.preempted_by.pod]
        keys = [*(each.pod for each in going), *(each.pod for each in self.found.kept), *preempting]
        return frozenset({*self.ended.values(), *(key.partition("/")[0] for key in keys)} - {""})

    @property
    def where(self) -> str:
        """Where a bound pod is, in a sentence."""
        return describe_place(self.pod, is_announced=self.is_announced)

    @property
    def ending(self) -> str:
        """That a bound pod is being deleted, in a sentence; empty where it is not, or it is said for whom it goes."""
        return "" if self.found.preempted_by is not None else describe_terminating(self.pod)

    @property
    def record(self) -> list[str]:
        """What was written down when a bound pod was decided, in lines."""
        return describe_decision(self.pod, is_announced=self.is_announced)

    def without_others(self, mine: Collection[str]) -> ExplainedPod:
        """Leave out the names of pods of other namespaces than those in which the user may delete pods."""
        found, allowed = self.found, frozenset(mine)
        remedies = [
            each if allowed.issuperset(map(self.ended.get, each.ended)) else each.without_names()
            for each in found.remedies
        ]
        told = replace(
            found,
            remedies=remedies,
            preemption_outlook=found.preemption_outlook and found.preemption_outlook.without_names(allowed),
            preempted_by=found.preempted_by and found.preempted_by.without_names(allowed),
            kept=[each.without_names(allowed) for each in found.kept],
        )
        return replace(self, found=told)

    def lines(self, *, wide: bool = False) -> list[str]:
        """Say it to people, in lines."""
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
            f"If it were created now, without itself, it would go {here}:",
            "",
            found.text(wide=wide),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
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
    """Explain a pod of a world; a bound one is another pod for the world afterwards.

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
    if ask is explain_bound:
        world.restore_pod(pod)
    return ExplainedPod(pod, found, scheduler, ended, is_announced, awaited if found.answer.node else ())


def describe_place(pod: Pod, *, is_announced: bool) -> str:
    """Say where a pod is that is bound, or announced for its node by another scheduler, in a sentence."""
    return announced_for(pod, pod.node_name) if is_announced else f"{pod.key} is bound to {pod.node_name}."


def describe_decision(pod: Pod, *, is_announced: bool) -> list[str]:
    """Word what was written down when a bound pod was decided; nothing is of one that is only announced."""
    return [] if is_announced else _describe_record(record_of(pod.annotations))


def describe_terminating(pod: Pod) -> str:
    """Say that a bound pod is being deleted, in a sentence; empty where it is not."""
    return "It is being deleted: what it has counts as used until it has ended." if pod.deleting else ""


def why_no_more(pod: Pod | None) -> str:
    """Say of a pod that is there why it neither waits nor runs, without its name; empty where nothing says so."""
    if pod is None or (pod.node_name and not pod.terminal):
        return ""
    if pod.terminal:
        return f"has ended ({pod.phase}): it neither waits nor runs"
    return "is being deleted and is bound to no node: it waits no more" if pod.deleting else ""


def record_of(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what was written down when a pod was decided; empty where nothing was."""
    try:
        found = json.loads(annotations.get(DECISION, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _describe_record(record: Mapping[str, Any]) -> list[str]:
    """Word what was written down when a pod was decided."""
    if not record:
        return ["vgpu-scheduler wrote down no decision: somebody else bound it"]
    nodes = record.get("nodes", "?")
    among = counted(nodes, "node") if isinstance(nodes, int) else f"{nodes} nodes"
    lines = [f"decided among {among}, score {record.get('score', '?')}"]
    policy = record.get("policy")
    for section, source in sorted(policy.items()) if isinstance(policy, Mapping) else ():
        lines.append(f"{section} by {source}")
    return lines

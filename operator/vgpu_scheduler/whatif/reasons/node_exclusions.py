"""What keeps a pod from a node whatever is free there: that it is cordoned, its taints, and selectors of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from vgpu_scheduler.kube import (
    UNSCHEDULABLE_TAINT,
    LabelSelector,
    Object,
    Operator,
    Pod,
    Requirement,
    Taint,
    untolerated,
)
from vgpu_scheduler.model import NodeVerdict
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.objects.expressions import describe_expression
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "Obstacle",
    "ObstacleKind",
    "describe_managed_nodes",
    "describe_taints",
    "obstacles_of",
    "repelling_taints",
    "tolerating",
    "tolerating_all",
]


_OF_TAINTS: Final = frozenset({filters.UNSCHEDULABLE.text, filters.TAINT.text})
_OF_LABELS: Final = frozenset({filters.AFFINITY.text, filters.NOT_NAMED.text, filters.AFFINITY_CONFLICT.text})


class ObstacleKind(StrEnum):
    """What keeps a pod from a node, in words that the subject follows."""

    CORDON = "is cordoned"
    TAINTS = "has the taint"
    LABELS = "does not match its node selector or affinity"
    REASON = "says"


class Obstacle(NamedTuple):
    """One thing that keeps a pod from a node, and which one of its kind."""

    kind: ObstacleKind
    subject: str = ""

    def __str__(self) -> str:
        """Word it as a clause about the node."""
        return f"{self.kind} {self.subject}".strip()


def repelling_taints(world: World, pod: Pod, node: str) -> tuple[Taint, ...]:
    """Return the taints of a node that keep a pod from it."""
    known = world.engine.state.node(node)
    return () if known is None else untolerated(known.taints, pod.spec.tolerations)


def tolerating(written: Object, taints: Iterable[Taint]) -> Object:
    """Return a pod that tolerates some taints as well."""
    return _with_tolerations(
        written, [{"key": t.key, "operator": "Equal", "value": t.value, "effect": t.effect} for t in taints]
    )


def tolerating_all(written: Object) -> Object:
    """Return a pod that tolerates all taints."""
    return _with_tolerations(written, [{"operator": "Exists"}])


def _with_tolerations(written: Object, more: Sequence[Object]) -> Object:
    spec = written.get("spec") or {}
    return {**written, "spec": {**spec, "tolerations": [*(spec.get("tolerations") or ()), *more]}}


def describe_taints(taints: Iterable[Taint]) -> str:
    """Word taints as kubectl has them."""
    return ", ".join(f"{taint.key}{taint.value and f'={taint.value}'}:{taint.effect}" for taint in taints)


def obstacles_of(world: World, pod: Pod, node: str, verdict: NodeVerdict) -> Sequence[Obstacle]:
    """Return what keeps a pod from a node by the first reason of that node."""
    if not _OF_TAINTS.isdisjoint(verdict.reasons):
        repelling = repelling_taints(world, pod, node)
        taints = [taint for taint in repelling if taint.key != UNSCHEDULABLE_TAINT.key]
        cordoned = len(taints) < len(repelling) or filters.UNSCHEDULABLE.text in verdict.reasons
        return [
            *([Obstacle(ObstacleKind.CORDON)] if cordoned else []),
            *([Obstacle(ObstacleKind.TAINTS, describe_taints(taints))] if taints else []),
        ]
    if not _OF_LABELS.isdisjoint(verdict.reasons):
        return [Obstacle(ObstacleKind.LABELS)]
    return [Obstacle(ObstacleKind.REASON, reason) for reason in verdict.reasons]


def describe_managed_nodes(world: World, pod: Pod) -> str:
    """Say which nodes are managed, in a sentence; empty where all are."""
    managed = world.engine.policies.resolve(pod).managed
    return "" if managed is None else f"This scheduler manages nodes with {_worded(managed)} (setting managed_nodes)."


def _worded(selector: LabelSelector) -> str:
    return ",".join(_expressions(selector.requirements))


def _expressions(requirements: Iterable[Requirement]) -> Iterator[str]:
    equal = {Operator.IN: "=", Operator.NOT_IN: "!="}
    for each in requirements:
        if each.operator in equal and len(each.values) == 1:
            yield f"{each.key}{equal[each.operator]}{min(each.values)}"
        else:
            yield describe_expression({"key": each.key, "operator": each.operator.value, "values": sorted(each.values)})

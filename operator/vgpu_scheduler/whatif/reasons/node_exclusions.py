"""Obstacles that keep a pod from a node whatever is free there: cordons, taints and label selectors."""

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

_OF_TAINTS: Final = frozenset({filters.UNSCHEDULABLE, filters.TAINT})
_OF_LABELS: Final = frozenset({filters.AFFINITY, filters.NOT_NAMED, filters.AFFINITY_CONFLICT})


class ObstacleType(StrEnum):
    """The kind of an obstacle, in words that its subject follows."""

    CORDON = "is cordoned"
    TAINTS = "has the taint"
    LABELS = "does not match its node selector or affinity"
    REASON = "says"


class Obstacle(NamedTuple):
    """One obstacle between a pod and a node, such as a certain taint."""

    type: ObstacleType
    subject: str = ""

    def __str__(self) -> str:
        """Format the obstacle as a clause about the node."""
        return f"{self.type} {self.subject}".strip()


def repelling_taints(world: World, pod: Pod, node: str) -> tuple[Taint, ...]:
    """Return the taints of a node that keep a pod from it."""
    known = world.engine.state.node(node)
    return () if known is None else untolerated(known.taints, pod.spec.tolerations)


def tolerating(written: Object, taints: Iterable[Taint]) -> Object:
    """Return a pod that also tolerates these taints."""
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
    """Format taints as kubectl does."""
    return ", ".join(f"{taint.key}{taint.value and f'={taint.value}'}:{taint.effect}" for taint in taints)


def obstacles_of(world: World, pod: Pod, node: str, verdict: NodeVerdict) -> Sequence[Obstacle]:
    """Return the obstacles behind the first reason that a node gives for a pod."""
    if not _OF_TAINTS.isdisjoint(verdict.reasons):
        repelling = repelling_taints(world, pod, node)
        taints = [taint for taint in repelling if taint.key != UNSCHEDULABLE_TAINT.key]
        cordoned = len(taints) < len(repelling) or filters.UNSCHEDULABLE in verdict.reasons
        return [
            *([Obstacle(ObstacleType.CORDON)] if cordoned else []),
            *([Obstacle(ObstacleType.TAINTS, describe_taints(taints))] if taints else []),
        ]
    if not _OF_LABELS.isdisjoint(verdict.reasons):
        return [Obstacle(ObstacleType.LABELS)]
    return [Obstacle(ObstacleType.REASON, reason.text) for reason in verdict.reasons]


def describe_managed_nodes(world: World, pod: Pod) -> str:
    """Describe the managed nodes in a sentence; empty if all nodes are."""
    managed = world.engine.policies.resolve(pod).managed
    return (
        ""
        if managed is None
        else f"This scheduler manages nodes with {_format_selector(managed)} (setting managed_nodes)."
    )


def _format_selector(selector: LabelSelector) -> str:
    return ",".join(_expressions(selector.requirements))


def _expressions(requirements: Iterable[Requirement]) -> Iterator[str]:
    equal = {Operator.IN: "=", Operator.NOT_IN: "!="}
    for each in requirements:
        if each.operator in equal and len(each.values) == 1:
            yield f"{each.key}{equal[each.operator]}{min(each.values)}"
        else:
            yield describe_expression({"key": each.key, "operator": each.operator.value, "values": sorted(each.values)})

"""Remedy for a pod that would fit on nodes not managed by this scheduler: have one of them managed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from vgpu_scheduler.kube import Object, Operator, Requirement
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.advice.uncordoning import helping
from vgpu_scheduler.whatif.world.nodes import nodes_for

_MOST_TRIED: Final = 64
"""The most nodes that are tried, those with cards of the pod's dialect first."""
_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
"""Domains of labels that describe a node, and must not be set for another purpose."""
_FREE_VALUE: Final = "true"


def manage_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Try to have one node at a time managed."""
    yield from helping(waiting, islice(unmanaged_nodes(waiting), waiting.most_nodes or _MOST_TRIED))


def unmanaged_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield, for each node that ``managed_nodes`` excludes, the labels to manage it, without checking that it helps."""
    world = waiting.world
    managed = world.engine.policies.resolve(waiting.pod).managed
    if managed is None or any(_is_of_kubernetes(each.key) for each in managed.requirements):
        return
    for name in nodes_for(world, waiting.ours):
        node = world.nodes[name]
        labels = node["metadata"].get("labels") or {}
        if unlike := [each for each in managed.requirements if not each.matches(labels.get(each.key))]:
            changes = {each.key: _value(each) for each in unlike}
            written = " ".join(f"{key}-" if value is None else f"{key}={value}" for key, value in changes.items())
            text = (
                f"have node {name} managed by this scheduler (setting managed_nodes), if no other scheduler "
                f"does: kubectl label --overwrite node {name} {written}"
            )
            yield Remedy(RemedyType.MANAGE_NODE, do(text), "", objects=(_labelled(node, labels, changes),))


def _is_of_kubernetes(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in _OF_KUBERNETES)


def _value(requirement: Requirement) -> str | None:
    """Return the label value that a requirement asks for; None if the label must be removed."""
    match requirement.operator:
        case Operator.IN:
            return min(requirement.values)
        case Operator.EXISTS:
            return _FREE_VALUE
    return None


def _labelled(node: Object, labels: Mapping[str, str], changes: Mapping[str, str | None]) -> Object:
    others = {key: value for key, value in labels.items() if key not in changes}
    given = {key: value for key, value in changes.items() if value is not None}
    return {**node, "metadata": {**node["metadata"], "labels": others | given}}

"""The pod labels on which its claims depend."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.world.simulation import PodResult
from vgpu_scheduler.whatif.world.world import World


def labels_of_claims(world: World, pod: Pod) -> list[str]:
    """Return the names of the labels on which a pod's claims depend."""
    return [name for dialect in world.engine.dialects.owners(pod) for name in dialect.claims.pod_labels]


def describe_labels(world: World, answer: PodResult) -> Iterator[str]:
    """Say which labels of a pod must match those of nodes, with their values, if card modes keep it waiting."""
    if CardReason.ModeNotFit in answer.decision.reasons:
        for name in labels_of_claims(world, answer.pod):
            given = answer.pod.labels.get(name)
            has = f"Its label {name} is {given}" if given is not None else f"It has no label {name}"
            yield f"{has}: a pod that asks for a part of a card gets cards of nodes with the same value."

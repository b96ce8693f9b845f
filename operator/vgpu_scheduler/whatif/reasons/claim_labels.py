"""The labels of a pod that its claims depend on: which they are, and which it has."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.world.simulation import PodResult
from vgpu_scheduler.whatif.world.world import World

__all__ = ["describe_labels", "labels_of_claims"]


def labels_of_claims(world: World, pod: Pod) -> list[str]:
    """Return the names of the labels that the claims of a pod depend on."""
    return [name for dialect in world.engine.dialects.owners(pod) for name in dialect.claims.pod_labels]


def describe_labels(world: World, answer: PodResult) -> Iterator[str]:
    """Say which labels of a pod have to be those of nodes, and what they are, where modes of cards keep it waiting."""
    if CardReason.ModeNotFit.text in answer.decision.reasons:
        for name in labels_of_claims(world, answer.pod):
            given = answer.pod.labels.get(name)
            has = f"Its label {name} is {given}" if given is not None else f"It has no label {name}"
            yield f"{has}: a pod that asks for a part of a card gets those of nodes that say the same."

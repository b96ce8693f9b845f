"""The labels of a pod that its claims depend on: which it has, and which the labels of nodes would have it have."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind
from vgpu_scheduler.whatif.simulation import PodResult
from vgpu_scheduler.whatif.world import World

__all__ = ["describe_labels", "labelled_otherwise", "labels_to_change"]


def labelled_otherwise(world: World, pod: Pod, written: Object) -> Iterator[Remedy]:
    """Yield that a pod leaves out a label, or has one as nodes have it, whether that helps or not.

    Parameters
    ----------
    written
        The pod, as it would be written.
    """
    for name in labels_of_claims(world, pod):
        given = _labels(written).get(name)
        if given is not None:
            yield Remedy(RemedyKind.DROP_CONSTRAINT, _leave_out(name, given), "", _with_label(written, name, None))
        values = {_labels(node).get(name) for node in world.nodes.values()} - {None, given}
        for value in sorted(map(str, values)):
            instead = "" if given is None else f" instead of {given}"
            text = f"give the pod the label {name}: {value}{instead}, as nodes have it"
            yield Remedy(RemedyKind.ASK_OTHERWISE, text, "", _with_label(written, name, value))


def labels_of_claims(world: World, pod: Pod) -> list[str]:
    """Return the names of the labels that the claims of a pod depend on."""
    return [name for dialect in world.engine.dialects.owners(pod) for name in dialect.claims.pod_labels]


def labels_to_change(world: World, pod: Pod, message: str) -> Iterator[str]:
    """Yield what is to be done about labels of a pod, by what its condition says, where its nodes are not seen."""
    if CardReason.ModeNotFit.text in message:
        for name in labels_of_claims(world, pod):
            given = pod.labels.get(name)
            yield f"give the pod the label {name} as nodes have it" if given is None else _leave_out(name, given)


def describe_labels(world: World, answer: PodResult) -> Iterator[str]:
    """Say which labels of a pod have to be those of nodes, and what they are, where modes of cards keep it waiting."""
    if CardReason.ModeNotFit.text in answer.decision.reasons:
        for name in labels_of_claims(world, answer.pod):
            given = answer.pod.labels.get(name)
            has = f"Its label {name} is {given}" if given is not None else f"It has no label {name}"
            yield f"{has}: a pod that asks for a part of a card gets those of nodes that say the same."


def _leave_out(name: str, given: str) -> str:
    return f"leave out its label {name} ({given})"


def _labels(obj: Object) -> Object:
    return (obj.get("metadata") or {}).get("labels") or {}


def _with_label(written: Object, name: str, value: str | None) -> Object:
    others = {key: text for key, text in _labels(written).items() if key != name}
    labels = others if value is None else {**others, name: value}
    return {**written, "metadata": {**(written.get("metadata") or {}), "labels": labels}}

"""Remedy: change the labels of a pod on which its claims depend to those of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.advice.remedy import Remedy, RemedyType, do
from vgpu_scheduler.whatif.reasons.claim_labels import labels_of_claims
from vgpu_scheduler.whatif.world.world import World


def labelled_otherwise(world: World, pod: Pod, written: Object) -> Iterator[Remedy]:
    """Yield the pod without such a label, and with each value that nodes have, without checking that it helps.

    Parameters
    ----------
    written
        The pod as written, or a version of it.
    """
    for name in labels_of_claims(world, pod):
        given = _labels(written).get(name)
        if given is not None:
            yield Remedy(RemedyType.DROP_CONSTRAINT, do(_leave_out(name, given)), "", _with_label(written, name, None))
        values = {_labels(node).get(name) for node in world.nodes.values()} - {None, given}
        for value in sorted(map(str, values)):
            instead = "" if given is None else f" instead of {given}"
            text = f"give the pod the label {name}: {value}{instead}, as nodes have it"
            yield Remedy(RemedyType.ASK_OTHERWISE, do(text), "", _with_label(written, name, value))


def labels_to_change(world: World, pod: Pod, message: str) -> Iterator[str]:
    """Yield what to do about such labels, according to the pod's condition, without seeing nodes."""
    if CardReason.ModeNotFit.text in message:
        for name in labels_of_claims(world, pod):
            given = pod.labels.get(name)
            yield f"give the pod the label {name} as nodes have it" if given is None else _leave_out(name, given)


def _leave_out(name: str, given: str) -> str:
    return f"leave out its label {name} ({given})"


def _labels(obj: Object) -> Object:
    return (obj.get("metadata") or {}).get("labels") or {}


def _with_label(written: Object, name: str, value: str | None) -> Object:
    others = {key: text for key, text in _labels(written).items() if key != name}
    labels = others if value is None else {**others, name: value}
    return {**written, "metadata": {**(written.get("metadata") or {}), "labels": labels}}

"""Which models and modes of cards there are, where nothing but these keeps a pod from cards.

HAMi has one reason for both, ``CardTypeMismatch``, where an annotation of the pod names a mode. Which of the two it is
shows where the pod is asked about without these annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from vgpu_scheduler.engine import card_verdicts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, Device
from vgpu_scheduler.whatif.nodes import with_annotation
from vgpu_scheduler.whatif.simulation import Answer, created
from vgpu_scheduler.whatif.world import World

__all__ = ["MODEL_WORD", "MODE_WORD", "mismatch_worded"]

MODEL_WORD, MODE_WORD = "type", "mode"
"""What the names of the annotations have in them that are about models and modes."""
_MISMATCHES: Final = frozenset({CardReason.CardTypeMismatch.text, CardReason.ModeNotFit.text})
_CARD_REASONS: Final = frozenset(reason.text for reason in CardReason)


def mismatch_worded(world: World, answer: Answer) -> str:
    """Say which models and modes there are; empty where something else keeps the pod from cards, too."""
    told = _CARD_REASONS.intersection(answer.decision.reasons)
    if not told or not told <= _MISMATCHES:
        return ""
    nodes = [node for node, verdict in answer.decision.verdicts.items() if not told.isdisjoint(verdict.reasons)]
    of_mode, of_model = (_some_match(world, answer.pod, word, nodes) for word in (MODE_WORD, MODEL_WORD))
    if of_mode == of_model:
        what = "has a model and a mode that it takes"
    elif of_model:
        what = "is of a model that it takes"
    else:
        what = f"{'of its models ' if _about(world, answer.pod, MODEL_WORD) else ''}has a mode that it takes"
    counts = Counter(_worded(device, with_mode=of_mode or not of_model) for device in _devices(world, answer, nodes))
    return f"No card {what}; there are {', '.join(f'{card} ({count})' for card, count in sorted(counts.items()))}."


def _devices(world: World, answer: Answer, nodes: Collection[str]) -> Iterator[Device]:
    for dialect in world.engine.dialects.owners(answer.pod):
        for node in nodes:
            yield from world.devices(node, dialect.name)


def _worded(device: Device, *, with_mode: bool) -> str:
    return f"{device.type} in mode {device.mode}" if with_mode and device.mode else device.type


def _about(world: World, pod: Pod, word: str) -> list[str]:
    return [name for name in world.engine.dialects.pod_annotations if word in name and name in pod.annotations]


def _some_match(world: World, pod: Pod, word: str, nodes: Collection[str]) -> bool:
    """Tell whether some card has the right model and mode for a pod without its annotations of one kind."""
    written = world.written(pod)
    names = _about(world, pod, word)
    for name in names:
        written = with_annotation(written, name, "")
    if not names:
        return False
    ours = created(world, world.pod(written, again=True), pod.uid)
    verdicts = (verdict for node in nodes for verdict in card_verdicts(world.engine.cycle, ours, node))
    return any(verdict.reason is None or verdict.reason.text not in _MISMATCHES for verdict in verdicts)

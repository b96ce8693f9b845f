"""Try other values of the annotations that decide beside which pods a pod may run: classes and qualities of service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.world.nodes import with_annotation

_OF_OTHERS: Final = frozenset({CardReason.CardAppClassMismatch, CardReason.CardQosPolicyMismatch})


def annotated_as_others(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield other values of one annotation at a time, if pods on the cards have another value than the pod."""
    if _OF_OTHERS.isdisjoint(waiting.algorithm.decide(waiting.ours).reasons):
        return
    annotations = annotations_in(waiting.written)
    for dialect in waiting.world.engine.dialects.owners(waiting.ours):
        for name, words in dialect.claims.annotation_words.items():
            given = annotations.get(name)
            for word in words:
                written = with_annotation(waiting.written, name, word)
                if word != given and (node := waiting.node(written)):
                    instead = "" if given is None else f" instead of {given}"
                    text = f"write {word} as its annotation {name}{instead}"
                    yield Remedy(RemedyType.ASK_OTHERWISE, do(text), node, written)

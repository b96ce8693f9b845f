"""Other words of the annotations that say beside which pods a pod may be: classes and qualities of service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyKind, do
from vgpu_scheduler.whatif.world.nodes import with_annotation

__all__ = ["annotated_as_others"]

_OF_OTHERS: Final = frozenset({CardReason.CardAppClassMismatch.text, CardReason.CardQosPolicyMismatch.text})


def annotated_as_others(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield that a pod says another word, one annotation at a time, where those on the cards say others."""
    if _OF_OTHERS.isdisjoint(waiting.algorithm.decide(waiting.ours).reasons):
        return
    annotations = (waiting.written.get("metadata") or {}).get("annotations") or {}
    for dialect in waiting.world.engine.dialects.owners(waiting.ours):
        for name, words in dialect.claims.annotation_words.items():
            given = annotations.get(name)
            for word in words:
                written = with_annotation(waiting.written, name, word)
                if word != given and (node := waiting.node(written)):
                    instead = "" if given is None else f" instead of {given}"
                    text = f"write {word} as its annotation {name}{instead}"
                    yield Remedy(RemedyKind.ASK_OTHERWISE, do(text), node, written)

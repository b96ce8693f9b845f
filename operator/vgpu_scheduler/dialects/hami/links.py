"""Pair scores: link scores between the cards of a node, measured by the device plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.dialects.hami.fields import Fields, decode_list


@dataclass(frozen=True, slots=True)
class PairScores:
    """Link scores of one card to other cards, by UUID; higher is closer."""

    uuid: str = ""
    score: Mapping[str, int] = field(default_factory=dict)


def decode_pair_scores(value: str) -> list[PairScores]:
    """Decode the annotation ``hami.io/node-nvidia-score``: a list of ``{"uuid": ..., "score": {uuid: integer}}``.

    Raises
    ------
    CodecError
        If any part of it is malformed.
    """
    return [_pair_scores(fields) for fields in decode_list(value, "pair scores", "card")]


def _pair_scores(fields: Fields) -> PairScores:
    return PairScores(fields.text("uuid"), fields.integers("score"))

"""Join the texts of actions so that it is clear which are needed together and which are alternatives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Final

_CLAUSES: Final = re.compile(r", or |, which |[:;] ")
_ASIDE: Final = re.compile(r"\([^()]*\)")


def join_needed(texts: Sequence[str]) -> str:
    """Join the texts of actions that are all needed.

    A text with alternatives or an explanation is set off by semicolons: "A and B, or C" would be read as if C alone
    were enough, and "A: why and B" as if B were part of the explanation.
    """
    set_off = [_CLAUSES.search(_without_asides(text)) is not None for text in texts]
    joints = ["; and " if before or after else " and " for before, after in pairwise(set_off)]
    return "".join(chain.from_iterable(zip(texts, [*joints, ""], strict=False)))


def _without_asides(text: str) -> str:
    """Return a text without what it says in parentheses."""
    while (shorter := _ASIDE.sub("", text)) != text:
        text = shorter
    return text

"""What annotations say that have a closed set of values, and what they count as where they say anything else."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.kube import QuantityError, to_int
from vgpu_scheduler.model import QUOTED, CardReason, cut, quoted


def number_of(text: str | None) -> int | None:
    """Return an amount as a whole number; None where it is none, which the claims say."""
    try:
        return None if text is None else to_int(text)
    except QuantityError:
        return None


def no_card(count: str, others: Sequence[str]) -> str:
    """Say that a container gets no card, because it asks for none, whatever else it names."""
    return f"{count} is 0, so it gets no card, whatever else it asks ({', '.join(others)})"


def no_boolean(annotation: str, value: str) -> str:
    """Say that a value is no boolean."""
    return f"annotation {annotation}: {quoted(value)} is no boolean, and counts as false: write true or false"


def no_such_word(annotation: str, value: str, words: Sequence[str]) -> str:
    """Say that a value is none of those that are known."""
    return f"annotation {annotation}: {quoted(value)} is none of {', '.join(words)}, and is followed as none of them"


def no_such_mode(annotation: str, value: str, modes: Sequence[str]) -> ClaimError:
    """Return the error of an annotation that names no mode of sharing that there is."""
    return ClaimError(
        f"{CardReason.ModeNotFit.name}: annotation {annotation}: {quoted(value)} names no mode: write {_either(modes)}"
    )


def odd_modes(annotation: str, value: str, modes: Sequence[str]) -> str:
    """Say which words of a list of modes are none; empty if all are, or if none stands between two commas.

    No mode at all is met by the cards that are registered without one.

    A mode counts wherever it occurs in the text, as HAMi looks for it.

    Raises
    ------
    ClaimError
        If no mode occurs in it.
    """
    if not value.strip():
        return f"annotation {annotation} is empty, and fits cards without a mode only: leave it out for any card"
    found = [mode for mode in modes if mode in value]
    if not found:
        raise no_such_mode(annotation, value, modes)
    unknown = [word for word in map(str.strip, value.split(",")) if word and word not in modes]
    if not unknown:
        return ""
    words = cut(str(unknown), QUOTED)
    return f"annotation {annotation}: {quoted(value)} has unknown words {words}, and counts as {','.join(found)}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"

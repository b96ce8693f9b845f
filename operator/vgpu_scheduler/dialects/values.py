"""What containers and annotations say, as every dialect reads it: amounts, and values of a closed set."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.fixes import AmountFix, AnnotationFix, AskForCard, UsageWarning
from vgpu_scheduler.kube import Container, QuantityError, is_zero, parse_quantity, to_exact_int, to_int
from vgpu_scheduler.model import MIB, QUOTED, WHOLE, CardReason, cut, quoted

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can say and no text can be written with."""
INT32 = 2**31 - 1
"""The most that plugins can count."""


def amount_text(container: Container, resource: str) -> str | None:
    """Look a resource up in the limits, then in the requests."""
    value = container.limits.get(resource)
    return container.requests.get(resource) if value is None else value


def is_asked(container: Container, resource: str) -> bool:
    """Tell whether a container asks for any of a resource, however malformed; zero is none, however it is written."""
    text = (amount_text(container, resource) or "").strip()
    try:
        return bool(text) and not is_zero(text)
    except QuantityError:
        return True


def whole_amount(container: Container, resource: str) -> int | None:
    """Return how much of a resource a container asks for, or None if it does not name it.

    Raises
    ------
    ClaimError
        If it is no whole number of 0 or more; the message names the container, the resource and the fix.
    """
    text = amount_text(container, resource)
    if text is None:
        return None
    where = _said(container, resource)
    try:
        amount = to_exact_int(text)
    except QuantityError as error:
        raise ClaimError(f"{where} is not a quantity: {error}") from None
    if amount is None:
        if parse_quantity(text) % 1:
            fix = AmountFix(container.name, resource, text, None)
            raise ClaimError(f"{where} is not a whole number: write an integer", fix)
        raise ClaimError(f"{where} is more than anything has")
    if amount < 0:
        raise ClaimError(f"{where} is negative: write an integer of 0 or more")
    return amount


def bounded_amount(container: Container, resource: str) -> int | None:
    """Return a whole amount that is no more than plugins can count.

    Raises
    ------
    ClaimError
        If it is malformed, or more.
    """
    amount = whole_amount(container, resource)
    if amount is not None and amount > INT32:
        raise ClaimError(f"{_said(container, resource)} is more than any node has: write a smaller number")
    return amount


def memory_amount(container: Container, resource: str, mebibytes: int, most: int = INT32) -> int | None:
    """Return how much memory of a card a container asks for, in the unit of the resource.

    Parameters
    ----------
    mebibytes
        How many MiB its unit is.
    most
        The most that any card has, in that unit.

    Raises
    ------
    ClaimError
        If it is malformed, or more; what was meant is said where it was meant in bytes.
    """
    memory = whole_amount(container, resource)
    if memory is not None and memory > most:
        unit = "MiB" if mebibytes == 1 else f"{mebibytes} MiB"
        raise beyond_any_card(container, resource, unit, memory // (MIB * mebibytes))
    return memory


def beyond_any_card(container: Container, resource: str, unit: str, meant: int) -> ClaimError:
    """Return the error of an amount of memory that no card has.

    Parameters
    ----------
    unit
        What the resource is counted in.
    meant
        How much it would be if it was meant in bytes; 0 where that is nothing.
    """
    instead = f"in bytes it would be {meant}" if meant else "write a smaller number"
    message = f"{_said(container, resource)} is more than any card has, because the unit is {unit}: {instead}"
    return ClaimError(message, _rewritten(container, resource, meant) if meant else None)


def percentage(container: Container, resource: str, least: int) -> int | None:
    """Return how many percent of a card a container asks for.

    Raises
    ------
    ClaimError
        If it is malformed, less than the least, or more than 100.
    """
    amount = whole_amount(container, resource)
    if amount is not None and not least <= amount <= WHOLE:
        message = f"{_said(container, resource)} is no percentage of a card: write a number from {least} to {WHOLE}"
        raise ClaimError(message, _rewritten(container, resource, least if amount < least else WHOLE))
    return amount


def without_count(container: Container, what: str, count: str, *, in_limits: bool = False) -> ClaimError:
    """Return the error of a container that does not say how many cards it asks for.

    Parameters
    ----------
    what
        What is the matter.
    count
        The resource that is missing.
    in_limits
        Whether it must be among the limits.
    """
    message = f'container "{container.name}": {what} add {count}: 1{" to the limits" if in_limits else ""}'
    return ClaimError(message, AmountFix(container.name, count, "", 1))


def _rewritten(container: Container, resource: str, meant: int) -> AmountFix:
    return AmountFix(container.name, resource, amount_text(container, resource) or "", meant)


def _said(container: Container, resource: str) -> str:
    return f'container "{container.name}": {resource}: {amount_text(container, resource)}'


def number_of(text: str | None) -> int | None:
    """Return an amount as a whole number; None where it is none, which the claims say."""
    try:
        return None if text is None else to_int(text)
    except QuantityError:
        return None


def to_be_removed(annotation: str, why: str, *, instead: str = "remove it") -> ClaimError:
    """Return the error of an annotation that is to be removed.

    Parameters
    ----------
    instead
        How that is said.
    """
    return ClaimError(f"annotation {annotation}{why}: {instead}", AnnotationFix(annotation))


def no_card(container: Container, count: str, others: Sequence[str]) -> UsageWarning:
    """Say that a container gets no card, because it asks for none, whatever else it names."""
    listed = ", ".join(others)
    return UsageWarning(
        f"{count} is 0, so it gets no card, whatever else it asks ({listed})",
        f"{count} is 0 beside {listed}: write how many cards, or leave out the {'others' if others[1:] else 'other'}",
        AskForCard(container.name, count, tuple(others)),
    )


def no_boolean(annotation: str, value: str) -> UsageWarning:
    """Say that a value is no boolean."""
    what, instead = f"annotation {annotation}: {quoted(value)} is no boolean", "write true or false"
    return UsageWarning(f"{what}, and counts as false: {instead}", f"{what}: {instead}", AnnotationFix(annotation))


def no_such_word(annotation: str, value: str, words: Sequence[str]) -> UsageWarning:
    """Say that a value is none of those that are known."""
    what = f"annotation {annotation}: {quoted(value)} is none of {', '.join(words)}"
    fix = AnnotationFix(annotation)
    return UsageWarning(f"{what}, and is followed as none of them", f"{what}: write one of them", fix)


def no_such_mode(annotation: str, value: str, modes: Sequence[str]) -> ClaimError:
    """Return the error of an annotation that names no mode of sharing that there is."""
    return ClaimError(
        f"{CardReason.ModeNotFit.name}: annotation {annotation}: {quoted(value)} names no mode: write {_either(modes)}"
    )


def odd_modes(annotation: str, value: str, modes: Sequence[str]) -> UsageWarning | None:
    """Say which words of a list of modes are none; None if all are, or if none stands between two commas.

    No mode at all is met by the cards that are registered without one.

    A mode counts wherever it occurs in the text, as HAMi looks for it.

    Raises
    ------
    ClaimError
        If no mode occurs in it.
    """
    if not value.strip():
        what, instead = f"annotation {annotation} is empty", "leave it out for any card"
        text = f"{what}, and fits cards without a mode only: {instead}"
        return UsageWarning(text, f"{what}: {instead}", AnnotationFix(annotation))
    found = [mode for mode in modes if mode in value]
    if not found:
        raise no_such_mode(annotation, value, modes)
    unknown = [word for word in map(str.strip, value.split(",")) if word and word not in modes]
    if not unknown:
        return None
    words, known = cut(str(unknown), QUOTED), ",".join(found)
    what = f"annotation {annotation}: {quoted(value)} has unknown words {words}"
    return UsageWarning(f"{what}, and counts as {known}", f"{what}: write {known}", AnnotationFix(annotation, known))


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def go_json(value: object) -> str:
    """Encode JSON as Go does: without blanks, and with escapes for what means something in HTML."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

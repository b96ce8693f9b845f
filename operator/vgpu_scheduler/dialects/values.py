"""Reading of amounts and annotation values, as all dialects need it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.fixes import AmountFix, AnnotationFix, AskForCard, RequestWarning
from vgpu_scheduler.kube import Container, QuantityError, is_zero, parse_quantity, to_exact_int, to_int
from vgpu_scheduler.model import MIB, QUOTED, WHOLE, CardReason, closest, cut, quoted

SURROGATE = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which JSON can contain but which cannot be encoded."""
INT32 = 2**31 - 1
"""The largest number that device plugins can handle."""


def amount_text(container: Container, resource: str) -> str | None:
    """Return a resource from the limits, else from the requests."""
    value = container.limits.get(resource)
    return container.requests.get(resource) if value is None else value


def is_asked(container: Container, resource: str) -> bool:
    """Tell whether a container requests a non-zero amount of a resource; a malformed amount counts too."""
    text = (amount_text(container, resource) or "").strip()
    try:
        return bool(text) and not is_zero(text)
    except QuantityError:
        return True


def whole_amount(container: Container, resource: str) -> int | None:
    """Return the amount of a resource that a container requests, or None if it does not name it.

    Raises
    ------
    ClaimError
        If it is not a whole number of 0 or more; the message names the container, the resource and the fix.
    """
    text = amount_text(container, resource)
    if text is None:
        return None
    where = _request_text(container, resource)
    try:
        amount = to_exact_int(text)
    except QuantityError as error:
        raise ClaimError(f"{where} is not a quantity: {error}") from None
    if amount is None:
        if parse_quantity(text) % 1:
            fix = AmountFix(container.name, resource, text, None)
            raise ClaimError(f"{where} is not a whole number: write an integer", fix)
        raise _beyond_any_node(where)
    if amount < 0:
        raise ClaimError(f"{where} is negative: write an integer of 0 or more")
    return amount


def bounded_amount(container: Container, resource: str) -> int | None:
    """Return a whole amount that plugins can handle.

    Raises
    ------
    ClaimError
        If it is malformed or too large.
    """
    amount = whole_amount(container, resource)
    if amount is not None and amount > INT32:
        raise _beyond_any_node(_request_text(container, resource))
    return amount


def _beyond_any_node(where: str) -> ClaimError:
    return ClaimError(f"{where} is more than any node has: write a smaller number")


def memory_amount(container: Container, resource: str, mebibytes: int, most: int = INT32) -> int | None:
    """Return the memory of a card that a container requests, in the unit of the resource.

    Parameters
    ----------
    mebibytes
        The MiB per unit.
    most
        The largest memory of any card, in that unit.

    Raises
    ------
    ClaimError
        If it is malformed or too large; the message suggests the amount if it was meant in bytes.
    """
    memory = whole_amount(container, resource)
    if memory is not None and memory > most:
        unit = "MiB" if mebibytes == 1 else f"{mebibytes} MiB"
        raise beyond_any_card(container, resource, unit, memory // (MIB * mebibytes))
    return memory


def beyond_any_card(container: Container, resource: str, unit: str, meant: int) -> ClaimError:
    """Return the error for an amount of memory that no card has.

    Parameters
    ----------
    unit
        The unit of the resource.
    meant
        The amount if it was meant in bytes; 0 if that is less than one unit.
    """
    instead = f"in bytes it would be {meant}" if meant else "write a smaller number"
    message = f"{_request_text(container, resource)} is more than any card has, because the unit is {unit}: {instead}"
    return ClaimError(message, _rewritten(container, resource, meant) if meant else None)


def percentage(container: Container, resource: str, least: int) -> int | None:
    """Return the percentage of a card that a container requests.

    Raises
    ------
    ClaimError
        If it is malformed, less than ``least``, or more than 100.
    """
    amount = whole_amount(container, resource)
    if amount is not None and not least <= amount <= WHOLE:
        message = (
            f"{_request_text(container, resource)} is not a percentage of a card: write a number from {least} "
            f"to {WHOLE}"
        )
        raise ClaimError(message, _rewritten(container, resource, least if amount < least else WHOLE))
    return amount


def without_count(container: Container, what: str, count: str, *, in_limits: bool = False) -> ClaimError:
    """Return the error for a container that does not name a number of cards.

    Parameters
    ----------
    what
        The problem.
    count
        The missing resource.
    in_limits
        Whether it must be in the limits.
    """
    message = f'container "{container.name}": {what} add {count}: 1{" to the limits" if in_limits else ""}'
    return ClaimError(message, AmountFix(container.name, count, "", 1))


def _rewritten(container: Container, resource: str, meant: int) -> AmountFix:
    return AmountFix(container.name, resource, amount_text(container, resource) or "", meant)


def _request_text(container: Container, resource: str) -> str:
    return f'container "{container.name}": {resource}: {amount_text(container, resource)}'


def number_of(text: str | None) -> int | None:
    """Return an amount as a whole number; None if it is not a quantity, which reading the claims reports."""
    try:
        return None if text is None else to_int(text)
    except QuantityError:
        return None


def to_be_removed(annotation: str, why: str, *, instead: str = "remove it") -> ClaimError:
    """Return the error for an annotation that should be removed.

    Parameters
    ----------
    instead
        The phrase for the fix.
    """
    return ClaimError(f"annotation {annotation}{why}: {instead}", AnnotationFix(annotation))


def no_card(container: Container, count: str, others: Sequence[str]) -> RequestWarning:
    """Return a warning for a container that names other resources but requests 0 cards."""
    listed = ", ".join(others)
    return RequestWarning(
        f"{count} is 0, so it gets no card, whatever else it asks ({listed})",
        f"{count} is 0 beside {listed}: write how many cards, or leave out the {'others' if others[1:] else 'other'}",
        AskForCard(container.name, count, tuple(others)),
    )


def no_boolean(annotation: str, value: str) -> RequestWarning:
    """Return a warning for a value that is not a boolean."""
    what, instead = f"annotation {annotation}: {quoted(value)} is not a boolean", "write true or false"
    return RequestWarning(f"{what}, and counts as false: {instead}", f"{what}: {instead}", AnnotationFix(annotation))


def no_such_word(annotation: str, value: str, words: Sequence[str]) -> RequestWarning:
    """Return a warning for an unknown value."""
    what = f"annotation {annotation}: {quoted(value)} is not one of {', '.join(words)}"
    fix = AnnotationFix(annotation)
    return RequestWarning(f"{what}, and is ignored", f"{what}: write one of them", fix)


def no_such_mode(annotation: str, value: str, modes: Sequence[str], *, several: bool = False) -> ClaimError:
    """Return the error for an annotation that names no known sharing mode, with a suggestion as fix.

    Parameters
    ----------
    several
        Whether it may be a comma-separated list.
    """
    words = value.split(",") if several else [value]
    meant = filter(None, (closest(word, modes) for word in map(str.strip, words)))
    named = ",".join(dict.fromkeys(meant))
    return ClaimError(
        f"{CardReason.ModeNotFit.name}: annotation {annotation}: {quoted(value)} names no mode: write {_either(modes)}",
        AnnotationFix(annotation, named) if named else None,
    )


def suspicious_modes(annotation: str, value: str, modes: Sequence[str]) -> RequestWarning | None:
    """Return a warning for an empty list of modes or for unknown words in it; None if there are none.

    An empty list matches only cards that are registered without a mode.

    As in HAMi, a mode counts wherever it occurs in the text.

    Raises
    ------
    ClaimError
        If no mode occurs in it.
    """
    if not value.strip():
        what, instead = f"annotation {annotation} is empty", "leave it out for any card"
        text = f"{what}, and fits cards without a mode only: {instead}"
        return RequestWarning(text, f"{what}: {instead}", AnnotationFix(annotation))
    found = [mode for mode in modes if mode in value]
    if not found:
        raise no_such_mode(annotation, value, modes, several=True)
    unknown = [word for word in map(str.strip, value.split(",")) if word and word not in modes]
    if not unknown:
        return None
    words, known = cut(", ".join(map(repr, unknown)), QUOTED), ",".join(found)
    what = f"annotation {annotation}: {quoted(value)} has unknown words {words}"
    return RequestWarning(f"{what}, and counts as {known}", f"{what}: write {known}", AnnotationFix(annotation, known))


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def go_json(value: object) -> str:
    """Encode JSON as Go does: without blanks, and with escapes for HTML characters."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

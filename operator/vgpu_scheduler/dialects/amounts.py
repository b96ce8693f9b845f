"""Amounts that containers ask for, as every dialect reads them."""

from __future__ import annotations

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.kube import Container, QuantityError, is_zero, parse_quantity, to_exact_int

INT32 = 2**31 - 1
"""The most that plugins can count."""


def amount_text(container: Container, resource: str) -> str | None:
    """Look a resource up in the limits, then in the requests (D3-22)."""
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
    where = f'container "{container.name}": {resource}: {text}'
    try:
        amount = to_exact_int(text)
    except QuantityError as error:
        raise ClaimError(f"{where} is not a quantity: {error}") from None
    if amount is None:
        wrong = "is not a whole number: write an integer" if parse_quantity(text) % 1 else "is more than anything has"
        raise ClaimError(f"{where} {wrong}")
    if amount < 0:
        raise ClaimError(f"{where} is negative: write an integer of 0 or more")
    return amount


def bounded_amount(container: Container, resource: str, most: int = INT32) -> int | None:
    """Return a whole amount that is no more than anything has: by default, than plugins can count.

    Raises
    ------
    ClaimError
        If it is malformed, or more.
    """
    amount = whole_amount(container, resource)
    if amount is not None and amount > most:
        text = amount_text(container, resource)
        raise ClaimError(f'container "{container.name}": {resource}: {text} is too much: write {most} or less')
    return amount

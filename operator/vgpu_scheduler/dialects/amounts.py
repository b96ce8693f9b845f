"""Amounts that containers ask for, as every dialect reads them."""

from __future__ import annotations

from vgpu_scheduler.dialects.base import ClaimError
from vgpu_scheduler.kube import Container, QuantityError, to_exact_int


def amount_text(container: Container, resource: str) -> str | None:
    """Look a resource up in the limits, then in the requests (D3-22)."""
    value = container.limits.get(resource)
    return container.requests.get(resource) if value is None else value


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
        raise ClaimError(f"{where} is not a whole number: write an integer")
    if amount < 0:
        raise ClaimError(f"{where} is negative: write an integer of 0 or more")
    return amount

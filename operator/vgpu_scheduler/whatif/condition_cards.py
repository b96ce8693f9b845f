"""What a pod may ask otherwise of cards, by its condition and the nearest card that its event tells of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import MIB, Amounts, NearMiss, PodClaims, Shortage
from vgpu_scheduler.whatif.amounts import Amount
from vgpu_scheduler.whatif.condition_nodes import is_of
from vgpu_scheduler.whatif.condition_quotas import QuotasOfPod
from vgpu_scheduler.whatif.needs import Need, PodRequest, claims_of

__all__ = ["fewer_cards", "less_of_a_card"]

_BYTES: Final = "bytes"
_WAIT: Final = "the nearest card has none left: wait until other pods end, or ask for a node more"


def less_of_a_card(asked: PodRequest, near: NearMiss, quotas: QuotasOfPod) -> Iterator[str]:
    """Yield the largest amounts of which the nearest card has enough, of all that it lacks together."""
    if any(not shortage.free for shortage in near.shortages):
        yield from quotas.beside([_WAIT])
        return
    needs = [need for shortage in near.shortages for need in _needs_of_card(asked, shortage)]
    met = bool(needs and asked.claims and all(need.fits(asked.claims) for need in needs))
    told = () if met else tuple(quotas.met_with(needs))
    yield from told
    if not told and not met:
        yield from quotas.raised_beside([" and ".join(map(_less, near.shortages))])


def _less(shortage: Shortage) -> str:
    dimension, free, wanted = shortage.dimension, shortage.free, shortage.asked
    return f"ask for less {dimension}: the nearest card has {free} of the {wanted} {shortage.unit} asked"


def _needs_of_card(asked: PodRequest, shortage: Shortage) -> Iterator[Need]:
    """Yield a need for each container: to ask no more of a dimension than the nearest card has."""
    for dialect in asked.owners:
        numbers = [n for n, about in enumerate(dialect.inventory.dimensions) if about.name == shortage.dimension]
        for each in asked.claims if numbers else ():

            def concerns(
                amount: Amount, name: str = each.name, dialect: Dialect = dialect, n: int = numbers[0]
            ) -> bool:
                return amount.container == name and is_of(amount, dialect, n)

            if any(map(concerns, asked.amounts)):
                yield Need(_fits_card(asked, each.name, numbers[0], shortage, dialect), concerns, _less(shortage))


def _fits_card(
    asked: PodRequest, container: str, dimension: int, shortage: Shortage, dialect: Dialect
) -> Callable[[PodClaims], bool]:
    """Return what tells whether the nearest card has enough of a dimension for a container."""
    in_bytes = dialect.inventory.dimensions[dimension].unit == _BYTES
    free = shortage.free * (MIB if in_bytes else 1)
    percent = max((_of(claim.percent, dimension) for claim in claims_of(container, asked.claims)), default=0)
    # Of a card of which 90 percent are what was asked, so many percent are what is free.
    most_percent = (
        percent * shortage.free // max(shortage.asked, 1)
        if in_bytes
        else percent * (shortage.free + 1) // (shortage.asked + 1)
    )

    def fits(claims: PodClaims) -> bool:
        return all(
            needed <= free
            if (needed := _of(claim.amounts, dimension))
            else _of(claim.percent, dimension) <= most_percent
            for claim in claims_of(container, claims)
        )

    return fits


def _of(amounts: Amounts, dimension: int) -> int:
    return amounts[dimension] if dimension < len(amounts) else 0


def fewer_cards(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[str]:
    """Yield how one card is asked for where several are: how many fit together is not told."""
    for amount in asked.amounts:
        now = max((claim.count for claim in claims_of(amount.container, asked.claims)), default=0)

        def asks_for_one(claims: PodClaims, amount: Amount = amount) -> bool:
            return {claim.count for claim in claims_of(amount.container, claims)} == {1}

        most = asked.most(amount, asks_for_one) if now > 1 else None
        if most is not None:
            text = f"{amount.worded(most)} (more may fit)"
            kept = quotas.kept_by(asked.claims_if(amount.applied(asked.written, most)))
            yield from [text] if kept else quotas.raised_beside([text])

"""The room that the nearest card has for a pod's containers, computed from the pod's event and its requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import (
    WHOLE,
    Amounts,
    Claim,
    ContainerType,
    PodClaims,
    Shortage,
    percent_needed,
    shown_unit_size,
    vendors_of,
)

_NO_UNITS: Final[Mapping[str, int]] = {}


class CardRoom:
    """The free amount of a dimension on the nearest card, and the most that claims may take of it.

    The amount of a percentage depends on the size of the card, which the event does not tell. From the amounts that
    the event reports as asked follows an upper bound of that size, and likewise of the compute that a hidden policy
    gives to containers that ask for none.

    Parameters
    ----------
    claims
        The claims of the pod.
    dimension
        The index of the dimension in its dialect.
    shortages
        The reported shortages of it: for one container, for all that run together, or both.

    Attributes
    ----------
    given
        The compute that a container gets without asking for any; 0 for none.
    given_exactly
        Whether that amount is exact; otherwise it is an upper bound.
    """

    def __init__(self, claims: PodClaims, dialect: Dialect, dimension: int, shortages: Sequence[Shortage]) -> None:
        about = dialect.inventory.dimensions[dimension]
        unit = shown_unit_size(about.unit)
        self._dimension = dimension
        is_compute = dimension == dialect.inventory.cores
        self._least = int(is_compute)
        self._units = dialect.inventory.compute_units if is_compute else _NO_UNITS
        self._free = min(each.free for each in shortages) * unit
        self._total = self.given = 0
        alone = next((each.asked for each in shortages if not each.together), None)
        joint = next((each.asked for each in shortages if each.together), alone) or 0
        claims = self._of_card(claims, unit, alone, joint)
        self._total = self._largest(claims, unit, alone, joint)
        self.given, self.given_exactly = self._given(claims, alone, joint) if is_compute else (0, False)

    def has_room_for(self, claims: Iterable[Claim]) -> bool:
        """Tell whether each of some claims has room by itself."""
        return all(self._most_of(claim) <= self._free for claim in claims if claim.vendor in self._vendors)

    def has_room(self, claims: PodClaims) -> bool:
        """Tell whether all containers that run at the same time have room together on this card.

        A container that asks for no compute needs some left.
        """
        running: dict[str, int] = {}
        for container in claims:
            for claim in (each for each in container.claims if each.vendor in self._vendors):
                before, most = running.get(claim.vendor, 0), self._most_of(claim)
                if before + max(most, self._least) > self._free:
                    return False
                if container.type is not ContainerType.INIT:
                    running[claim.vendor] = before + most
        return True

    def _of_card(self, claims: PodClaims, unit: int, alone: int | None, joint: int) -> PodClaims:
        """Return the claims for the card's vendor, found as the one whose claims match the reported amounts.

        Return all claims if no single vendor's match.
        """
        at_once: dict[str, int] = {}
        asking: set[str] = set()
        for container in claims:
            for claim in container.claims:
                amount = self._amount(claim)
                asking |= {claim.vendor} if amount and -(-amount // unit) == alone else set()
                most = at_once.get(claim.vendor, 0) + amount
                asking |= {claim.vendor} if amount and alone is None and -(-most // unit) == joint else set()
                if container.type is not ContainerType.INIT:
                    at_once[claim.vendor] = most
        self._vendors = asking or vendors_of(claims)
        return tuple(
            replace(each, claims=tuple(claim for claim in each.claims if claim.vendor in self._vendors))
            for each in claims
        )

    def _amount(self, claim: Claim) -> int:
        """Return the amount of a claim, converted to percent if cards count compute in other units."""
        amount, units = amount_of(claim.amounts, self._dimension), self._units.get(claim.vendor, WHOLE)
        return amount if units == WHOLE else percent_needed(amount, units)

    def _most_of(self, claim: Claim) -> int:
        percent = amount_of(claim.percent, self._dimension)
        return self._amount(claim) or (percent * self._total // WHOLE if percent else self.given)

    def _largest(self, claims: PodClaims, unit: int, alone: int | None, joint: int) -> int:
        """Return an upper bound of the card's size, derived from claims in percent; 0 without such claims."""
        known = [(each.type, claim) for each in claims for claim in each.claims]
        percents = [(kind, percent) for kind, claim in known if (percent := self._percent(claim))]
        if not percents:
            return 0
        hardest = max(percent for _, percent in percents)
        one = (self._free if alone is None else (alone + 1) * unit - 1) + 1  # exclusive bound of one claim
        bounds = [(one * WHOLE - 1) // hardest]
        running = [percent for kind, percent in percents if kind is not ContainerType.INIT]
        if running:
            rest = sum(self._amount(claim) for kind, claim in known if kind is not ContainerType.INIT)
            all_of_them = (joint + 1) * unit - rest + len(running)  # upper bound, since each amount is rounded down
            bounds.append((max(all_of_them, 1) * WHOLE - 1) // sum(running))
        return min(bounds)

    def _percent(self, claim: Claim) -> int:
        return 0 if self._amount(claim) else amount_of(claim.percent, self._dimension)

    def _given(self, claims: PodClaims, alone: int | None, joint: int) -> tuple[int, bool]:
        """Return what each container gets that asks for nothing, and whether that amount is exact."""
        running = [claim for each in claims if each.type is not ContainerType.INIT for claim in each.claims]
        if any(self._percent(claim) for claim in running):
            return 0, False
        amounts = [self._amount(claim) for claim in running if self._units.get(claim.vendor, WHOLE) == WHOLE]
        nothing = amounts.count(0)
        if not nothing or len(amounts) < len(running):
            return 0, False
        rest = max(joint - sum(amounts), 0)
        most = rest // nothing if alone is None else min(rest // nothing, alone)
        return most, most * nothing == rest


def amount_of(amounts: Amounts, dimension: int) -> int:
    """Return the amount of a dimension; 0 if the amounts do not include it."""
    return amounts[dimension] if dimension < len(amounts) else 0

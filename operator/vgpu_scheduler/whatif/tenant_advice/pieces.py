"""Cards that are given out in pieces, as far as they are known without seeing any card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vgpu_scheduler.model import WHOLE, Claim, ContainerClaims, PodClaims
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest, claims_of
from vgpu_scheduler.whatif.world.world import World

_MODE: Final = "/vgpu-mode"
_PIECES: Final = "mig"
LEAST_COMPUTE: Final = WHOLE // 7
"""The least compute of a piece in percent of its card, which has seven slices at most."""


def takes_pieces_alone(asked: PodRequest) -> bool:
    """Tell whether a pod accepts only cards that are given out in pieces."""
    modes = _modes(asked)
    return (
        bool(modes) and all(mode == _PIECES for mode in modes) and bool(smallest_pieces_of(asked.world, asked.claims))
    )


def may_take_pieces(asked: PodRequest) -> bool:
    """Tell whether a pod leaves open if it accepts cards that are given out in pieces."""
    return not _modes(asked)


def _modes(asked: PodRequest) -> list[str]:
    annotations = annotations_in(asked.written)
    return [str(text).strip() for name, text in annotations.items() if name.endswith(_MODE)]


def is_more_than_a_piece(asked: PodRequest, amount: Amount) -> bool:
    """Tell whether a container asks for more memory than the smallest piece has, so that less may be a smaller piece.

    Return True if the sizes of pieces are unknown.
    """
    for each in claims_of(amount.container, asked.claims):
        for dialect in asked.owners:
            smallest = dialect.inventory.smallest_pieces.get(each.vendor)
            if smallest is not None and 0 < each.amounts[dialect.inventory.memory] <= smallest:
                return False
    return True


def least_of(asked: PodRequest, counted: Callable[[PodClaims], object]) -> PodClaims:
    """Return the claims with the least of what is counted that a pod can ask for, which may be rounded up to a part.

    An unspecified amount stays unspecified if it counts as nothing.
    """
    least = asked.written
    for amount in asked.amounts:
        less = amount.applied(least, next(iter(asked.valid_steps(amount, least, amount.steps)), 1))
        then = asked.claims_if(less)
        if then and counted(then) != counted(asked.claims_if(least)):
            least = less
    return asked.claims_if(least)


def smallest_pieces_of(world: World, claims: PodClaims) -> PodClaims:
    """Return claims with the memory of the smallest possible pieces; empty if their sizes are unknown."""
    found = tuple(_smallest_of(world, each) for each in claims)
    return () if any(each is None for each in found) else tuple(each for each in found if each is not None)


def has_pieces(world: World, claims: PodClaims) -> bool:
    """Tell whether a card that is claimed may be one that is given out in pieces."""
    return any(
        claim.vendor in world.engine.dialects[each.dialect].inventory.smallest_pieces
        for each in claims
        for claim in each.claims
    )


def _smallest_of(world: World, container: ContainerClaims) -> ContainerClaims | None:
    if not container.claims:
        return container
    inventory = world.engine.dialects[container.dialect].inventory
    if any(claim.vendor not in inventory.smallest_pieces for claim in container.claims):
        return None

    def smallest(claim: Claim) -> Claim:
        memory = inventory.memory
        size = inventory.smallest_pieces[claim.vendor]
        return replace(claim, amounts=(*claim.amounts[:memory], size, *claim.amounts[memory + 1 :]))

    return replace(container, claims=tuple(map(smallest, container.claims)))

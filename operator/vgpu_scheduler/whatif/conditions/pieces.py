"""What is known of the pieces that cards are given out in, to somebody who sees no card."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vgpu_scheduler.model import Claim, ContainerClaims, PodClaims
from vgpu_scheduler.whatif.conditions.needs import PodRequest, claims_of
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.world.world import World

__all__ = ["is_more_than_a_piece", "smallest_pieces_of", "takes_pieces_alone"]

_MODE: Final = "/vgpu-mode"
_PIECES: Final = "mig"


def takes_pieces_alone(asked: PodRequest) -> bool:
    """Tell whether a pod takes cards alone that are given out in pieces."""
    annotations = (asked.written.get("metadata") or {}).get("annotations") or {}
    modes = [str(text).strip() for name, text in annotations.items() if name.endswith(_MODE)]
    return (
        bool(modes) and all(mode == _PIECES for mode in modes) and bool(smallest_pieces_of(asked.world, asked.claims))
    )


def is_more_than_a_piece(asked: PodRequest, amount: Amount) -> bool:
    """Tell whether a container asks for more memory of a card than the smallest piece has: less may be a smaller one.

    True where the sizes of pieces are not known.
    """
    for each in claims_of(amount.container, asked.claims):
        for dialect in asked.owners:
            smallest = dialect.inventory.smallest_pieces.get(each.vendor)
            if smallest is not None and 0 < each.amounts[dialect.inventory.memory] <= smallest:
                return False
    return True


def smallest_pieces_of(world: World, claims: PodClaims) -> PodClaims:
    """Return claims with the smallest piece of each card that there is; none where the sizes are not known."""
    found = tuple(_smallest_of(world, each) for each in claims)
    return () if any(each is None for each in found) else tuple(each for each in found if each is not None)


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

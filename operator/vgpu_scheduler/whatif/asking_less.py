"""The largest amounts of which a pod that waits may ask so that it fits, and what it may leave out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.whatif.amounts import Amount
from vgpu_scheduler.whatif.leaving_out import leave_out
from vgpu_scheduler.whatif.limits import gets_around_limits
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.searching import largest_that_fits

__all__ = ["ask_less", "largest_amount", "valid_steps"]

Object = Mapping[str, Any]

_MOST_LOOKED_AT: Final = 10_000
"""Amounts of one resource of which it is found out for each whether it may be asked."""


def ask_less(waiting: WaitingPod) -> Iterator[Remedy]:
    """Search, of each amount that a container asks, the largest that fits while all others stay; else leave it out."""
    helped: set[str] = set()
    for amount in waiting.amounts():
        found = largest_amount(waiting, amount)
        if found:
            steps, node = found
            helped |= {part.resource for part in amount.parts}
            yield Remedy(RemedyKind.ASK_LESS, amount.worded(steps), node, amount.applied(waiting.written, steps))
    yield from leave_out(waiting, helped)


def largest_amount(waiting: WaitingPod, amount: Amount, other: Object | None = None) -> tuple[int, str] | None:
    """Return the most steps of an amount with which the pod fits while all others stay, and where; None if none do.

    Parameters
    ----------
    other
        The pod with other changes; as it is unless given.
    """
    base = waiting.written if other is None else other
    asking = waiting.rewritten(base)

    def node_with(steps: int) -> str:
        written = amount.applied(base, steps)
        return "" if gets_around_limits(asking, written) else waiting.node(written)

    return largest_that_fits(node_with, valid_steps(waiting, amount, base))


def valid_steps(waiting: WaitingPod, amount: Amount, other: Object | None = None) -> Sequence[int]:
    """Return the steps below those of an amount with which the pod asks for what is understood, in rising order.

    Amounts of memory, and those of no device, may be any; so may amounts that are too large to look at each.

    Parameters
    ----------
    other
        The pod with other changes; as it is unless given.
    """
    base = waiting.written if other is None else other
    below, dialects = range(1, amount.steps), waiting.world.engine.dialects
    names = {part.resource for part in amount.parts}
    dialect = next((each for each in dialects.owners(waiting.ours) if names <= each.claims.resources), None)
    if dialect is None or len(below) > _MOST_LOOKED_AT:
        return below
    abouts = [dialect.inventory.device_resources.get(name) for name in names]
    if all(about is not None and about.dimension == dialect.inventory.memory for about in abouts):
        return below
    return [steps for steps in below if waiting.is_claim(dialect, amount.applied(base, steps))]

"""The largest amounts of which a pod that waits may ask so that it fits, and what it may leave out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.whatif.amounts import Amount
from vgpu_scheduler.whatif.leaving_out import leave_out
from vgpu_scheduler.whatif.limits import gets_around_limits
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.searching import largest_that_fits

__all__ = ["ask_less", "ask_less_of_several", "largest_amount", "valid_steps"]

Object = Mapping[str, Any]

_PARTS: Final = 1024
"""Into so many parts amounts are divided that are made smaller together."""
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


def ask_less_of_several(waiting: WaitingPod) -> Iterator[Remedy]:
    """Search the largest amounts with which the pod fits together, where less of no single one would do.

    All are made smaller by the same part first; then each is raised as far as the others let it be.
    """
    single = [each for each in waiting.amounts() if len(each.parts) == 1]  # others say the same of several at once
    choices = [(each, steps) for each in single if (steps := valid_steps(waiting, each))]

    def written_with(chosen: Sequence[int | None]) -> Object:
        written = waiting.written
        for (amount, _), steps in zip(choices, chosen, strict=True):
            written = written if steps is None else amount.applied(written, steps)
        return written

    def node_with(chosen: Sequence[int | None]) -> str:
        written = written_with(chosen)
        return "" if gets_around_limits(waiting, written) else waiting.node(written)

    def part_of_all(part: int) -> list[int | None]:
        return [steps[max(bisect_right(steps, amount.steps * part // _PARTS), 1) - 1] for amount, steps in choices]

    found = largest_that_fits(lambda part: node_with(part_of_all(part)), range(_PARTS)) if len(choices) > 1 else None
    if found is None:
        return
    chosen = part_of_all(found[0])
    for number, (_, steps) in enumerate(choices):
        before, after = chosen[:number], chosen[number + 1 :]
        if node_with([*before, None, *after]):
            chosen[number] = None
        elif most := largest_that_fits(lambda some: node_with([*before, some, *after]), steps):  # noqa: B023
            chosen[number] = most[0]
    texts = [amount.worded(steps) for (amount, _), steps in zip(choices, chosen, strict=True) if steps is not None]
    if texts and (node := node_with(chosen)):
        yield Remedy(RemedyKind.ASK_LESS, " and ".join(texts), node, written_with(chosen))


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

"""The largest amounts of which a pod that waits may ask so that it fits, and what it may leave out.

Where cards are cut in few sizes, that may be more than it asks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.advice.leaving_out import leave_out
from vgpu_scheduler.whatif.advice.limits import gets_around_limits
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyKind, ask_for
from vgpu_scheduler.whatif.advice.searching import PARTS, largest_that_fits, some_of
from vgpu_scheduler.whatif.objects.amounts import Amount

__all__ = ["ask_less", "ask_less_of_several", "largest_amount", "valid_steps"]

_Chosen = Sequence[int | None]

_MOST_LOOKED_AT: Final = 10_000
"""Amounts of one resource of which it is found out for each whether it may be asked."""


def ask_less(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Search, of each amount that a container asks, the largest that fits while all others stay; else leave it out."""
    helped: set[str] = set()
    for amount in waiting.amounts():
        found = largest_amount(waiting, amount)
        if found:
            steps, node = found
            helped |= {part.resource for part in amount.parts}
            yield Remedy(RemedyKind.ASK_LESS, (ask_for(amount, steps),), node, amount.applied(waiting.written, steps))
        else:
            yield from islice(_ask_for_larger_pieces(waiting, amount), 1)
    yield from leave_out(waiting, helped)


def _ask_for_larger_pieces(waiting: HypotheticalPod, amount: Amount) -> Iterator[Remedy]:
    """Ask, of cards that are cut in few sizes, as many slices as a larger piece is; the smallest that fits first."""
    for dialect in waiting.world.engine.dialects.owners(waiting.ours):
        about = dialect.inventory.device_resources.get(amount.parts[0].resource)
        if about is None or about.dimension:
            continue
        listed = waiting.world.listed_devices(dialects=(dialect,))
        pieces = {piece.amounts[0] for _, _, each in listed if each.vendor == about.vendor for piece in each.pieces}
        for slices in sorted(size for size in pieces if size > amount.steps):
            written = amount.applied(waiting.written, slices)
            if node := waiting.node(written):
                yield Remedy(RemedyKind.ASK_OTHERWISE, (ask_for(amount, slices),), node, written)


def ask_less_of_several(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Search the largest amounts with which the pod fits together, where less of no single one would do.

    Those that have to be smaller are made so by the same part first; then each is raised as far as the others let it.
    """
    several = _Several(waiting)
    chosen = several.amounts_to_reduce()
    if found := largest_that_fits(lambda part: several.node(several.of_part(chosen, part)), range(PARTS)):
        chosen = several.of_part(chosen, found[0])
    for number, steps in enumerate(chosen):
        if steps is not None:
            before, after = chosen[:number], chosen[number + 1 :]
            most = largest_that_fits(lambda some: several.node([*before, some, *after]), several.steps[number])  # noqa: B023
            chosen[number] = most[0] if most else steps
    known = zip(several.amounts, chosen, strict=True)
    actions = tuple(ask_for(each, steps) for each, steps in known if steps is not None)
    if actions and (node := several.node(chosen)):
        yield Remedy(RemedyKind.ASK_LESS, actions, node, several.written(chosen))


class _Several:
    """Amounts of a pod that may be smaller together, and the steps of each with which it asks for what is understood.

    What is chosen of each is a number of steps, or None where it stays.
    """

    def __init__(self, waiting: HypotheticalPod) -> None:
        self._waiting = waiting
        single = [each for each in waiting.amounts() if len(each.parts) == 1]  # others say the same of several at once
        listed = [(each, steps) for each in single if (steps := valid_steps(waiting, each))]
        self.amounts = [amount for amount, _ in listed]
        self.steps = [steps for _, steps in listed]

    def written(self, chosen: _Chosen) -> Object:
        """Return the pod as it would be written."""
        written = self._waiting.written
        for amount, steps in zip(self.amounts, chosen, strict=True):
            written = written if steps is None else amount.applied(written, steps)
        return written

    def node(self, chosen: _Chosen) -> str:
        """Return where it would go; empty where it fits nowhere."""
        written = self.written(chosen)
        return "" if gets_around_limits(self._waiting, written) else self._waiting.node(written)

    def amounts_to_reduce(self) -> list[int | None]:
        """Return the least of the amounts that have to be smaller, so that none of them could stay beside the others.

        What is not said stays if it may, then what is little. All stay where even the least of all does not fit.
        """
        chosen: list[int | None] = [steps[0] for steps in self.steps]
        if len(chosen) < 2 or not self.node(chosen):
            return [None] * len(chosen)
        for number in sorted(range(len(chosen)), key=lambda n: (not self.amounts[n].unsaid, self.amounts[n].steps)):
            staying = [*chosen[:number], None, *chosen[number + 1 :]]
            if self.node(staying):
                chosen = staying
        return chosen

    def of_part(self, chosen: _Chosen, part: int) -> list[int | None]:
        """Return the same part of each of the amounts that are to be smaller."""
        return [
            None if now is None else steps[max(bisect_right(steps, amount.steps * part // PARTS), 1) - 1]
            for amount, steps, now in zip(self.amounts, self.steps, chosen, strict=True)
        ]


def largest_amount(waiting: HypotheticalPod, amount: Amount, other: Object | None = None) -> tuple[int, str] | None:
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


def valid_steps(waiting: HypotheticalPod, amount: Amount, other: Object | None = None) -> Sequence[int]:
    """Return the steps below those of an amount with which the pod is understood and let in, in rising order.

    Amounts of memory, and those of no device, are understood whatever they are; so may be amounts that are too large to
    look at each. Where a few that are looked at are let in, the others may be, too.

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
    of_memory = all(about is not None and about.dimension == dialect.inventory.memory for about in abouts)
    understood: Sequence[int] = below
    if not of_memory:
        understood = [steps for steps in below if waiting.is_claim(dialect, amount.applied(base, steps))]

    def is_let_in(steps: int, *, excused: bool) -> bool:
        return waiting.is_let_in(amount.applied(base, steps), excused=excused)

    # Where some amounts mend what the pod would be refused for, no other one is told.
    excused = not any(is_let_in(steps, excused=False) for steps in some_of(understood))
    if all(is_let_in(steps, excused=excused) for steps in some_of(understood)):
        return understood
    return [steps for steps in understood if is_let_in(steps, excused=excused)]

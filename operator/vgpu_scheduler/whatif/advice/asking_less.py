"""Find the largest amounts with which a waiting pod fits, and the resources that it may leave out.

Where cards are divided into few sizes of pieces, or given out in certain numbers only, a fitting amount may also be
larger than the present one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.advice.leaving_out import leave_out
from vgpu_scheduler.whatif.advice.limits import gets_around_limits
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, ask_for
from vgpu_scheduler.whatif.advice.searching import PARTS, largest_that_fits, some_of
from vgpu_scheduler.whatif.objects.amounts import Amount

_Chosen = Sequence[int | None]

_MOST_LOOKED_AT: Final = 10_000
"""The most amounts of one resource that are checked one by one for being admitted."""


def ask_less(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find the largest fitting value of each amount with all others unchanged, and the smallest larger number of cards.

    Also leave out resources of which less does not help.
    """
    helped: set[str] = set()
    for amount in waiting.amounts():
        found = largest_amount(waiting, amount)
        if found:
            steps, node = found
            helped |= {part.resource for part in amount.parts}
            yield Remedy(RemedyType.ASK_LESS, (ask_for(amount, steps),), node, amount.applied(waiting.written, steps))
        yield from islice(_ask_for_more(waiting, amount), 1)
    yield from leave_out(waiting, helped)


def _ask_for_more(waiting: HypotheticalPod, amount: Amount) -> Iterator[Remedy]:
    """Propose larger numbers that fit: cards may be divided into few sizes, or given out in certain numbers only."""
    for dialect in waiting.world.engine.dialects.owners(waiting.ours):
        about = dialect.inventory.device_resources.get(amount.parts[0].resource)
        if about is None or about.dimension:
            continue
        listed = waiting.world.listed_devices(dialects=(dialect,))
        on_node, sizes = Counter[str](), set[int]()
        for node, _, each in listed:
            if each.vendor == about.vendor:
                on_node[node] += each.total[0] if each.pieces else 1
                sizes.update(piece.amounts[0] for piece in each.pieces)
        if about.vendor not in dialect.inventory.in_sums:  # there, more cards would have less of the amounts each
            sizes.update(range(amount.steps + 1, max(on_node.values(), default=0) + 1))
        for size in sorted(size for size in sizes if size > amount.steps):
            written = amount.applied(waiting.written, size)
            if waiting.is_let_in(written) and (node := waiting.node(written)):
                yield Remedy(RemedyType.ASK_OTHERWISE, (ask_for(amount, size),), node, written)


def ask_less_of_several(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find the largest amounts with which the pod fits, if reducing a single amount is not enough.

    The amounts that have to be smaller are first reduced by the same fraction; then each is raised as far as possible.
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
        yield Remedy(RemedyType.ASK_LESS, actions, node, several.written(chosen))


class _Several:
    """The amounts of a pod that may be reduced together, with the valid steps of each.

    A choice has a number of steps for each amount, or None to keep it.
    """

    def __init__(self, waiting: HypotheticalPod) -> None:
        self._waiting = waiting
        single = [each for each in waiting.amounts() if len(each.parts) == 1]  # the others only combine these
        least = _least_of_each(waiting, single)
        listed = [(each, steps) for each in single if (steps := valid_steps(waiting, each, least))]
        self.amounts = [amount for amount, _ in listed]
        self.steps = [steps for _, steps in listed]

    def written(self, chosen: _Chosen) -> Object:
        """Return the pod with the chosen amounts."""
        written = self._waiting.written
        for amount, steps in zip(self.amounts, chosen, strict=True):
            written = written if steps is None else amount.applied(written, steps)
        return written

    def node(self, chosen: _Chosen) -> str:
        """Return the node of the pod with the chosen amounts; empty if it fits nowhere."""
        written = self.written(chosen)
        return "" if gets_around_limits(self._waiting, written) else self._waiting.node(written)

    def amounts_to_reduce(self) -> list[int | None]:
        """Return the smallest values of a minimal set of amounts that have to be reduced; None for the others.

        Unspecified amounts are kept first if possible, then small ones. If the pod does not fit even with the smallest
        value of every amount, all are kept.
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
        """Reduce the chosen amounts to the same fraction of their present values."""
        return [
            None if now is None else steps[max(bisect_right(steps, _most(amount, steps) * part // PARTS), 1) - 1]
            for amount, steps, now in zip(self.amounts, self.steps, chosen, strict=True)
        ]


def _least_of_each(waiting: HypotheticalPod, amounts: Sequence[Amount]) -> Object:
    """Return a pod with the smallest value of each amount with which it is admitted.

    The valid amounts per card depend on the number of cards, and a single card may need a smaller amount than several
    do. So the numbers of cards are reduced first, even if the pod would not be admitted with them alone.
    """
    counts = [each for each in amounts if _is_count(waiting, each)]
    others = [each for each in amounts if each not in counts]
    few = waiting.written
    for amount in counts:
        few = amount.applied(few, 1)
    together = _with_least(waiting, others, few)
    return together if waiting.is_let_in(together) else _with_least(waiting, [*counts, *others], waiting.written)


def _with_least(waiting: HypotheticalPod, amounts: Sequence[Amount], written: Object) -> Object:
    """Return a pod with the smallest valid value of each amount, applied one after the other."""
    for amount in amounts:
        if steps := valid_steps(waiting, amount, written):
            written = amount.applied(written, steps[0])
    return written


def _is_count(waiting: HypotheticalPod, amount: Amount) -> bool:
    """Tell whether an amount is a container's number of cards."""
    (part,) = amount.parts
    abouts = (each.inventory.device_resources.get(part.resource) for each in waiting.world.engine.dialects)
    return any(about is not None and about.dimension == SLOTS for about in abouts)


def _most(amount: Amount, steps: Sequence[int]) -> int:
    """Return the present steps of an amount; the largest possible ones if it is unspecified."""
    return steps[-1] if amount.unsaid else amount.steps


def largest_amount(waiting: HypotheticalPod, amount: Amount, other: Object | None = None) -> tuple[int, str] | None:
    """Return the most steps of an amount with which the pod fits, and its node; None if it never fits.

    Parameters
    ----------
    other
        The pod with other changes; the pod as it is by default.
    """
    base = waiting.written if other is None else other
    asking = waiting.rewritten(base)

    def node_with(steps: int) -> str:
        written = amount.applied(base, steps)
        return "" if gets_around_limits(asking, written) else waiting.node(written)

    return largest_that_fits(node_with, valid_steps(waiting, amount, base))


def valid_steps(waiting: HypotheticalPod, amount: Amount, other: Object | None = None) -> Sequence[int]:
    """Return the smaller steps of an amount with which the pod is understood and admitted, in ascending order.

    Amounts of memory and of other resources than devices are always understood; long ranges are not checked. If a
    sample of steps is admitted, all are taken to be.

    Parameters
    ----------
    other
        The pod with other changes; the pod as it is by default.
    """
    base = waiting.written if other is None else other
    below, dialects = range(1, amount.steps), waiting.world.engine.dialects
    names = {part.resource for part in amount.parts}
    dialect = next((each for each in dialects.owners(waiting.ours) if names <= each.claims.resources), None)
    if dialect is not None and amount.unsaid:
        below = range(1, min(amount.steps, _most_of_cards(waiting, dialect, amount, base) + 1))
    if dialect is None or len(below) > _MOST_LOOKED_AT:
        return below
    abouts = [dialect.inventory.device_resources.get(name) for name in names]
    of_memory = all(about is not None and about.dimension == dialect.inventory.memory for about in abouts)
    understood: Sequence[int] = below
    if not of_memory:
        understood = [steps for steps in below if waiting.is_claim(dialect, amount.applied(base, steps))]

    def is_let_in(steps: int, *, excused: bool) -> bool:
        return waiting.is_let_in(amount.applied(base, steps), excused=excused)

    # If some amounts avoid the refusal of the present pod, no others are proposed.
    excused = not any(is_let_in(steps, excused=False) for steps in some_of(understood))
    if all(is_let_in(steps, excused=excused) for steps in some_of(understood)):
        return understood
    return [steps for steps in understood if is_let_in(steps, excused=excused)]


def _most_of_cards(waiting: HypotheticalPod, dialect: Dialect, amount: Amount, base: Object) -> int:
    """Return the steps of an amount that ask for all of the largest card, or of several such cards."""
    asking = waiting.read(amount.applied(base, amount.steps))
    claims = () if asking is None else waiting.algorithm.classes.claims(asking)
    asked = [claim for each in claims if each.name == amount.container for claim in each.claims]
    about = dialect.inventory.device_resources.get(amount.parts[0].resource)
    of_each = [claim.amounts[about.dimension] for claim in asked if about is not None and claim.vendor == about.vendor]
    listed = waiting.world.listed_devices(dialects=(dialect,))
    totals = [each.total[about.dimension] for _, _, each in listed if about is not None and each.vendor == about.vendor]
    if not totals or not of_each or not of_each[0]:
        return amount.steps  # the size of cards is unknown
    return -(-amount.steps * max(totals) // of_each[0])

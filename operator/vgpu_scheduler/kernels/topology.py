"""The best-linked candidates on a node: HAMi's topology-aware choice, by branch and bound.

For one card, it is the card with the lowest sum of pair scores to all other candidates, so that well-linked cards stay
free. For several cards, it is the subset with the highest sum of pair scores inside it. Ties go to the first subset in
try order, as an enumeration of all subsets would find it. HAMi enumerates all subsets; here copies of one card
(placements of a MIG card) are one *group*, and branches that cannot beat the best known subset are pruned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.arrays import copy
from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import LinkScratch
from vgpu_scheduler.kernels.sentinels import NO_CARD

STEPS = 3_000_000
"""Limit of partial subsets per claim and node; when it is reached, the best subset found so far is used.

No realistic table of link scores comes near; it limits the cost of artificial ones.
"""
_BOUND = 4  # this many comparisons of a bound count as one step
_FEW = 12.0  # for fewer subsets, computing a bound is not worthwhile
_MANY = 1e18


@entry_kernel
def best_linked(
    columns: DeviceColumns, row: int, picks: NDArray[np.int64], found: int, wanted: int, work: LinkScratch
) -> bool:
    """Choose the best-linked of the candidates.

    Parameters
    ----------
    columns
        The device matrix.
    row
        The node row.
    picks
        Device numbers of the candidates in try order, copies of a device contiguous; receives the chosen ones in the
        same order.
    found, wanted
        The number of candidates and the number to choose, ``found`` > ``wanted`` >= 1.
    work
        Work space.

    Returns
    -------
    bool
        Whether the choice is known to be the best; False if ``STEPS`` ended the search.
    """
    groups = _group(picks, found, work)
    if columns.pair_first[row] < 0:
        return True  # no scores are known, so all subsets tie and the first candidates stay in place
    _look_up(columns, row, groups, work)
    if wanted == 1:
        picks[0] = work.device[_least_linked(groups, work)]
        return True
    _sort_groups(groups, work)
    _prepare(groups, wanted, work)
    value = _greedy(groups, wanted, work)
    exact = _search(groups, wanted, value, work)
    at = 0
    for place in range(groups):
        group = work.at_place[place]
        for _ in range(work.best[group]):
            picks[at] = work.device[group]
            at += 1
    return exact


@kernel
def _group(picks: NDArray[np.int64], found: int, work: LinkScratch) -> int:
    """Merge copies of a device into groups; return the number of groups."""
    groups = 0
    for i in range(found):
        if groups > 0 and work.device[groups - 1] == picks[i]:
            work.copies[groups - 1] += 1
            continue
        work.device[groups] = picks[i]
        work.copies[groups] = 1
        groups += 1
    return groups


@kernel
def _look_up(columns: DeviceColumns, row: int, groups: int, work: LinkScratch) -> None:
    """Look up the pair scores of the groups."""
    block, base = columns.pair_first[row], columns.first[row]
    cards = columns.last[row] - base
    for a in range(groups):
        work.pair[a, a] = 0
        for b in range(a + 1, groups):
            # Scores are registered in both directions and equal; only the choice of a single card reads both.
            work.pair[a, b] = columns.pairs[block + (work.device[a] - base) * cards + work.device[b] - base]
            work.pair[b, a] = columns.pairs[block + (work.device[b] - base) * cards + work.device[a] - base]


@kernel
def _least_linked(groups: int, work: LinkScratch) -> int:
    best, lowest = 0, 0
    for a in range(groups):
        total = 0
        for b in range(groups):
            total += work.copies[b] * work.pair[a, b]
        if a == 0 or total < lowest:
            best, lowest = a, total
    return best


@kernel
def _sort_groups(groups: int, work: LinkScratch) -> None:
    """Sort the groups by link score, the best first, to prune early; ``at_place`` lists them in try order."""
    for a in range(groups):
        for b in range(a):
            work.pair[a, b] = work.pair[b, a]
        work.trial[a], work.left[a] = work.device[a], work.copies[a]
        copy(work.pair[a, :groups], work.near[a])
    for a in range(groups):
        work.weight[a] = 0
        for b in range(groups):
            work.weight[a] += work.copies[b] * work.pair[a, b]
        j = a
        while j > 0 and work.weight[work.order[j - 1]] < work.weight[a]:
            work.order[j] = work.order[j - 1]
            j -= 1
        work.order[j] = a
    for a in range(groups):
        place = work.order[a]
        work.at_place[place] = a
        work.device[a], work.copies[a] = work.trial[place], work.left[place]
        for b in range(groups):
            work.pair[a, b] = work.near[place, work.order[b]]


@kernel
def _prepare(groups: int, wanted: int, work: LinkScratch) -> None:
    """Sort each group's neighbours, and count the subsets."""
    for a in range(groups):
        count = 0
        for b in range(groups):
            if b == a:
                continue
            j = count
            while j > 0 and work.pair[a, work.near[a, j - 1]] < work.pair[a, b]:
                work.near[a, j] = work.near[a, j - 1]
                j -= 1
            work.near[a, j] = b
            count += 1
    work.ways[groups, : wanted + 1] = 0.0
    work.ways[groups, 0] = 1.0
    for a in range(groups - 1, -1, -1):
        for cards in range(wanted + 1):
            total = 0.0
            for taken in range(min(work.copies[a], cards) + 1):
                total += work.ways[a + 1, cards - taken]
            work.ways[a, cards] = min(total, _MANY)


@kernel
def _greedy(groups: int, wanted: int, work: LinkScratch) -> int:
    """Build a subset greedily from each group in turn; return the highest sum."""
    highest, any_yet = 0, False
    for start in range(groups):
        work.trial[:groups] = 0
        work.trial[start] = 1
        for b in range(groups):
            work.weight[b] = work.pair[start, b]
        total = 0
        for _ in range(wanted - 1):
            added = NO_CARD
            for b in range(groups):
                if work.trial[b] < work.copies[b] and (added == NO_CARD or work.weight[b] > work.weight[added]):
                    added = b
            total += work.weight[added]
            work.trial[added] += 1
            for b in range(groups):
                work.weight[b] += work.pair[added, b]
        total += _exchange(groups, work)
        if not any_yet or total > highest:
            highest, any_yet = total, True
            copy(work.trial[:groups], work.best)
    return int(highest)


@kernel
def _exchange(groups: int, work: LinkScratch) -> int:
    """Exchange single cards of a subset while the sum rises; return the gain."""
    gained = 0
    while True:
        most, out, come = 0, NO_CARD, NO_CARD
        for a in range(groups):
            if work.trial[a] == 0:
                continue
            for b in range(groups):
                gain = work.weight[b] - work.weight[a] - work.pair[a, b]
                if work.trial[b] < work.copies[b] and b != a and gain > most:
                    most, out, come = gain, a, b
        if out == NO_CARD:
            return int(gained)
        gained += most
        work.trial[out] -= 1
        work.trial[come] += 1
        for b in range(groups):
            work.weight[b] += work.pair[come, b] - work.pair[out, b]


@kernel
def _bound(groups: int, depth: int, left: int, least: int, work: LinkScratch) -> int:
    """Return an upper bound of what ``left`` cards of the groups from ``depth`` on can add; inexact below ``least``.

    Half of each pair score is counted at each of its two cards. A taken card has at best the best-linked other cards as
    companions, and there are fewer companions with every card of its group that is taken. So each further card of a
    group adds no more than the one before, and taking the highest additions gives at least the sum of any subset.
    """
    gain = work.gain[depth]
    for a in range(depth, groups):
        others, total, at = left - 1, 0, 0
        work.last[a], work.used[a] = groups - 1, 0
        while others > 0 and at < groups - 1 and work.pair[a, work.near[a, at]] > 0:
            b = work.near[a, at]
            if b >= depth:
                taken = min(others, work.copies[b])
                total += taken * work.pair[a, b]
                others -= taken
                work.last[a], work.used[a] = at, taken
            at += 1
        if others > 0:  # the remaining companions add nothing
            work.last[a], work.used[a] = groups - 1, others
        work.beside[a], work.taken[a] = total, 0
        work.weight[a] = 2 * gain[a] + total
    twice = 0
    for more in range(left, 0, -1):
        top = NO_CARD
        for a in range(depth, groups):
            if work.taken[a] < work.copies[a] and (top == NO_CARD or work.weight[a] > work.weight[top]):
                top = a
        if twice + more * work.weight[top] < 2 * least:
            return int(twice + more * work.weight[top]) // 2
        twice += work.weight[top]
        work.taken[top] += 1
        if work.taken[top] < min(work.copies[top], left):
            before = work.beside[top]
            _take_away(groups, depth, top, work)
            work.weight[top] = 2 * gain[top] + work.beside[top] + work.taken[top] * (work.beside[top] - before)
    return int(twice) // 2


@kernel
def _take_away(groups: int, depth: int, group: int, work: LinkScratch) -> None:
    """Remove the worst companion of a group's cards."""
    at = work.last[group]
    if at < groups - 1:
        work.beside[group] -= work.pair[group, work.near[group, at]]
    work.used[group] -= 1
    if work.used[group] == 0:
        at -= 1
        while at >= 0 and (work.near[group, at] < depth or work.pair[group, work.near[group, at]] <= 0):
            at -= 1
        work.last[group] = at
        work.used[group] = work.copies[work.near[group, at]] if at >= 0 else 0


@kernel
def _may_come_first(groups: int, depth: int, left: int, work: LinkScratch) -> bool:
    """Tell whether a subset with ``left`` cards of the groups after ``depth`` may precede the best known one."""
    for place in range(groups):
        group = work.at_place[place]
        taken = work.trial[group] if group <= depth else min(work.copies[group], left)
        if taken != work.best[group]:
            return taken > work.best[group]  # type: ignore[no-any-return]
        if group > depth:
            left -= taken
    return False


@kernel
def _search(groups: int, wanted: int, best: int, work: LinkScratch) -> bool:
    """Find the first subset of the highest sum, and write it to ``work.best``, whose current sum is ``best``.

    Among equal sums, the first subset has more cards of the first group, in try order, in which they differ.
    """
    work.gain[0, :groups] = 0
    work.value[0], work.left[0] = 0, wanted
    work.trial[0] = min(work.copies[0], wanted) + 1
    depth, steps = 0, 0
    while depth >= 0:
        work.trial[depth] -= 1
        taken, left = work.trial[depth], work.left[depth]
        if taken < 0 or work.ways[depth + 1, left - taken] == 0.0:
            if taken <= 0:
                depth -= 1
            elif left - taken > 0:
                depth -= 1  # fewer cards of this group would leave more for the other groups, which have too few
            continue
        steps += 1
        if steps > STEPS:
            return False
        value = work.value[depth] + taken * work.gain[depth, depth]
        if left == taken:
            if value > best or (value == best and _may_come_first(groups, depth, 0, work)):
                best = value
                work.best[:groups] = 0
                copy(work.trial[: depth + 1], work.best)
            continue
        for b in range(depth + 1, groups):
            work.gain[depth + 1, b] = work.gain[depth, b] + taken * work.pair[depth, b]
        if work.ways[depth + 1, left - taken] > _FEW:
            steps += (left - taken) * (groups - depth) // _BOUND
            reach = value + _bound(groups, depth + 1, left - taken, best - value, work)
            if reach < best or (reach == best and not _may_come_first(groups, depth, left - taken, work)):
                continue
        depth += 1
        work.value[depth], work.left[depth] = value, left - taken
        work.trial[depth] = min(work.copies[depth], left - taken) + 1
    return True

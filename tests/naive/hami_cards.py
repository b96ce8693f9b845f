"""Cards of one node for one pod, in plain Python: score, order, checks, booking. Slow and obvious.

32-bit floats as HAMi has them: a double that is rounded after each operation gives the same results.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from tests.naive.hami_mig import Held, select, select_instance
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_quota import NO_TALLY, Tally
from tests.naive.hami_values import UNSET, Ask, Card, NodeFit, Pick, Rules, Weights, Wish, words


def f32(value: float) -> float:
    """Round to a 32-bit float."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def ratio_score(weights: Weights, used: Sequence[int], total: Sequence[int]) -> float:
    """10 x the weighted sum of three ratios (slots, cores, memory); 0 without any total."""
    if 0 in total:
        return 0.0
    parts = [f32(weights[i] * f32(f32(used[i]) / f32(total[i]))) for i in range(3)]
    return f32(10 * f32(f32(parts[0] + parts[1]) + parts[2]))


def node_score(cards: Sequence[Card]) -> float:
    """The load of the node before the pod (D0-25 to D0-28)."""
    return ratio_score(
        (1, 1, 1),
        (sum(c.used for c in cards), sum(c.used_cores for c in cards), sum(c.used_memory for c in cards)),
        (sum(c.count for c in cards), sum(c.cores for c in cards), sum(c.memory for c in cards)),
    )


def card_score(card: Card, asks: Sequence[Ask], weights: Weights, switch: Switches) -> float:
    """The load of a card as if all that the container asks of its vendor were placed there (D0-06 to D0-13)."""
    used, memory, cores = card.used, card.used_memory, card.used_cores
    for ask in asks:
        if ask.vendor != card.vendor:
            continue
        if card.type != card.vendor and switch(Quirk.SCORE_IGNORES_CLAIM):
            continue  # HAMi compares the vendor that is asked for with the model that is registered
        used += ask.nums
        percent_too = ask.memory > 0 and ask.percent not in (0, UNSET)
        if percent_too and switch(Quirk.SCORE_PERCENT_FIRST):
            memory += card.memory * ask.percent // 100
        else:
            memory += ask.memory_on(card)
        cores += ask.cores
    return ratio_score(weights, (used, cores, memory), (card.count, card.cores, card.memory))


def sort_key(wish: Wish, ask: Ask, scores: dict[str, float]) -> Callable[[Card], tuple[float, ...]]:
    """What cards are sorted by; they are tried from the end."""
    policy, bind = wish.policy, wish.rules.numa_bind
    if policy == "bestFit":
        return lambda c: (
            -c.numa if bind else 0,
            -(c.memory - c.used_memory - ask.memory_on(c)),
            -(c.cores - c.used_cores - ask.cores),
        )
    if policy == "mutex":
        return lambda c: (-c.used, c.numa)
    if policy == "numa" or "," in policy:
        chain = [word for word in words(policy) if word in {"binpack", "spread", "numa"}] or ["spread"]
        if bind:
            chain = ["numa", *chain]
        parts: dict[str, Callable[[Card], float]] = {
            "binpack": lambda c: scores[c.uuid],
            "spread": lambda c: -scores[c.uuid],
            "numa": lambda c: c.numa,
        }
        return lambda c: (*(parts[word](c) for word in chain), c.index)
    if policy == "binpack":
        if bind or wish.numa_first:
            return lambda c: (-c.numa, scores[c.uuid])
        return lambda c: (scores[c.uuid], c.numa)
    if bind or wish.numa_first:
        return lambda c: (c.numa, -scores[c.uuid])
    return lambda c: (-scores[c.uuid], c.numa)


def check(card: Card, ask: Ask, wish: Wish, within: Callable[[Pick], bool]) -> str:
    """The first check that a card fails after the NUMA step; empty if it passes all."""
    memory, cores = ask.memory_on(card), min(ask.cores, 100)
    if not wish.rules.uuid_fits(card):
        return "CardUuidMismatch"
    if card.count <= card.used:
        return "CardTimeSlicingExhausted"
    if "mutex" in words(wish.policy) and card.used > 0:
        return "ExclusiveDeviceAllocateConflict"
    if card.mode != "mig" and not within(share_of(card, ask)):  # of a MIG card each piece is checked
        return "ResourceQuotaNotFit"
    if card.memory - card.used_memory < memory:
        return "CardInsufficientMemory"
    if card.cores - card.used_cores < cores:
        return "CardInsufficientCore"
    if card.cores == 100 and cores == 100 and card.used > 0:
        return "ExclusiveDeviceAllocateConflict"
    if card.cores != 0 and card.used_cores == card.cores and cores == 0:
        return "CardComputeUnitsExhausted"
    return ""


def share_of(card: Card, ask: Ask) -> Pick:
    return Pick(card.vendor, card.uuid, ask.memory_on(card), min(ask.cores, 100))


def choose(tried: Sequence[Card], ask: Ask, wish: Wish, tally: Tally = NO_TALLY) -> tuple[list[Card], Counter[str]]:
    """Walk the cards in the order given; the cards chosen (too few if it does not fit) and the reasons."""
    alone = wish.topology and bool(wish.quotas) and not tally.switch(Quirk.QUOTA_COUNTS_CANDIDATES)
    picked: list[Pick] = []

    def within(pick: Pick) -> bool:
        return tally.admits(ask.vendor, [pick] if alone else [*picked, pick])

    chosen: list[Card] = []
    counts: Counter[str] = Counter()
    numa: int | None = None
    for card in tried:
        if not card.healthy:
            counts["CardNotHealth"] += 1
            continue
        if card.cordoned:
            counts["CardCordoned"] += 1
            continue
        if not wish.rules.type_fits(card):
            counts["CardTypeMismatch"] += 1
            continue
        if wish.limits.forbid(card):
            counts["CardDeniedByPolicy"] += 1
            continue
        if wish.rules.numa_bind and card.numa != numa:
            if wish.near and "topology-aware" not in words(wish.policy) and len(chosen) >= ask.nums:
                break  # a policy's preference is no reason to give up a NUMA node that has enough
            if not wish.topology:
                counts["NumaNotFit"] += len(chosen)
            chosen, picked, numa = [], [], card.numa
        reason = check(card, ask, wish, within)
        taken: list[Held] = []
        while not reason:  # a MIG card is looked at until nothing of it is left
            if card.mode == "mig":
                found = piece_of(card, ask, taken)
                if found is None:
                    reason = "CardMigTopologyInfeasible"
                    break
                pick = Pick(card.vendor, card.uuid, found[1], found[2])
                if not within(pick):
                    reason = "ResourceQuotaNotFit"
                    break
                taken.append(found[0])
                picked.append(pick)
            else:
                picked.append(share_of(card, ask))
            chosen.append(card)
            if card.mode != "mig" or (len(chosen) == ask.nums and not wish.topology):
                break
        if reason:
            counts[reason] += 1
        if len(chosen) == ask.nums and not wish.topology:
            break
    candidates = chosen
    if len(chosen) > ask.nums:
        chosen = best_linked(chosen, ask.nums)
    if alone and len(chosen) == ask.nums and len(within_together(chosen, picked, ask, tally)) < ask.nums:
        chosen = within_together(candidates, picked, ask, tally)
        if len(chosen) < ask.nums:
            counts["ResourceQuotaNotFit"] += len(candidates) - len(chosen)
    if len(chosen) < ask.nums:
        counts["AllocatedCardsInsufficientRequest"] = len(chosen)
    return chosen, counts


def within_together(cards: Sequence[Card], picked: Sequence[Pick], ask: Ask, tally: Tally) -> list[Card]:
    """The first of the cards that the quota allows together; ``picked`` is what each of them gives, piece by piece."""
    pieces = {card.uuid: [pick for pick in picked if pick.uuid == card.uuid] for card in cards}
    kept: list[Card] = []
    got: list[Pick] = []
    for card in cards:
        pick = pieces[card.uuid][kept.count(card)]
        if len(kept) < ask.nums and tally.admits(ask.vendor, [*got, pick]):
            kept.append(card)
            got.append(pick)
    return kept


def score_between(one: Card, other: Card) -> int:
    return 0 if one.uuid == other.uuid else one.links.get(other.uuid, 0)


def best_linked(candidates: Sequence[Card], nums: int) -> list[Card]:
    """One card: the least linked to the other candidates; several: the subset with the strongest links inside; of
    equals the first (D2-43, D2-44)."""
    if nums == 1:
        return [min(candidates, key=lambda card: sum(score_between(card, other) for other in candidates))]
    return list(
        max(
            combinations(candidates, nums),
            key=lambda subset: sum(score_between(one, other) for one, other in combinations(subset, 2)),
        )
    )


def place(cards: Sequence[Card], wish: Wish, switch: Switches) -> NodeFit:
    """Fit a pod on the cards of a node; the cards are left as they are."""
    result = NodeFit()
    running = [card.copy() for card in cards]
    inits = sum(container.kind != "app" for container in wish.containers)
    padded = any(card.type == card.vendor for card in cards)
    tally = Tally(wish.quotas, inits, padded=padded, switch=switch)
    for container in wish.containers:
        kind = container.kind
        if kind == "sidecar" and switch(Quirk.SIDECAR_AS_INIT):
            kind = "init"
        group = running
        if kind == "init":  # it runs alone with what is running by then, and leaves nothing behind
            group = sorted((card.copy() for card in running), key=lambda c: c.position)
        tally.begin(kind)
        if not _place_container(group, container.asks, wish, tally, result):
            result.fits = False
            return result
    return result


def _place_container(group: list[Card], asks: Sequence[Ask], wish: Wish, tally: Tally, result: NodeFit) -> bool:
    picks: list[Pick] = []
    result.picks.append(picks)
    scores = {card.uuid: card_score(card, asks, wish.weights, tally.switch) for card in group} if asks else {}
    for ask in asks:
        group.sort(key=sort_key(wish, ask, scores))
        choice = [card for card in group if card.vendor == ask.vendor]
        result.choice = len(choice)
        if not enough(ask, choice, wish.rules):
            result.counts = Counter({"NodeInsufficientDevice": 1})
            return False
        chosen, counts = choose(choice[::-1], ask, wish, tally)
        if len(chosen) < ask.nums:
            result.counts = counts
            return False
        got = [book(card, ask) for card in chosen]
        picks += got
        tally.give(got)
    return True


def book(card: Card, ask: Ask) -> Pick:
    """Add to what is used of the card: a share, or the best free piece of a MIG card."""
    pick = share_of(card, ask)
    if card.mode == "mig":
        found = piece_of(card, ask, [])
        assert found
        held, memory, cores = found
        suffix = "" if held.template < 0 else f"[{held.template}-{held.start}]"
        pick = Pick(card.vendor, card.uuid + suffix, memory, cores, None if suffix else held)
        card.in_use.append(held)
    card.used += 1
    card.used_memory += pick.memory
    card.used_cores += pick.cores
    return pick


def piece_of(card: Card, ask: Ask, taken: Sequence[Held]) -> tuple[Held, int, int] | None:
    """The piece of a MIG card that an ask gets, beside those already taken, with memory and cores."""
    in_use = [*card.in_use, *taken]
    if card.templates:
        held = select_instance(card.templates, ask.memory_on(card), in_use)
        return held and (held, int(held.profile), min(ask.cores, 100))
    found = select(card.profiles, ask.memory_on(card), in_use)
    return found and (found[1], found[0].memory, found[0].cores)


def enough(ask: Ask, choice: Sequence[Card], rules: Rules) -> bool:
    """Whether there are as many cards as asked for; a MIG card may be given more than once."""
    pieces = rules.mode is None or "mig" in rules.mode
    return ask.nums <= len(choice) or (pieces and any(card.mode == "mig" for card in choice))

"""Cards of one node for one pod as HAMi 2.6 goes through them; plain where the quirks are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.naive import hami_cards as plain
from tests.naive.hami26.quirks import Quirk26
from tests.naive.hami_mig import Held, select_instance
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_quota import Tally
from tests.naive.hami_values import UNSET, Ask, Card, NodeFit, Pick, Wish


@dataclass
class NodeFit26(NodeFit):
    """One that may fail after all cards were found."""

    not_booked: bool = False

    @property
    def text(self) -> str:
        return "AddResourceUsage failed" if self.not_booked else super().text


def card_score(card: Card, asks: Sequence[Ask], switch: Switches) -> float:
    """The load of a card with all that the container asks for; a percentage counts in full hundreds only."""
    used, memory, cores = card.used, card.used_memory, card.used_cores
    for ask in asks:
        used += ask.nums
        cores += ask.cores
        percent_counts = ask.percent not in (0, UNSET)
        if percent_counts and (ask.memory == 0 or switch(Quirk.SCORE_PERCENT_FIRST)):
            in_hundreds = ask.percent % 100 != 0 and switch(Quirk26.SCORE_PERCENT_IN_HUNDREDS)
            percent = int(ask.percent / 100) * 100 if in_hundreds else ask.percent
            memory += card.memory * percent // 100
        else:
            memory += ask.memory
    return plain.ratio_score((1, 1, 1), (used, cores, memory), (card.count, card.cores, card.memory))


def place(cards: Sequence[Card], wish: Wish, switch: Switches) -> NodeFit:
    """Fit a pod on the cards of a node; the cards are left as they are."""
    if wish.weights != (1, 1, 1) or any(container.kind != "app" for container in wish.containers):
        return plain.place(cards, wish, switch)  # HAMi 2.6 knows neither
    result = NodeFit26()
    group = [card.copy() for card in cards]
    tally = Tally(wish.quotas, 0, padded=False, switch=switch)
    for container in wish.containers:
        tally.begin(container.kind)
        if not _place_container(group, container.asks, wish, tally, result):
            result.fits = False
            return result
    return result


def _place_container(group: list[Card], asks: Sequence[Ask], wish: Wish, tally: Tally, result: NodeFit26) -> bool:
    switch = tally.switch
    picks: list[Pick] = []
    result.picks.append(picks)
    scores = {card.uuid: card_score(card, asks, switch) for card in group} if asks else {}
    for ask in asks:
        group.sort(key=plain.sort_key(wish, ask, scores))
        result.choice = len(group)
        too_many = ask.nums > len(group)
        if too_many and (not plain.enough(ask, group, wish.rules) or switch(Quirk26.MIG_CARD_COUNTED_ONCE)):
            result.counts = Counter({"NodeInsufficientDevice": 1})
            return False
        if wish.topology or wish.quotas:  # HAMi 2.6 knows neither
            chosen, counts = plain.choose(group[::-1], ask, wish, tally)
        else:
            chosen, counts = choose(group[::-1], ask, wish, switch)
        result.counts = counts
        if len(chosen) < ask.nums:
            return False
        for card in chosen:
            pick = book(card, ask, switch)
            if pick is None:
                result.not_booked = True
                return False
            picks.append(pick)
            tally.give([pick])
    return True


def choose(tried: Sequence[Card], ask: Ask, wish: Wish, switch: Switches) -> tuple[list[Card], Counter[str]]:
    """Walk the cards in the order given; the cards chosen (too few if it does not fit) and the reasons."""
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
        if wish.rules.numa_bind and card.numa != numa:
            counts["NumaNotFit"] += _counted(chosen, switch)
            chosen, numa = [], card.numa
        reason = plain.check(card, ask, wish, lambda _: True)
        while not reason:  # a MIG card is looked at until nothing of it is left
            if card.mode == "mig" and not has_instance(card, ask, chosen, switch):
                general = switch(Quirk26.MIG_REASON_GENERAL)
                reason = "CardNotFoundCustomFilterRule" if general else "CardMigTopologyInfeasible"
                break
            chosen.append(card)
            if card.mode != "mig" or len(chosen) == ask.nums:
                break
        if reason:
            counts[reason] += 1
        if len(chosen) == ask.nums:
            break
    if len(chosen) < ask.nums:
        counts["AllocatedCardsInsufficientRequest"] = _counted(chosen, switch)
    return chosen, counts


def _counted(chosen: Sequence[Card], switch: Switches) -> int:
    return 1 if len(chosen) > 1 and switch(Quirk26.REASONS_COUNT_ONCE) else len(chosen)


# MIG ---------------------------------------------------------------------------------------------------------------


def has_instance(card: Card, ask: Ask, picked: Sequence[Card], switch: Switches) -> bool:
    """Whether an instance is free beside those in use and those that earlier picks of the container take."""
    memory = ask.memory_on(card)
    if memory and not ask.memory and switch(Quirk26.MIG_PERCENT_IS_NOTHING):
        memory = 0
    template = _template(card, memory)
    if template is None:
        return False
    taken = {held.start for held in card.in_use}
    free = [size for slot, size in enumerate(card.templates[template]) if slot not in taken]
    for pick in picked:
        if pick is not card and not switch(Quirk26.MIG_PICKS_ON_EVERY_CARD):
            continue
        if not _take(free, ask.memory_on(pick), switch):
            return False
    return _take(free, memory, switch)


def _template(card: Card, memory: int) -> int | None:
    if card.in_use:
        number = card.in_use[0].template
        return number if number < len(card.templates) else None
    return next((n for n, sizes in enumerate(card.templates) if any(size >= memory for size in sizes)), None)


def _take(free: list[int], memory: int, switch: Switches) -> bool:
    for size in free:
        if size > memory or (size == memory and not switch(Quirk26.MIG_INSTANCE_LARGER)):
            free.remove(size)
            return True
    return False


def book(card: Card, ask: Ask, switch: Switches) -> Pick | None:
    """Add to what is used of the card; None if there is no instance after all."""
    pick = plain.share_of(card, ask)
    if card.mode == "mig":
        held = instance(card, pick.memory, switch)
        if held is None and card.in_use:
            return None
        if held is not None:  # no template is large enough for what HAMi 2.6 takes for nothing: it is booked as it is
            pick = Pick(card.vendor, f"{card.uuid}[{held.template}-{held.start}]", int(held.profile), pick.cores)
            card.in_use.append(held)
    card.used += 1
    card.used_memory += pick.memory
    card.used_cores += pick.cores
    return pick


def instance(card: Card, memory: int, switch: Switches) -> Held | None:
    """The instance that is booked: of a card in use one that is larger, of another the first of a template."""
    if not card.in_use:
        return select_instance(card.templates, memory, ())
    found = select_instance(card.templates, memory, card.in_use)
    if found is not None and int(found.profile) == memory and switch(Quirk26.MIG_INSTANCE_LARGER):
        return select_instance(card.templates, memory + 1, card.in_use)
    return found

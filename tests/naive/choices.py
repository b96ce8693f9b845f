"""How several cards of one node are chosen among those that pass, in plain Python: one function per way of choosing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

CLASSES = ("", "online", "offline")
QUALITIES = ("best-effort", "fixed-share", "burst-share")
CONTENTION = {"online": 20, "offline": 2, "": 100}


@dataclass
class Card:
    """A card, with what is used of it.

    Attributes
    ----------
    free
        Whether it is in service.
    room, used
        Shares, memory, cores: what it has, and what of that is in use.
    group
        The zone, module or network; -1 is none.
    mode
        The quality of service that its plugin reports.
    tenants, asked
        The classes of those that use it, and the qualities of service that they ask for.
    pieces
        What it can be cut into, the first that suits first: shares, memory, cores.
    """

    uuid: str
    index: int
    numa: int
    healthy: bool
    room: tuple[int, int, int]
    used: tuple[int, int, int] = (0, 0, 0)
    group: int = -1
    mode: str = ""
    tenants: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    pieces: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Want:
    """What a container asks for: so many cards, memory and cores of each, for a pod of a class and a quality."""

    nums: int
    slots: int
    memory: int
    cores: int
    tenant: str = ""
    quality: str = ""


def has_room(card: Card, want: Want) -> bool:
    slots, memory, cores = (room - used for room, used in zip(card.room, card.used, strict=True))
    return card.healthy and slots > 0 and memory >= want.memory and cores >= want.cores


def first(tried: Sequence[Card], want: Want) -> list[Card]:
    return [card for card in tried if has_room(card, want)][: want.nums]


def grouped(tried: Sequence[Card], want: Want) -> list[Card]:
    """Of the largest group, then of the next; of equals the one that is tried first."""
    passed = [card for card in tried if has_room(card, want)]
    if len(passed) <= want.nums or want.nums == 1:
        return passed[: want.nums]
    groups = [[c for c in passed if c.group == group] for group in dict.fromkeys(card.group for card in passed)]
    return [card for group in sorted(groups, key=len, reverse=True) for card in group][: want.nums]


def pairs(tried: Sequence[Card], want: Want) -> list[Card]:
    """Modules of two, both of whose cards pass."""
    passed = [card for card in tried if has_room(card, want)]
    if want.nums == 1:
        return passed[:1]
    modules = [[c for c in passed if c.index // 2 == module] for module in dict.fromkeys(c.index // 2 for c in passed)]
    return [card for module in modules if len(module) == 2 for card in module][: want.nums]


def run(tried: Sequence[Card], want: Want) -> list[Card]:
    """Neighbours: anywhere where the cards are a group, else in their place among fours, eights, sixteens."""
    passed = {card.index: card for card in tried if has_room(card, want)}
    if want.nums == 1:
        return first(tried, want)
    anywhere = any(card.group >= 0 for card in tried)
    if not anywhere and want.nums not in (4, 8, 16):
        return []
    for start in range(0, 64, 1 if anywhere else want.nums):
        if all(start + place in passed for place in range(want.nums)):
            return [passed[start + place] for place in range(want.nums)]
    return []


def halves(tried: Sequence[Card], want: Want) -> list[Card]:
    """Of the half that suits best, or linked across; a card in use takes what its tenants have on average."""
    free = [
        c for c in reversed(tried) if has_room(c, want) and (not c.used[0] or c.used[1] // c.used[0] == want.memory)
    ]
    sides = [card for card in free if card.index < 4], [card for card in free if card.index >= 4]
    if want.nums == 8:
        return [*sides[0], *sides[1]] if len(sides[0]) == len(sides[1]) == 4 else []
    for number in {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}.get(want.nums, ()):
        for side in sides:
            if len(side) == number:
                return side[: want.nums]
    at = {card.index: card for card in free}
    if want.nums == 2:
        return next(([card, at[(card.index + 4) % 8]] for card in free if (card.index + 4) % 8 in at), [])
    for one, other in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)) if want.nums == 4 else ():
        if {one, other, one + 4, other + 4} <= at.keys():
            return [at[one], at[other], at[one + 4], at[other + 4]]
    return []


def agrees(card: Card, want: Want) -> bool:
    """Whether the tenants of a card go together with one more: by class, and by quality unless it is online."""
    if any(bool(tenant) != bool(want.tenant) for tenant in card.tenants):
        return False
    if want.tenant == "online" or not card.used[0] or want.cores == 100:
        return True
    return set(card.asked) == {want.quality} if card.asked else card.mode in ("", want.quality)


def least_contended(tried: Sequence[Card], want: Want) -> list[Card]:
    """Where its tenants take least from an online pod."""
    passed = [card for card in tried if agrees(card, want) and has_room(card, want)]
    return sorted(passed, key=contention)[: want.nums] if len(passed) >= want.nums else []


def contention(card: Card) -> int:
    return sum(CONTENTION[tenant] for tenant in card.tenants)


def zone(tried: Sequence[Card], want: Want) -> list[Card]:
    """Whole cards of the smallest zone that has enough of them; of equals the one that is tried first."""
    passed = [card for card in tried if agrees(card, want) and has_room(card, want)]
    zones = [[c for c in passed if c.group == group] for group in dict.fromkeys(card.group for card in passed)]
    enough = [found for found in zones if len(found) >= want.nums]
    if want.cores == 100 and enough and len(passed) > want.nums:
        return min(enough, key=len)[: want.nums]
    return passed[: want.nums]


def pieces(tried: Sequence[Card], want: Want) -> list[Card]:
    """Cards that have room for the first piece that suits."""
    return [card for card in tried if card.healthy and fits_piece(card, want)][: want.nums]


def fits_piece(card: Card, want: Want) -> bool:
    for piece in card.pieces:
        if piece[1] >= want.memory and piece[2] >= want.cores and want.slots in (0, piece[0]):
            return all(r - u >= p for r, u, p in zip(card.room, card.used, piece, strict=True))
    return False


CHOICES: dict[str, Callable[[Sequence[Card], Want], list[Card]]] = {
    "first": first,
    "grouped": grouped,
    "pairs": pairs,
    "run": run,
    "halves": halves,
    "contention": least_contended,
    "zone": zone,
    "pieces": pieces,
}


def choose(way: str, cards: Sequence[Card], want: Want) -> list[Card] | None:
    """What a container gets of a node whose cards are tried from the highest NUMA node and index down, if anything."""
    if len(cards) < want.nums:
        return None
    found = CHOICES[way](sorted(cards, key=lambda card: (card.numa, card.index), reverse=True), want)
    return found if len(found) == want.nums else None


def same(cards: Sequence[Card], wants: Sequence[Want]) -> list[list[Card]] | None:
    """What containers get that run beside each other, all of them on the same cards."""
    left, taken = {card.uuid: card.used for card in cards}, list[list[Card]]()
    for want in wants:
        allowed = [card for card in cards if all(other is card for earlier in taken for other in earlier)]
        found = choose("first", [replace(card, used=left[card.uuid]) for card in allowed], want)
        if found is None:
            return None
        taken.append([next(card for card in cards if card.uuid == one.uuid) for one in found])
        for card in found:
            slots, memory, cores = left[card.uuid]
            left[card.uuid] = (slots + 1, memory + want.memory, cores + want.cores)
    return taken

"""Cards and claims for every way of choosing several cards, and the comparison with the twins.

``python -m tests.kernels.choice_worlds COUNT`` checks that many random worlds of each, for a run in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tests.kernels.worlds import number, some
from tests.naive.choices import CHOICES, CLASSES, QUALITIES, Card, Want, choose, contention, same

from vgpu_scheduler.allocators import CardChoice, Check, FitColumns, FitRules, HamiAllocator, Selection, card_order
from vgpu_scheduler.dialects.hami.rules import DeviceRules
from vgpu_scheduler.kernels import fit_nodes
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device, DimensionRoles, OrderKind, Piece
from vgpu_scheduler.state import DeviceMatrix

VENDOR = "V"
MEMORY = 4000
CHOICE_WEIGHT = 1000.0
_MANY = 1000
PLAIN = FitRules(Check.SLOTS | Check.MEMORY | Check.CORES)
TENANTS = DimensionRoles(classes=range(3, 6), qualities=range(6, 9))
PIECES = DimensionRoles(placements=3)
RULES = {
    "first": PLAIN,
    "grouped": replace(PLAIN, selection=Selection.GROUPED, choice_weight=CHOICE_WEIGHT),
    "pairs": replace(PLAIN, selection=Selection.PAIRS),
    "same": FitRules(PLAIN.checks | Check.SAME_CARDS),
    "run": replace(PLAIN, selection=Selection.RUN),
    "halves": FitRules(PLAIN.checks | Check.EQUAL_SHARES, selection=Selection.HALVES),
    "contention": FitRules(
        PLAIN.checks | Check.CLASSES, modes=False, selection=Selection.CONTENTION, choice_weight=CHOICE_WEIGHT
    ),
    "zone": FitRules(PLAIN.checks | Check.CLASSES, modes=False, selection=Selection.ZONE),
    "pieces": FitRules(PLAIN.checks | Check.ONE_PIECE),
}
WITH_TENANTS = ("contention", "zone")

Node = Sequence[Card]


def check(way: str, nodes: Sequence[Node], wants: Sequence[Want]) -> int:
    """Assert that the kernel chooses on every node what the twin chooses; return how many nodes fit."""
    rules = replace(RULES[way], quality=wants[0].quality) if way == "zone" else RULES[way]
    claims = tuple(ContainerClaims(f"c{i}", ContainerType.APP, (_claim(way, want),)) for i, want in enumerate(wants))
    order = card_order("numa", OrderKind.SCORE_FIRST, numa_bind=False)
    allocator = HamiAllocator(claims, DeviceRules({}), order, CardChoice(), checks={VENDOR: rules})
    matrix, columns = DeviceMatrix(9), FitColumns.empty(len(nodes))
    for row, cards in enumerate(nodes):
        matrix.replace(row, [_device(way, card) for card in cards])
        for card in cards:
            position = matrix.position(row, card.uuid)
            assert position is not None
            matrix.charge(position, _used(way, card), 1)
    allocator.fit(matrix, np.arange(len(nodes), dtype=np.int64), columns)
    fits = 0
    for row, cards in enumerate(nodes):
        if way == "same":
            expected = same(cards, wants)
        else:
            chosen = choose(way, cards, wants[0])
            expected = None if chosen is None else [chosen]
        placed = allocator.place(matrix, row)
        found = None if placed is None else [[a.uuid for a in container] for container in placed]
        names = None if expected is None else [[card.uuid for card in container] for container in expected]
        assert (bool(columns.fits[row]), found) == (names is not None, names), (way, wants, cards)
        if expected is not None:
            fits += 1
            affinity = float(columns.choice_score[row, 0])
            assert affinity == np.float32(_affinity(way, expected[0])), (way, wants, cards)
    return fits


def _affinity(way: str, chosen: Sequence[Card]) -> float:
    if way == "contention":
        return -CHOICE_WEIGHT * sum(contention(card) for card in chosen)
    if way == "grouped" and all(card.group >= 0 for card in chosen):
        sizes = [sum(other.group == card.group for other in chosen) for card in chosen]
        return CHOICE_WEIGHT * float(np.float32(max(sizes)) / np.float32(len(chosen)))
    return 0.0


def _claim(way: str, want: Want) -> Claim:
    amounts: tuple[int, ...] = (want.slots if way == "pieces" else 1, want.memory, want.cores)
    if way in WITH_TENANTS:
        amounts = (*amounts, *_counted(want.tenant, want.quality, want.cores))
    return Claim(VENDOR, want.nums, amounts, tuple(0 for _ in amounts))


def _counted(tenant: str, quality: str, cores: int) -> tuple[int, ...]:
    return (*(int(tenant == name) for name in CLASSES), *(int(quality == name and cores < 100) for name in QUALITIES))


def _device(way: str, card: Card) -> Device:
    total: tuple[int, ...] = card.room
    if way in WITH_TENANTS:
        total = (*total, *(_MANY for _ in (*CLASSES, *QUALITIES)))
    cut = tuple(
        Piece(f"{i}", 0, slots, (slots, memory, cores, slots)) for i, (slots, memory, cores) in enumerate(card.pieces)
    )
    if cut:
        total = (*total, card.room[0])
    return Device(
        card.uuid,
        VENDOR,
        VENDOR,
        total,
        card.index,
        card.numa,
        card.mode,
        card.healthy,
        group=card.group,
        pieces=cut,
        schema=TENANTS if way in WITH_TENANTS else PIECES,
    )


def _used(way: str, card: Card) -> tuple[int, ...]:
    if way in WITH_TENANTS:
        classes = (card.tenants.count(name) for name in CLASSES)
        return (*card.used, *classes, *(card.asked.count(name) for name in QUALITIES))
    return (*card.used, card.used[0]) if card.pieces else card.used


# Chance ------------------------------------------------------------------------------------------------------------


def random_world(way: str, rng: np.random.Generator) -> tuple[list[Node], list[Want]]:
    nodes = [_cards(way, node, rng) for node in range(number(rng, 1, 5))]
    tenant = "online" if way == "contention" else some(rng, "", "", "offline") if way == "zone" else ""
    quality = some(rng, *QUALITIES) if way == "zone" else ""
    cores = (
        0
        if way in ("contention", "halves")
        else some(rng, 0, 10, 50, 100)
        if way != "zone"
        else some(rng, 10, 50, 100, 100)
    )
    nums = (
        1 if way == "pieces" else some(rng, 1, 2, 4, 4, 8, 3) if way in ("halves", "run") else some(rng, 1, 2, 2, 3, 4)
    )
    want = Want(
        nums,
        some(rng, 0, 0, 1, 2, 3) if way == "pieces" else 1,
        some(rng, 0, 1000, 2000, MEMORY),
        cores,
        tenant,
        quality,
    )
    if way == "halves":
        want = replace(want, memory=some(rng, 1000, 2000, MEMORY))
    if way == "pieces" and want.slots:
        want = replace(want, memory=0, cores=0)
    return nodes, [want] * (number(rng, 1, 3) if way == "same" else 1)


def _cards(way: str, node: int, rng: np.random.Generator) -> list[Card]:
    busy, groups = rng.random() * 0.7, number(rng, -1, 3)
    many = 8 if way == "halves" or rng.random() < 0.5 else number(rng, 1, 12)
    kinds = ((1, 1000, 17), (2, 2000, 34), (3, 3000, 50), (6, MEMORY, 100)) if way == "pieces" else ()
    cards = []
    for index in range(many):
        room = (6 if way == "pieces" else 4, MEMORY, 100)
        card = Card(
            f"card-{node}-{index}",
            index,
            number(rng, 0, 2),
            bool(rng.random() < 0.9),
            room,
            group=-1 if groups < 0 else 0 if way == "run" else number(rng, 0, groups),
            pieces=kinds,
        )
        cards.append(_in_use(way, card, rng) if rng.random() < busy else card)
    return cards


def _in_use(way: str, card: Card, rng: np.random.Generator) -> Card:
    if way == "pieces":
        return replace(card, used=some(rng, *card.pieces))
    if way not in WITH_TENANTS:
        slots = number(rng, 1, 4)
        return replace(card, used=(slots, slots * some(rng, 500, 1000), slots * some(rng, 0, 10, 25)))
    tenants = tuple(some(rng, "online", "offline") if rng.random() < 0.5 else "" for _ in range(1))
    tenants *= number(rng, 1, 3)
    asked = () if tenants[0] == "online" or rng.random() < 0.5 else (some(rng, *QUALITIES),) * len(tenants)
    cores = some(rng, 0, 10)
    mode = some(rng, "", *QUALITIES)
    return replace(card, used=(len(tenants), 500, cores), tenants=tenants, asked=asked, mode=mode)


def main(count: int) -> None:
    rng = np.random.default_rng(8)
    fits = sum(check(way, *random_world(way, rng)) > 0 for way in (*CHOICES, "same") for _ in range(count))
    how = "compiled" if hasattr(fit_nodes, "py_func") else "interpreted"
    print(f"{count} worlds of each, {fits} of all fit, {how}")


if __name__ == "__main__":
    main(int(sys.argv[1]))

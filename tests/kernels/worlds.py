"""Cards and wishes for the kernels, and the comparison with the twin.

``python -m tests.kernels.worlds COUNT`` checks that many random worlds, for a run in another process.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

import numpy as np
from tests.naive.hami_cards import book, node_score, piece_of, place
from tests.naive.hami_mig import Profile
from tests.naive.hami_quirks import Switches
from tests.naive.hami_quota import Quota, total
from tests.naive.hami_values import UNSET, Ask, Card, Container, Limits, NodeFit, Rules, Wish

from vgpu_scheduler.allocators import CardChoice, CardLimits, FitColumns, HamiAllocator, QuotaRemainder, card_order
from vgpu_scheduler.dialects.hami.mig import SCHEMA, MigProfile, SliceSpan, pieces_of, slices_of
from vgpu_scheduler.dialects.hami.rules import DeviceRules, VendorRules
from vgpu_scheduler.dialects.hami.templates import booked_amounts, recorded, template_pieces
from vgpu_scheduler.kernels import fit_nodes
from vgpu_scheduler.model import CardReason, Claim, ContainerClaims, ContainerType, Device, OrderKind, Piece
from vgpu_scheduler.state import DeviceMatrix

POLICIES = (
    "binpack", "spread", "mutex", "numa", "topology-aware", "", "unknown", " binpack", "binpack,numa", "numa,binpack",
    "spread, numa", "numa,spread", "binpack,spread", "mutex,binpack", "spread,mutex", "mutex, numa", "unknown,numa",
    "topology-aware,binpack", ",", "bestFit", "bestFit", "bestFit,numa", "bestfit",
)  # fmt: skip
VENDORS = ("NVIDIA", "ACME")
TYPES = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA-Tesla T4", "")
MODES = ("hami-core", "mps", "")
KINDS = {"init": ContainerType.INIT, "sidecar": ContainerType.SIDECAR, "app": ContainerType.APP}

Nodes = Sequence[Sequence[Card]]


def check(nodes: Nodes, wish: Wish) -> Counter[str]:
    """Assert that the product finds on every node what the twin finds; count the nodes per outcome."""
    matrix, allocator = matrix_of(nodes), make_allocator(wish)
    columns, rows = FitColumns.empty(len(nodes)), np.arange(len(nodes), dtype=np.int64)
    columns.counts[:] = 7  # what was there before must not show
    columns.cards[:] = 7
    allocator.fit(matrix, rows, columns)
    outcomes: Counter[str] = Counter()
    for row, cards in enumerate(nodes):
        counts = {CardReason(i).text: int(n) for i, n in enumerate(columns.counts[row]) if n}
        if not cards:
            assert (bool(columns.fits[row]), counts) == (False, {"node unregistered": 1})
            continue
        expected = place(cards, wish, Switches())
        found = (bool(columns.fits[row]), counts)
        reasons = {} if expected.fits else {reason: n for reason, n in expected.counts.items() if n}
        assert found == (expected.fits, reasons), f"node {row}"
        assert float(columns.score[row]) == node_score(cards), f"node {row}"
        if not expected.fits:
            assert int(columns.cards[row]) == expected.choice, f"node {row}"
        assert picks(allocator, matrix, row) == expected_picks(expected), f"node {row}"
        if expected.fits:
            kinds = [container.kind for container in wish.containers]
            for vendor, quota in wish.quotas.items():
                assert quota.admits(*total(vendor, kinds, expected.picks)) or not asked_of(wish, vendor)
        outcomes.update(reasons or ["fits"])
    return outcomes


def asked_of(wish: Wish, vendor: str) -> bool:
    return any(ask.vendor == vendor for container in wish.containers for ask in container.asks)


def matrix_of(nodes: Nodes) -> DeviceMatrix:
    matrix = DeviceMatrix(12)
    for row, cards in enumerate(nodes):
        matrix.replace(row, [device(card) for card in cards])
        for card in cards:
            number = matrix.position(row, card.uuid)
            assert number is not None
            slices = slices_of(SliceSpan(held.start, held.size) for held in card.in_use)
            weight = sum(1 if held.template < 0 else booked_amounts(held.template, 0)[0] for held in card.in_use)
            matrix.charge(number, (card.used, card.used_memory, card.used_cores, weight, *slices), 1)
    matrix.ensure_rows(len(nodes))
    return matrix


def device(card: Card) -> Device:
    total: tuple[int, ...] = (card.count, card.memory, card.cores)
    pieces: tuple[Piece, ...] = ()
    if card.mode == "mig":
        pieces = pieces_of(
            [
                MigProfile(p.name, p.memory, p.cores, p.slices, tuple(SliceSpan(*place) for place in p.placements))
                for p in card.profiles
            ]
        )
        pieces = pieces or template_pieces([tuple(("", size, 1) for size in sizes) for sizes in card.templates])
        total = (*total, max(card.count, 1), *slices_of(SliceSpan(piece.start, piece.size) for piece in pieces))
    return Device(
        card.uuid,
        card.vendor,
        card.type,
        total,
        card.index,
        card.numa,
        card.mode,
        card.healthy,
        card.cordoned,
        tuple(sorted(card.links.items())),
        pieces,
        schema=SCHEMA,
    )


def make_allocator(wish: Wish) -> HamiAllocator:
    rules = DeviceRules(
        {
            "NVIDIA": VendorRules(
                tuple(part.lower() for part in wish.rules.use_types),
                tuple(part.lower() for part in wish.rules.no_use_types),
                frozenset(wish.rules.use_uuids),
                frozenset(wish.rules.no_use_uuids),
                wish.rules.mode,
            )
        },
        wish.rules.numa_bind,
    )
    kind = OrderKind.NUMA_FIRST if wish.numa_first else OrderKind.SCORE_FIRST
    slots, cores, memory = wish.weights
    claims = tuple(
        ContainerClaims(container.name, KINDS[container.kind], tuple(claim(ask) for ask in container.asks))
        for container in wish.containers
    )
    order = card_order(wish.policy, kind, numa_bind=wish.rules.numa_bind)
    limits = CardLimits(**asdict(wish.limits))
    remainders = tuple(
        QuotaRemainder(vendor, dimension, limit - used)
        for vendor, quota in sorted(wish.quotas.items())
        for dimension, limit, used in ((1, quota.memory, quota.used_memory), (2, quota.cores, quota.used_cores))
        if limit is not None
    )
    choice = CardChoice(weights=(slots, memory, cores), limits=limits, topology=wish.near, remainders=remainders)
    return HamiAllocator(claims, rules, order, choice)


def claim(ask: Ask) -> Claim:
    percent = 0 if ask.percent == UNSET else ask.percent
    return Claim(ask.vendor, ask.nums, (1, ask.memory, ask.cores), (0, percent, 0))


Picks = list[list[tuple[str, str, int, int]]]


def picks(allocator: HamiAllocator, matrix: DeviceMatrix, row: int) -> Picks | None:
    containers = allocator.place(matrix, row)
    if containers is None:
        return None
    return [
        [(a.vendor, recorded(a.uuid, a.piece), a.amounts[1], a.amounts[2]) for a in container]
        for container in containers
    ]


def expected_picks(fit: NodeFit) -> Picks | None:
    if not fit.fits:
        return None
    return [[(pick.vendor, pick.uuid, pick.memory, pick.cores) for pick in container] for container in fit.picks]


# Chance ------------------------------------------------------------------------------------------------------------


T = TypeVar("T")


def some(rng: np.random.Generator, *values: T) -> T:
    return values[int(rng.integers(len(values)))]


def number(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def random_world(rng: np.random.Generator) -> tuple[Nodes, Wish]:
    mixed = bool(rng.random() < 0.3)
    nodes = [random_cards(rng, node, mixed=mixed) for node in range(number(rng, 1, 6))]
    return nodes, random_wish(rng, [card.uuid for cards in nodes for card in cards], mixed=mixed)


def random_cards(rng: np.random.Generator, node: int, *, mixed: bool) -> list[Card]:
    """Cards of one node; mostly alike, so that ties are common, and now and then with nothing of something."""
    uneven, busy = rng.random() < 0.4, rng.random() < 0.8
    cards = []
    for position in range(8 if rng.random() < 0.5 else number(rng, 0, 9)):
        vendor = "ACME" if mixed and rng.random() < 0.4 else "NVIDIA"
        count = number(rng, 0, 4) if uneven else 4
        memory = some(rng, 0, 1000, 16384, 24576, 81920) if uneven else 16384
        cores = some(rng, 0, 100, 100, 150, 200) if uneven else 100
        card = Card(
            uuid=f"card-{node}-{position}",
            vendor=vendor,
            type=TYPES[number(rng, 0, 3)] if uneven else TYPES[0],
            position=position,
            index=number(rng, 0, 9) if uneven else position,
            numa=number(rng, -1, 2) if uneven else position // 4,
            mode=MODES[number(rng, 0, 2)] if uneven else MODES[0],
            healthy=rng.random() < 0.9,
            count=count,
            memory=memory,
            cores=cores,
            cordoned=rng.random() < 0.05,
        )
        if busy and rng.random() < 0.4:
            card.used = number(rng, 0, max(count, 1) + (rng.random() < 0.1))
            card.used_memory = number(rng, 0, 4) * memory // 4
            card.used_cores = some(rng, 0, 10, 30, 50, cores)
        if vendor == "NVIDIA" and rng.random() < 0.15:
            cut(rng, card)
        cards.append(card)
    if rng.random() < 0.4:
        link(rng, cards)
    return cards


PROFILES = (
    Profile("1g.5gb", 4864, 15, 1, tuple((start, 1) for start in range(7))),
    Profile("1g.10gb", 9856, 15, 1, ((0, 2), (2, 2), (4, 2), (6, 2))),
    Profile("2g.10gb", 9856, 29, 2, ((0, 2), (2, 2), (4, 2))),
    Profile("3g.20gb", 19968, 43, 3, ((0, 4), (4, 4))),
    Profile("7g.40gb", 40192, 100, 7, ((0, 8),)),
)


TEMPLATES = ((5120,) * 7, (10240, 10240, 10240, 5120), (20480, 20480), (40960,))


def cut(rng: np.random.Generator, card: Card) -> None:
    """Make it a MIG card, some pieces of which are in use; its memory may be less than a profile's, or more."""
    card.mode, card.memory, card.cores, card.count = "mig", some(rng, 40960, 16384), 100, number(rng, 0, 7)
    card.used = card.used_memory = card.used_cores = 0
    order = rng.permutation(len(PROFILES))
    if rng.random() < 0.6:
        card.profiles = tuple(PROFILES[i] for i in order if rng.random() < 0.8)
    else:
        card.templates = tuple(TEMPLATES[i] for i in rng.permutation(len(TEMPLATES)) if rng.random() < 0.8)
    for _ in range(number(rng, 0, 4)):
        ask = Ask("NVIDIA", 1, some(rng, 1000, 1000, 6000, 12000), UNSET, some(rng, 0, 10))
        if piece_of(card, ask, []) is None:
            break
        book(card, ask)


def link(rng: np.random.Generator, cards: Sequence[Card]) -> None:
    """Pair scores of few different values, so that many subsets are equal; some are missing, some of no card here."""
    scores = some(rng, (10, 20), (0, 0, 100, 250), (-5, -1, 3), (7,))
    for one in cards:
        for other in cards:
            if rng.random() < 0.9:
                score = some(rng, *scores)
                one.links[other.uuid] = score
                if rng.random() < 0.9:
                    other.links[one.uuid] = score
        one.links["elsewhere"] = 10**6


def random_wish(rng: np.random.Generator, uuids: Sequence[str], *, mixed: bool) -> Wish:
    kinds = [some(rng, "init", "sidecar") for _ in range(number(rng, 0, 2) if rng.random() < 0.5 else 0)]
    kinds += ["app"] * number(rng, 1, 3)
    containers = [
        Container(f"c{i}", kind, () if rng.random() < 0.2 else random_asks(rng, mixed=mixed))
        for i, kind in enumerate(kinds)
    ]
    if not any(container.asks for container in containers):
        containers[-1] = Container("last", "app", random_asks(rng, mixed=mixed))
    weights = (1, 1, 1) if rng.random() < 0.7 else (number(rng, 0, 3), number(rng, 0, 3), number(rng, 1, 3))
    return Wish(
        tuple(containers),
        random_rules(rng, uuids),
        POLICIES[number(rng, 0, len(POLICIES) - 1)],
        bool(rng.random() < 0.5),
        weights,
        random_limits(rng) if rng.random() < 0.2 else Limits(),
        {vendor: random_quota(rng) for vendor in VENDORS if rng.random() < 0.4},
        bool(rng.random() < 0.2),
    )


def random_quota(rng: np.random.Generator) -> Quota:
    """Of about what pods ask for, so that some of their cards fit and others do not."""
    memory = some(rng, 0, 1000, 4096, 8192, 10000, 20000, 40000, 80000) if rng.random() < 0.8 else None
    cores = some(rng, 0, 30, 50, 100, 150, 300) if rng.random() < 0.4 else None
    return Quota(memory, cores, some(rng, 0, 0, 500, 4096), some(rng, 0, 0, 0, 20, 60))


def random_limits(rng: np.random.Generator) -> Limits:
    """One limit, mostly: each of them bars many cards."""
    return Limits(
        allow=(("a100", "h100"), ("NVIDIA",)) if rng.random() < 0.3 else (),
        deny=("Tesla",) if rng.random() < 0.3 else (),
        modes=(("hami-core", "mps"), ("hami-core",)) if rng.random() < 0.3 else (),
        most_memory=some(rng, 16384, 24576) if rng.random() < 0.3 else None,
        exclusive=bool(rng.random() < 0.3),
    )


def random_asks(rng: np.random.Generator, *, mixed: bool) -> tuple[Ask, ...]:
    vendors = list(VENDORS) if mixed and rng.random() < 0.5 else ["NVIDIA"]
    if rng.random() < 0.05:
        vendors.append("NVIDIA")
    return tuple(random_ask(rng, vendor) for vendor in vendors)


def random_ask(rng: np.random.Generator, vendor: str) -> Ask:
    memory = some(rng, 0, 500, 1000, 1000, 4096, 8192, 16384) if rng.random() < 0.95 else 99999
    percent = some(rng, 10, 25, 33, 50, 100) if memory == 0 or rng.random() < 0.2 else UNSET
    return Ask(vendor, some(rng, 1, 1, 1, 2, 3, 4), memory, percent, some(rng, 0, 0, 0, 10, 30, 50, 100, 120))


def random_rules(rng: np.random.Generator, uuids: Sequence[str]) -> Rules:
    def few(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(value for value in values if rng.random() < 0.3) if rng.random() < 0.08 else ()

    return Rules(
        use_types=few(("A100", "h100", "Tesla")),
        no_use_types=few(("A100", "h100", "Tesla")),
        use_uuids=few(uuids),
        no_use_uuids=few(uuids),
        mode=some(rng, "hami-core", "mps", "hami-core,mps", "mig", "mig,hami-core", "") if rng.random() < 0.1 else None,
        numa_bind=bool(rng.random() < 0.3),
    )


def main(count: int) -> None:
    rng = np.random.default_rng(8)
    fits = sum(check(*random_world(rng))["fits"] for _ in range(count))
    how = "compiled" if hasattr(fit_nodes, "py_func") else "interpreted"
    print(f"{count} worlds, {fits} nodes fit, {how}")


if __name__ == "__main__":
    main(int(sys.argv[1]))

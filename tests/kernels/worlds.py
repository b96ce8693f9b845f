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
from tests.naive.hami_cards import UNSET, Ask, Card, Container, Limits, NodeFit, Rules, Wish, node_score, place
from tests.naive.hami_quirks import Switches

from vgpu_scheduler.allocators import CardChoice, CardLimits, FitColumns, HamiAllocator, OrderKind, card_order
from vgpu_scheduler.dialects.hami.rules import DeviceRules
from vgpu_scheduler.kernels import fit_nodes
from vgpu_scheduler.model import CardReason, Claim, ContainerClaims, ContainerKind, Device
from vgpu_scheduler.state import DeviceMatrix

POLICIES = (
    "binpack", "spread", "mutex", "numa", "topology-aware", "", "unknown", " binpack", "binpack,numa", "numa,binpack",
    "spread, numa", "numa,spread", "binpack,spread", "mutex,binpack", "spread,mutex", "mutex, numa", "unknown,numa",
    "topology-aware,binpack", ",", "bestFit", "bestFit", "bestFit,numa", "bestfit",
)  # fmt: skip
VENDORS = ("NVIDIA", "ACME")
TYPES = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA-Tesla T4", "")
MODES = ("hami-core", "mps", "")
KINDS = {"init": ContainerKind.INIT, "sidecar": ContainerKind.SIDECAR, "app": ContainerKind.APP}

Nodes = Sequence[Sequence[Card]]


def check(nodes: Nodes, wish: Wish) -> Counter[str]:
    """Assert that the product finds on every node what the twin finds; count the nodes per outcome."""
    matrix, allocator = DeviceMatrix(3), make_allocator(wish)
    for row, cards in enumerate(nodes):
        matrix.replace(row, [device(card) for card in cards])
        for card in cards:
            number = matrix.position(row, card.uuid)
            assert number is not None
            matrix.charge(number, (card.used, card.used_memory, card.used_cores), 1)
    matrix.ensure_rows(len(nodes))
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
        outcomes.update(reasons or ["fits"])
    return outcomes


def device(card: Card) -> Device:
    total = (card.count, card.memory, card.cores)
    return Device(
        card.uuid, card.vendor, card.type, total, card.index, card.numa, card.mode, card.healthy, card.cordoned
    )


def make_allocator(wish: Wish) -> HamiAllocator:
    rules = DeviceRules(
        tuple(part.lower() for part in wish.rules.use_types),
        tuple(part.lower() for part in wish.rules.no_use_types),
        frozenset(wish.rules.use_uuids),
        frozenset(wish.rules.no_use_uuids),
        wish.rules.mode,
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
    return HamiAllocator(claims, rules, order, CardChoice(weights=(slots, memory, cores), limits=limits))


def claim(ask: Ask) -> Claim:
    percent = 0 if ask.percent == UNSET else ask.percent
    return Claim(ask.vendor, ask.nums, (1, ask.memory, ask.cores), (0, percent, 0))


Picks = list[list[tuple[str, str, int, int]]]


def picks(allocator: HamiAllocator, matrix: DeviceMatrix, row: int) -> Picks | None:
    containers = allocator.place(matrix, row)
    if containers is None:
        return None
    return [[(a.vendor, a.uuid, a.amounts[1], a.amounts[2]) for a in container] for container in containers]


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
    nodes = [random_cards(rng, node, mixed) for node in range(number(rng, 1, 6))]
    return nodes, random_wish(rng, [card.uuid for cards in nodes for card in cards], mixed)


def random_cards(rng: np.random.Generator, node: int, mixed: bool) -> list[Card]:
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
        cards.append(card)
    return cards


def random_wish(rng: np.random.Generator, uuids: Sequence[str], mixed: bool) -> Wish:
    kinds = [some(rng, "init", "sidecar") for _ in range(number(rng, 0, 2) if rng.random() < 0.5 else 0)]
    kinds += ["app"] * number(rng, 1, 3)
    containers = [
        Container(f"c{i}", kind, () if rng.random() < 0.2 else random_asks(rng, mixed)) for i, kind in enumerate(kinds)
    ]
    if not any(container.asks for container in containers):
        containers[-1] = Container("last", "app", random_asks(rng, mixed))
    weights = (1, 1, 1) if rng.random() < 0.7 else (number(rng, 0, 3), number(rng, 0, 3), number(rng, 1, 3))
    return Wish(
        tuple(containers),
        random_rules(rng, uuids),
        POLICIES[number(rng, 0, len(POLICIES) - 1)],
        bool(rng.random() < 0.5),
        weights,
        random_limits(rng) if rng.random() < 0.2 else Limits(),
    )


def random_limits(rng: np.random.Generator) -> Limits:
    """One limit, mostly: each of them bars many cards."""
    return Limits(
        allow=(("a100", "h100"), ("NVIDIA",)) if rng.random() < 0.3 else (),
        deny=("Tesla",) if rng.random() < 0.3 else (),
        modes=(("hami-core", "mps"), ("hami-core",)) if rng.random() < 0.3 else (),
        most_memory=some(rng, 16384, 24576) if rng.random() < 0.3 else None,
        exclusive=bool(rng.random() < 0.3),
    )


def random_asks(rng: np.random.Generator, mixed: bool) -> tuple[Ask, ...]:
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
        mode=some(rng, "hami-core", "mps", "hami-core,mps", "") if rng.random() < 0.1 else None,
        numa_bind=bool(rng.random() < 0.3),
    )


def main(count: int) -> None:
    rng = np.random.default_rng(8)
    fits = sum(check(*random_world(rng))["fits"] for _ in range(count))
    how = "compiled" if hasattr(fit_nodes, "py_func") else "interpreted"
    print(f"{count} worlds, {fits} nodes fit, {how}")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""The worked examples of the topology-aware mode: by the rule as it is written, and by the product on a whole node.

One example gives totals that no table of pairs has. Its table here adds up the totals of the two cards of a pair: then
the totals of the table stand in the order of the example's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tests.naive import documented as literal

from vgpu_scheduler.allocators import HamiAllocator, card_order
from vgpu_scheduler.dialects.hami.rules import DeviceRules
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device, OrderKind
from vgpu_scheduler.state import DeviceMatrix

Obj = dict[str, Any]
Pairs = dict[tuple[str, str], int]


def literal_topology(inputs: Obj) -> Obj:
    """Say what the document's rule says."""
    return _answer(inputs, literal.linked)


def product_topology(inputs: Obj) -> Obj:
    """Say what the product says."""
    return _answer(inputs, _chosen)


def _answer(inputs: Obj, choose: Any) -> Obj:
    if "cases" in inputs:
        return {"actions": [_action(case["candidates"], case["requested"], choose) for case in inputs["cases"]]}
    if "total_pair_score" in inputs:
        totals = inputs["total_pair_score"]
        pairs = {(a, b): totals[a] + totals[b] for a, b in combinations(totals, 2)}
        (card,) = choose(list(totals), pairs, 1)
        return {"chosen": card, "score": totals[card]}
    if "candidates" in inputs:
        return _subsets(inputs["candidates"], inputs["count"], choose)
    pairs = {(entry["pair"][0], entry["pair"][1]): entry["score"] for entry in inputs["pairs"]}
    cards = sorted({card for pair in pairs for card in pair})
    picks = choose(cards, pairs, inputs["count"])
    within = {subset: sum(pairs[two] for two in combinations(subset, 2)) for subset in _all(cards, inputs["count"])}
    return {
        "chosen": picks,
        "score": within[tuple(picks)],
        "scores": {"+".join(subset): score for subset, score in within.items()},
        "totals": {card: sum(score for pair, score in pairs.items() if card in pair) for card in cards},
    }


def _all(cards: Sequence[str], count: int) -> list[tuple[str, ...]]:
    return list(combinations(cards, count))


def _action(candidates: int, requested: int, choose: Any) -> str:
    """Name what was done by what came out: the last two cards are linked closest."""
    cards = [f"card-{number}" for number in range(candidates)]
    pairs = {(a, b): 100 if {a, b} == set(cards[-2:]) else 10 for a, b in combinations(cards, 2)}
    picks = choose(cards, pairs, requested)
    if picks is None:
        return "fail"
    if picks == cards:
        return "take all"
    return {1: "lowest single total", 2: "best subset"}[requested] if picks in (cards[:1], cards[-2:]) else str(picks)


def _subsets(cards: Sequence[str], count: int, choose: Any) -> Obj:
    """List the subsets in the order in which they are taken where all that are left are equal."""
    found: list[tuple[str, ...]] = []
    left = _all(cards, count)
    while left:
        pairs = {(a, b): int((a, b) in left) for a, b in combinations(cards, 2)}
        found.append(tuple(choose(cards, pairs, count)))
        left.remove(found[-1])
    return {"number": len(found), "combinations": [list(subset) for subset in found]}


def _chosen(cards: Sequence[str], pairs: Mapping[tuple[str, str], int], count: int) -> list[str] | None:
    """Place a claim for so many cards on a node that walks them in this order."""
    links: dict[str, list[tuple[str, int]]] = {card: [] for card in cards}
    for (a, b), score in pairs.items():
        links[a].append((b, score))
        links[b].append((a, score))
    matrix = DeviceMatrix(3)
    listed = [
        Device(card, "NVIDIA", "NVIDIA T4", (10, 1000, 100), number, links=tuple(sorted(links[card])))
        for number, card in enumerate(reversed(cards))  # equal cards are tried from the last on
    ]
    matrix.replace(0, listed)
    claims = (ContainerClaims("c", ContainerType.APP, (Claim("NVIDIA", count, (1, 1, 0), (0, 0, 0)),)),)
    order = card_order("topology-aware", OrderKind.NUMA_FIRST, numa_bind=False)
    placed = HamiAllocator(claims, DeviceRules(), order).place(matrix, 0)
    return None if placed is None else [assignment.uuid for assignment in placed[0]]

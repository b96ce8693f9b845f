"""Nodes and pods for the scorers' kernels, and the comparison with their twins.

``python -m tests.kernels.score_worlds COUNT`` checks that many random worlds, for a run in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from tests.kernels.worlds import KINDS, claim, device, number, random_cards, random_wish, some
from tests.naive import binpack, fragmentation, priced
from tests.naive.hami_values import UNSET, Card, Container

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kernels import CardPrices, binpack_nodes
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.model import ContainerClaims, DeviceResource
from vgpu_scheduler.scorers import BinpackScorer, CompiledScorer, FragmentationScorer, ScoredPod
from vgpu_scheduler.state import State

RESOURCES = {
    "nvidia.com/gpu": DeviceResource("NVIDIA", 0),
    "nvidia.com/gpumem": DeviceResource("NVIDIA", 1),
    "nvidia.com/gpumem-percentage": DeviceResource("NVIDIA", 1, percent=True),
    "nvidia.com/gpucores": DeviceResource("NVIDIA", 2),
    "acme.com/memory": DeviceResource("ACME", 1),
}
NAMES = ("cpu", "memory", "pods", "example.com/foo", "example.com/nowhere", "count/pods", *RESOURCES)


@dataclass
class World:
    """Nodes with their cards and what is used of both, and a pod."""

    cards: list[list[Card]]
    offered: list[dict[str, int]]
    used: list[dict[str, int]]
    requests: dict[str, int]
    containers: tuple[Container, ...]
    weights: dict[str, int]

    def state(self, order: Sequence[int] | None = None) -> State:
        """The world as a state whose nodes were seen in this order."""
        state = State({"hami": 12})
        for node in range(len(self.cards)) if order is None else order:
            texts = {
                name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in self.offered[node].items()
            }
            wire = {"metadata": {"name": f"node-{node}"}, "spec": {}, "status": {"allocatable": texts}}
            state.observe_node(decode_node(wire), {"hami": [device(card) for card in self.cards[node]]})
            row = state.nodes.row(f"node-{node}")
            assert row is not None
            state.nodes.charge(row, {k: v for k, v in self.used[node].items() if k != "pods"}, self.used[node]["pods"])
            for card in self.cards[node]:
                position = state.devices.position(row, card.uuid)
                assert position is not None
                state.devices.charge(position, (card.used, card.used_memory, card.used_cores), 1)
        return state

    def workload(self) -> ScoredPod:
        claims = tuple(ContainerClaims(c.name, KINDS[c.kind], tuple(map(claim, c.asks))) for c in self.containers)
        return ScoredPod(self.requests, claims, RESOURCES)


def check(world: World, rng: np.random.Generator) -> tuple[int, int, int]:
    """Assert that all scorers say what their twins say; count the scores that are neither of the ends."""
    state = world.state()
    packed = scores(BinpackScorer(tuple(world.weights.items())).compile(world.workload()), state)
    whole = scores(FragmentationScorer().compile(world.workload()), state)
    for node, cards in enumerate(world.cards):
        name = f"node-{node}"
        assert abs(packed[name] - 100 * naive_binpack(world, node)) < 1e-9, name
        cpu, used = world.offered[node]["cpu"], world.used[node].get("cpu", 0)
        assert whole[name] == fragmentation.points(cards, cpu, used, world.requests.get("cpu", 0), world.containers)
    with_prices = check_prices(world, state, rng)
    return tuple(sum(0 < score < 100 for score in found.values()) for found in (packed, whole, with_prices))  # type: ignore[return-value]


def check_prices(world: World, state: State, rng: np.random.Generator) -> dict[str, float]:
    """Assert that the scores with prices are those of the twin, and that the terms add up to them."""
    prices = random_prices(rng, len(state.devices.models))
    state.replace_prices({"hami": prices})
    known = known_prices(prices, state.devices.models)
    compiled = FragmentationScorer(learned=True).compile(world.workload())
    found = scores(compiled, state)
    claimed = {ask.vendor for container in world.containers for ask in container.asks}
    unknown = claimed - {vendor for vendor, _, _ in known}
    for node, cards in enumerate(world.cards):
        name = f"node-{node}"
        cpu, used = world.offered[node]["cpu"], world.used[node].get("cpu", 0)
        asked = world.requests.get("cpu", 0)
        if unknown:
            assert found[name] == fragmentation.points(cards, cpu, used, asked, world.containers), name
            continue
        assert found[name] == priced.points(cards, cpu, used, asked, world.containers, known), name
        row = state.nodes.row(name)
        assert row is not None
        fit = FitColumns.empty(state.nodes.capacity)
        compiled.score(state, np.array([row], dtype=np.int64), fit)
        terms = dict(compiled.terms(state, row, fit))
        if cards and 0 < found[name] < 100:
            assert abs(50 + sum(terms.values()) - found[name]) < 1 / 16, name
    return found


def random_prices(rng: np.random.Generator, models: int) -> CardPrices:
    """Prices of all models but perhaps the last, all of them short binary fractions."""
    models -= int(models > 0 and rng.random() < 0.3)
    sizes = number(rng, 0, 3)

    def fractions(*shape: int) -> NDArray[np.float64]:
        return rng.integers(0, 65, shape) / 64

    return CardPrices(
        known=np.ones(models, dtype=np.bool_),
        worth=np.sort(fractions(models, 2, 101), axis=2),
        dearest=fractions(models),
        beside=fractions(models),
        stranding=fractions(models),
        per_card=rng.choice([0.0, 500.0, 4000.0], models),
        contended=fractions(models),
        cards=rng.integers(1, 4, sizes),
        cpu=rng.integers(0, 9, sizes) * 1000,
        reserve=fractions(models, sizes),
    )


def known_prices(
    prices: CardPrices, models: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], priced.ModelPrices]:
    """The prices for the twin."""
    found = {}
    for number_of, model in enumerate(models[: len(prices.known)]):
        reserve: dict[tuple[int, int], Fraction] = {}
        for cards, cpu, price in zip(prices.cards, prices.cpu, prices.reserve[number_of], strict=True):
            size = int(cards), int(cpu)
            reserve[size] = reserve.get(size, Fraction(0)) + Fraction(float(price))
        memory, cores = ([Fraction(float(worth)) for worth in table] for table in prices.worth[number_of])
        columns = (prices.dearest, prices.beside, prices.stranding, prices.per_card, prices.contended)
        values = (Fraction(float(column[number_of])) for column in columns)
        found[model] = priced.ModelPrices(memory, cores, *values, reserve)
    return found


def scores(compiled: CompiledScorer, state: State) -> dict[str, float]:
    """Scores by node name, all of which are within the documented range."""
    rows: NDArray[np.int64] = state.nodes.rows()
    found = compiled.score(state, rows, FitColumns.empty(state.nodes.capacity))
    assert found.shape == rows.shape
    assert found.dtype == np.float64
    assert ((found >= 0) & (found <= 100)).all()
    return {state.nodes.name(row): float(score) for row, score in zip(rows.tolist(), found, strict=True)}


def naive_binpack(world: World, node: int) -> float:
    asked, used, capacity = {**world.requests, "pods": 1}, dict(world.used[node]), dict(world.offered[node])
    for name, stands in RESOURCES.items():
        if capacity.get(name) or name not in world.weights:
            continue
        own = [card for card in world.cards[node] if card.vendor == stands.vendor]
        totals, useds = ([amounts(card)[stands.dimension] for card in own] for amounts in (_total, _used))
        slices = [_slices(container, stands) for container in world.containers]
        found = binpack.device_amounts(totals, useds, slices, in_percent=stands.percent)
        asked[name], used[name], capacity[name] = found
    return binpack.score({name: asked[name] for name in asked if name != "count/pods"}, used, capacity, world.weights)


def _total(card: Card) -> tuple[int, int, int]:
    return card.count, card.memory, card.cores


def _used(card: Card) -> tuple[int, int, int]:
    return card.used, card.used_memory, card.used_cores


def _slices(container: Container, stands: DeviceResource) -> list[binpack.Slice]:
    found = []
    for ask in container.asks:
        if ask.vendor == stands.vendor:
            amount = (1, ask.memory, ask.cores)[stands.dimension]
            percent = ask.percent if stands.dimension == 1 and ask.percent != UNSET else 0
            found.append(binpack.Slice(container.kind, ask.nums, amount, percent))
    return found


# Chance ------------------------------------------------------------------------------------------------------------


def random_world(rng: np.random.Generator) -> World:
    mixed = bool(rng.random() < 0.3)
    cards = [random_cards(rng, node, mixed=mixed) for node in range(number(rng, 1, 6))]
    offered = [_offered(rng) for _ in cards]
    used = [_some_of(rng, amounts) for amounts in offered]
    requests = {name: number(rng, 1, 4000) for name in ("cpu", "memory") if rng.random() < 0.8}
    requests |= {name: number(rng, 0, 3) for name in ("nvidia.com/gpu", "example.com/foo", "count/pods", "none")}
    wish = random_wish(rng, [], mixed=mixed)
    containers = wish.containers if rng.random() < 0.8 else ()
    weights = {name: some(rng, 0, 1, 1, 5, 100) for name in NAMES if rng.random() < 0.5}
    return World(cards, offered, used, requests, containers, {"cpu": 1, "memory": 1} | weights)


def _offered(rng: np.random.Generator) -> dict[str, int]:
    offered = {"cpu": some(rng, 0, 4000, 8000, 8000, 64000), "memory": some(rng, 0, 4096, 65536), "pods": 110}
    for name in ("nvidia.com/gpu", "example.com/foo", "count/pods"):
        if rng.random() < 0.3:
            offered[name] = number(rng, 0, 9)
    return offered


def _some_of(rng: np.random.Generator, offered: Mapping[str, int]) -> dict[str, int]:
    share = rng.random() * 1.1
    return {name: int(amount * share) for name, amount in offered.items()}


def main(count: int) -> None:
    rng = np.random.default_rng(8)
    found = [sum(counts) for counts in zip(*(check(random_world(rng), rng) for _ in range(count)), strict=True)]
    how = "compiled" if hasattr(binpack_nodes, "py_func") else "interpreted"
    print(f"{count} worlds, {found[0]}, {found[1]} and {found[2]} scores, {how}")


if __name__ == "__main__":
    main(int(sys.argv[1]))

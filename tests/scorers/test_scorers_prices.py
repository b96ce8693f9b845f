"""Prices of whatever cards there are, from whatever pods ask for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.score_worlds import World, random_world, scores
from tests.kernels.worlds import KINDS, claim

from vgpu_scheduler.kernels import CardPrices
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, PodClaims
from vgpu_scheduler.scorers import FragmentationScorer, RequestClass, learn_prices, same_prices
from vgpu_scheduler.scorers.prices import LEAST_SEEN, MOST_CONTENDED, RESERVE
from vgpu_scheduler.state import State

ABSURD = (0, 1, 100, 1 << 20, 1 << 62)


def asked_of(state: State, rng: np.random.Generator, claims: PodClaims, pods: int) -> RequestClass:
    """So many pods, that may use all models or only some of them."""
    columns, (numbers, _) = state.devices.columns, state.devices.listed_numbers()
    reach = np.bincount(columns.model[numbers], minlength=len(state.devices.models))
    if rng.random() < 0.4:
        reach = reach * rng.integers(0, 2, reach.shape[0])
    return RequestClass(claims, int(rng.choice([0, 100, 4000, 1 << 40])), pods, reach)


def random_claims(rng: np.random.Generator, world: World) -> PodClaims:
    if rng.random() < 0.7:
        return tuple(ContainerClaims(c.name, KINDS[c.kind], tuple(map(claim, c.asks))) for c in world.containers)

    def amounts() -> tuple[int, ...]:
        return tuple(int(rng.choice(ABSURD)) for _ in range(3))

    kind = ContainerType(int(rng.integers(0, 3)))
    one = Claim(str(rng.choice(["NVIDIA", "ACME"])), int(rng.choice([1, 2, 1 << 20])), amounts(), amounts())
    return (ContainerClaims("c", kind, (one,)),)


def check_sane(prices: CardPrices) -> None:
    assert all(np.isfinite(column).all() for column in prices)
    assert (prices.worth[:, :, 0] == 0).all()
    assert ((prices.worth >= 0) & (prices.worth <= 1 + 1e-9)).all()
    assert (np.diff(prices.worth, axis=2) >= 0).all()
    assert ((prices.contended >= 0) & (prices.contended <= MOST_CONTENDED)).all()
    assert ((prices.reserve >= 0) & (prices.reserve <= RESERVE)).all()
    assert (prices.dearest > 0).all()
    assert (prices.cards > 1).all()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_for(seed: int) -> None:
    """Zero memory, absurd amounts, several vendors, sick cards, cards in pieces: prices are sane, or there are none.

    The order in which pods come makes no difference, nor whether equal pods come as one kind or as two.
    """
    rng, priced = np.random.default_rng(seed), 0
    for _ in range(150):
        world = random_world(rng)
        state = world.state()
        kinds = [
            asked_of(state, rng, random_claims(rng, random_world(rng)), int(rng.choice([1, 40, 70, 10**5])))
            for _ in range(int(rng.integers(0, 6)))
        ]
        prices = learn_prices(state.devices, state.nodes, kinds)
        split = [
            RequestClass(kind.claims, kind.cpu, part, kind.reach)
            for kind in reversed(kinds)
            for part in (1, kind.pods - 1)
        ]
        assert same_prices(prices, learn_prices(state.devices, state.nodes, split))
        if prices is None:
            continue
        priced += 1
        check_sane(prices)
        state.replace_prices({"hami": prices})
        scores(FragmentationScorer(learned=True).compile(world.workload()), state)
    assert priced > 20


def test_no_cards_and_no_claims() -> None:
    state = State({"hami": 3})
    assert learn_prices(state.devices, state.nodes, []) is None
    claims = (ContainerClaims("c", ContainerType.APP, (Claim("NVIDIA", 1, (1, 100, 0), (0, 0, 0)),)),)
    nothing = np.zeros(0, dtype=np.int64)
    assert learn_prices(state.devices, state.nodes, [RequestClass(claims, 1, LEAST_SEEN, nothing)]) is None

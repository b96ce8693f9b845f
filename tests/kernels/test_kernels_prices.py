"""What rests of a card are worth: against the twin, and against what prices must be whatever is asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import priced

from vgpu_scheduler.kernels import PERCENT, price_scratch, price_shares

mixes = st.dictionaries(st.integers(1, 100), st.integers(1, 1000), min_size=1, max_size=8)


def priced_by_kernel(asked: dict[int, int], rounds: int) -> tuple[dict[int, float], list[float]]:
    shares = np.array(sorted(asked), dtype=np.int64)
    scratch, worth = price_scratch(len(asked)), np.full(PERCENT + 1, 7.0)
    parts = np.array([asked[share] for share in sorted(asked)]) / sum(asked.values())
    price_shares(shares, parts, rounds, scratch, worth)
    return dict(zip(sorted(asked), scratch.best.tolist(), strict=True)), worth.tolist()


@settings(max_examples=100, deadline=None)
@given(mixes, st.integers(1, 20))
def test_as_the_twin(asked: dict[int, int], rounds: int) -> None:
    together = sum(asked.values())
    prices, worth = priced.price_shares({share: number / together for share, number in asked.items()}, rounds)
    found_prices, found_worth = priced_by_kernel(asked, rounds)
    assert found_prices == pytest.approx(prices, abs=1e-9)
    assert found_worth == pytest.approx(worth, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(mixes)
def test_what_a_card_is_worth(asked: dict[int, int]) -> None:
    _, worth = priced_by_kernel(asked, 100)
    assert worth[0] == 0
    assert worth[PERCENT] == pytest.approx(1)
    assert worth == sorted(worth), "more is never worth less"
    assert all(worth[left] == 0 for left in range(min(asked))), "nobody asks for so little"
    for one in range(0, PERCENT + 1, 7):
        for other in range(0, PERCENT + 1 - one, 7):
            assert worth[one] + worth[other] <= worth[one + other] + 1e-9, "two rests are not worth more than one"


@pytest.mark.parametrize(
    ("asked", "worth"),
    [
        ({50: 1}, {49: 0.0, 50: 0.5, 99: 0.5, 100: 1.0}),
        ({81: 1}, {19: 0.0, 80: 0.0, 81: 1.0}),
        ({100: 1}, {99: 0.0, 100: 1.0}),
        ({1: 1}, {1: 0.01, 50: 0.5}),
        # Whoever asks for 60 leaves room for 40, of which there are enough: that is what 40 are worth. A fourth of the
        # pods cannot fill what the others leave, so that room is for nothing.
        ({40: 3, 60: 1}, {39: 0.0, 40: 0.5, 60: 0.5, 80: 1.0}),
        ({40: 1, 60: 3}, {39: 0.0, 40: 0.0, 60: 1.0}),
    ],
)
def test_worth_by_hand(asked: dict[int, int], worth: dict[int, float]) -> None:
    _, found = priced_by_kernel(asked, 2000)
    assert {left: found[left] for left in worth} == pytest.approx(worth, abs=0.05)


def test_rare_and_tiny_shares_do_no_harm() -> None:
    _, worth = priced_by_kernel({1: 1, 2: 1, 99: 10**9}, 400)
    assert np.isfinite(worth).all()
    assert worth[PERCENT] == pytest.approx(1)

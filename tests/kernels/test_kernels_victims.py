"""What the pods of nodes cost at least that would have to end, against the twin, compiled and interpreted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.interpreted import run_interpreted
from tests.kernels.victim_worlds import by_kernel, compare, random_card
from tests.naive.victims import cheapest_set


@pytest.mark.parametrize("worlds", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_as_the_twin(worlds: int) -> None:
    assert compare(worlds) > worlds // 2


def test_as_the_twin_without_the_compiler() -> None:
    assert int(run_interpreted("victim_worlds", 100)) > 50


def test_many_pods_on_a_card_cost_no_more_than_is_said() -> None:
    """Beyond so many pods only a bound is said; it must not be above what the cheapest set costs."""
    compared = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        card = random_card(rng, most=15)
        if len(card.occupants) < 13:
            continue
        needed = (1, int(rng.integers(1, 20)) * 1000, 0)
        cheapest = cheapest_set(card, needed, (0, 0, 0), 6)
        (bound,) = by_kernel([[card]], needed, (0, 0, 0), 6)
        assert (bound is None) == (cheapest is None)
        if bound is not None and cheapest is not None:
            compared += 1
            assert bound <= cheapest
    assert compared

"""The largest amount that fits is found, also where it is the only one."""

from __future__ import annotations

import numpy as np
import pytest

from vgpu_scheduler.whatif.advice.searching import largest_that_fits


@pytest.mark.parametrize("seed", range(60))
def test_amounts_that_fit_among_others_that_do_not_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    amounts = range(1, int(rng.integers(2, 66)))
    fit = {int(amount) for amount in rng.choice(amounts, size=int(rng.integers(1, 4)))} - {1}
    found = largest_that_fits(lambda amount: "a" if amount in fit else "", amounts)
    assert found == ((max(fit), "a") if fit else None)


@pytest.mark.parametrize("seed", range(60))
def test_of_amounts_of_which_all_smaller_ones_fit_the_largest_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    end = int(rng.integers(2, 100_000))
    most = int(rng.integers(1, end))
    asked: list[int] = []

    def node_with(amount: int) -> str:
        asked.append(amount)
        return "a" if amount <= most else ""

    found = largest_that_fits(node_with, range(1, end))
    assert found == (most, "a")
    assert len(asked) <= 70

"""Seeds of tests so slow that each run plays fewer of them than of others; see ``tests/conftest.py``."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(often: int, every: int) -> list[Any]:
    """Return the first seeds, and those up to ``every`` marked as long.

    Parameters
    ----------
    often
        How many ``make test`` plays.
    every
        How many there are.
    """
    return [*range(often), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(often, every))]

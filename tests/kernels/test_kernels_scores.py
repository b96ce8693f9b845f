"""The kernels of binpack and fragmentation against their twins, in many random worlds."""

import re

import numpy as np
import pytest
from tests.kernels.interpreted import run_interpreted
from tests.kernels.score_worlds import check, random_world
from tests.seeds import seeds

WORLDS = 1000


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_many_worlds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [check(random_world(rng), rng) for _ in range(WORLDS)]
    for counts in zip(*found, strict=True):
        assert sum(counts) > WORLDS


def test_the_same_without_the_compiler() -> None:
    """What the interpreter makes of the kernels, with overflow and division as errors."""
    printed = run_interpreted("score_worlds", 40)
    assert re.fullmatch(r"40 worlds, \d\d+, \d\d+ and \d\d+ scores, interpreted\n", printed), printed

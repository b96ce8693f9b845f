"""The kernels of binpack and fragmentation against their twins, in many random worlds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.score_worlds import check, random_world

WORLDS = 1000
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(3))
def test_many_worlds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [check(random_world(rng)) for _ in range(WORLDS)]
    assert sum(packed for packed, _ in found) > WORLDS
    assert sum(whole for _, whole in found) > WORLDS


def test_the_same_without_the_compiler() -> None:
    """What the interpreter makes of the kernels, with overflow and division as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.kernels.score_worlds", "40"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"40 worlds, \d\d+ and \d\d+ scores, interpreted\n", done.stdout), done.stdout

"""That a claim is not there is understood as it is said."""

from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import seeds

from vgpu_scheduler.predicates import MissingClaim


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_what_is_said_of_claims_is_read_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    claims = [MissingClaim(f"c-{n}.x") for n in rng.integers(0, 99, int(rng.integers(0, 4)))]
    message = f"0/3 nodes are available: {'. '.join(map(str, claims))}. persistentvolumeclaim 'x' is gone"
    assert MissingClaim.found_in(message) == claims

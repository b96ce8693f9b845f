"""That a claim is not there is understood as it is said."""

from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import seeds

from vgpu_scheduler.predicates import MissingVolumeClaim, is_about_volume_claims
from vgpu_scheduler.predicates.volumes.claim_messages import awaited_claim, deleted_claim, lost_claim


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_what_is_said_of_claims_is_read_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    claims = [MissingVolumeClaim(f"c-{n}.x") for n in rng.integers(0, 99, int(rng.integers(0, 4)))]
    message = f"0/3 nodes are available: {'. '.join(map(str, claims))}. persistentvolumeclaim 'x' is gone"
    assert MissingVolumeClaim.found_in(message) == claims


@pytest.mark.parametrize(
    "said", [str(MissingVolumeClaim("c")), awaited_claim("c"), lost_claim("c", "v"), deleted_claim("c")]
)
def test_what_is_said_of_a_claim_is_known_to_be_about_it(said: str) -> None:
    assert is_about_volume_claims(f"0/3 nodes are available: {said}.")
    assert not is_about_volume_claims("0/3 nodes are available: 3 CardInsufficientMemory.")

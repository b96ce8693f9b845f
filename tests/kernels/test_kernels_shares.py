"""The kernels of DeviceShare, scores and fit, against their twins in many random worlds."""

import re
from collections import Counter

import numpy as np
import pytest
from tests.kernels.interpreted import run_interpreted
from tests.kernels.share_worlds import check, check_cards, random_card_world, random_share_world
from tests.naive import shares
from tests.seeds import seeds

WORLDS = 1500


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_devices_that_are_shared_by_amounts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(WORLDS):
        outcomes += check(random_share_world(rng))
    assert outcomes["fits"] > WORLDS / 3
    assert outcomes["scores"] > WORLDS
    assert {*shares.REASONS, "CardNotHealth", "CardCordoned", "CardDeniedByPolicy"} <= outcomes.keys()
    assert {"ExclusiveDeviceAllocateConflict", "NodeInsufficientDevice"} <= outcomes.keys()
    assert {"AllocatedCardsInsufficientRequest", "NumaNotFit", "ModeNotFit", "CardLabelMismatch"} <= outcomes.keys()
    assert {"CardVirtualFunctionsExhausted", "CardPartitionNotFit"} <= outcomes.keys()


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_hami_cards_in_the_order_of_the_device_score(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert sum(check_cards(*random_card_world(rng)) for _ in range(WORLDS)) > WORLDS


def test_the_same_without_the_compiler() -> None:
    """What the interpreter makes of the kernels, with overflow and division as errors."""
    printed = run_interpreted("share_worlds", 60)
    assert re.fullmatch(r"60 worlds, \d+ and \d+ nodes fit, interpreted\n", printed), printed

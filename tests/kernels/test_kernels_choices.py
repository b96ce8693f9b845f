"""Every way of choosing several cards against its twin, in many random worlds."""

import re

import numpy as np
import pytest
from tests.kernels.choice_worlds import RULES, check, random_world
from tests.kernels.interpreted import run_interpreted
from tests.naive.choices import CHOICES

from vgpu_scheduler.allocators import Selection

WORLDS = 600


def test_there_is_a_world_for_every_way() -> None:
    linked = {Selection.LINKED}  # a policy of the pod: tests.kernels.worlds has it
    assert {rules.selection for rules in RULES.values()} == set(Selection) - linked
    assert RULES.keys() == {*CHOICES, "same"}


@pytest.mark.parametrize("way", sorted(RULES))
def test_cards_are_chosen_as_the_twin_chooses(way: str) -> None:
    rng = np.random.default_rng(4)
    fits = full = 0
    for _ in range(WORLDS):
        nodes, wants = random_world(way, rng)
        fitting = check(way, nodes, wants)
        fits, full = fits + fitting, full + len(nodes) - fitting
    assert fits > WORLDS / 2
    assert full > WORLDS / 50


def test_the_same_without_the_compiler() -> None:
    """What the interpreter makes of the kernels, with overflow and division as errors."""
    printed = run_interpreted("choice_worlds", 30)
    assert re.fullmatch(r"30 worlds of each, \d\d+ of all fit, interpreted\n", printed), printed

"""A quota that is smaller than the smallest piece of a card: nobody is told to ask for less than there is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.whatif.test_whatif_less_of_several import quota
from tests.whatif.test_whatif_mismatch import MODE, with_cards
from tests.whatif.test_whatif_remedies import GPU, MEMORY, pod, world_of
from tests.whatif.test_whatif_said_once import told_to_a_tenant

from vgpu_scheduler.whatif import ask

LESS = re.compile(r"ask (?:for less than )?(\d+) of nvidia.com/gpumem")
SIZES = {"NVIDIA-A30": 6144, "NVIDIA-A100-SXM4-40GB": 5120, "NVIDIA-A100-SXM4-80GB": 10240}
SMALLEST = 4864


@pytest.mark.parametrize("seed", range(60))
def test_nobody_is_told_to_ask_for_less_than_the_smallest_piece(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = str(rng.choice(list(SIZES)))
    limits = {GPU: int(rng.integers(1, 3))}
    if rng.random() < 0.8:
        limits[MEMORY] = int(rng.integers(100, 12000))
    most = int(rng.integers(100, 16000))
    mode = {"annotations": {MODE: "mig"}} if rng.random() < 0.7 else {}
    objects = (with_cards(0, model, "mig"), quota("q", gpumem=most), pod("asked", limits, metadata=mode))
    node, told = told_to_a_tenant(*objects)
    if node or "ResourceQuotaNotFit" not in ask(*world_of(*objects)).decision.message:
        return
    assert told
    asks_less = [text for text in told if LESS.search(text)]
    if mode and (most < SMALLEST * limits[GPU] or limits.get(MEMORY, SMALLEST + 1) <= SMALLEST):
        assert not asks_less, told
    if mode:
        assert not any(re.search(rf"ask \d+ of {MEMORY}", text) for text in told), told
    assert any("raised" in text for text in told)
    for text in told:
        found = re.search(r"gpumem raised to (\d+)", text)
        if mode and found:  # who does that sees the pod fit
            again = (objects[0], quota("q", gpumem=int(found[1])), objects[2])
            assert ask(*world_of(*again)).node, text

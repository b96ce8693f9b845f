"""A quota that is smaller than the smallest piece of a card: nobody is told to ask for less than there is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.dialects.vendors import MIG
from tests.whatif.test_whatif_less_of_several import quota
from tests.whatif.test_whatif_mismatch import MODE, with_cards
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, world_of
from tests.whatif.test_whatif_said_once import told_to_a_tenant

from vgpu_scheduler.dialects.hami import RegisteredDevice, encode_register_json
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
    there, told = told_to_a_tenant(*objects)
    if there or "ResourceQuotaNotFit" not in ask(*world_of(*objects)).decision.message:
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


@pytest.mark.parametrize("seed", range(60))
def test_the_compute_of_a_piece_is_named_beside_its_memory(seed: int) -> None:
    """Whoever raises all that is named sees the pod fit; where compute is left for whole cards, it is not named."""
    rng = np.random.default_rng(seed)
    listed = RegisteredDevice(
        id="GPU-a-0", index=0, count=7, devmem=81920, devcore=100, type="NVIDIA A100-SXM4-80GB", numa=0, mode="mig",
        health=True, mig_profiles=MIG,
    )  # fmt: skip
    card = node("a", 1)
    card["metadata"]["annotations"]["hami.io/node-nvidia-register"] = encode_register_json([listed])
    memory, most, cores = (int(rng.integers(low, high)) for low, high in ((9729, 40192), (5000, 50000), (1, 130)))
    mode = {"annotations": {MODE: "mig"}} if rng.random() < 0.7 else {}
    asked = pod("asked", {GPU: 1, MEMORY: memory}, metadata=mode)
    placed, told = told_to_a_tenant(card, quota("q", gpumem=most, gpucores=cores), asked)
    assert bool(placed) is (most >= 40192 and cores >= 42)
    if placed or most < memory:  # else it asks for more than the quota leaves, whatever pieces there are
        return
    raised = [text for text in told if "gpumem raised" in text and "whole piece counts" in text]
    assert len(raised) == 1, told
    assert ("gpucores raised" in raised[0]) is (cores < 100)
    if cores < 14:  # the least of a piece
        assert not any("ask for less" in text and "gpumem" in text for text in told), told


@pytest.mark.parametrize("seed", range(60))
def test_a_pod_that_says_no_mode_is_told_when_an_amount_is_no_piece(seed: int) -> None:
    """Nobody who sees no card knows whether it is given out in pieces: what a quota leaves may be less than one."""
    rng = np.random.default_rng(seed)
    model = str(rng.choice(list(SIZES)))
    limits = {GPU: int(rng.integers(1, 3))}
    if rng.random() < 0.7:
        limits[MEMORY] = int(rng.integers(1000, 12000))
    most = int(rng.integers(100, 12000))
    how = ["", "hami-core", "mig"][seed % 3]
    mode = {"annotations": {MODE: how}} if how else {}
    objects = (with_cards(0, model, "hami-core"), quota("q", gpumem=most), pod("asked", limits, metadata=mode))
    there, told = told_to_a_tenant(*objects)
    if there:
        return
    for text in told:
        if "raised" not in text and (found := re.match(r"ask (\d+) of (\S+) ", text)):
            asked = limits | {found[2]: int(found[1])}
            piece = SMALLEST * asked[GPU]
            assert ("split into pieces it counts as" in text) is (not how and piece > most), text
            if "into pieces" in text:
                assert f"it counts as {piece} MiB or more" in text

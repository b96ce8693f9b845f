"""What is said of single cards: reason and figures are about the same thing, for the cards of every vendor."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod, pod_object
from tests.engine.engine_vendors import ALL_VENDORS, AMOUNTS, ASKS, engine_on

from vgpu_scheduler.engine import card_verdicts
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import CardReason

ABOUT = {
    CardReason.CardTimeSlicingExhausted: "slots",
    CardReason.CardInsufficientMemory: "memory",
    CardReason.CardInsufficientCore: "cores",
}


def test_the_figures_are_those_of_the_reason() -> None:
    """Of cores less is free, by far, but it is for the memory that the card is rejected."""
    held = pod("held", annotations=allocation("n", ("n-gpu-0", 1000, 90)), nodeName="n")
    engine = engine_with([node("n", cards("n", 1))], [held])
    (verdict,) = card_verdicts(engine.algorithm, pod("p", asks(1, 7001, 100)), "n")
    assert verdict.reason is CardReason.CardInsufficientMemory
    assert str(verdict.lack) == "7000 of 7001 MiB memory free"
    (verdict,) = card_verdicts(engine.algorithm, pod("q", asks(1, 7000, 100)), "n")
    assert verdict.reason is CardReason.CardInsufficientCore
    assert str(verdict.lack) == "10 of 100 percent cores free"


@pytest.mark.parametrize("seed", range(6))
def test_reasons_and_figures_go_together_whatever_is_asked(seed: int) -> None:
    rng, seen = np.random.default_rng(seed), Counter[CardReason]()
    engine = engine_on(ALL_VENDORS, {**AMOUNTS, "cpu": "64"})
    for number in range(80):
        asked = dict(ASKS[list(ASKS)[int(rng.integers(len(ASKS)))]])
        limits = {
            name: str(int(amount) * int(rng.choice([1, 3, 40, 400]))) if "mem" in name else amount
            for name, amount in asked.items()
        }
        if "nvidia.com/gpu" in asked and rng.random() < 0.7:
            limits["nvidia.com/gpucores"] = str(rng.choice([10, 60, 100]))
        wanted = decode_pod(pod_object(f"p{number}", {"limits": limits, "requests": limits}))
        for verdict in card_verdicts(engine.algorithm, wanted, "n"):
            if verdict.reason not in ABOUT:
                assert verdict.lack is None
                continue
            seen[verdict.reason] += 1
            if verdict.lack is not None:
                assert verdict.lack.dimension == ABOUT[verdict.reason], (limits, verdict)
                assert verdict.lack.free < verdict.lack.asked
        engine.observe_pod(wanted, 0.0)
        engine.attempt(0.0)
        engine.queue.remove(wanted.uid)
    assert seen[CardReason.CardInsufficientMemory] > 20

"""Pods and nodes of three dialects in one engine at once: each decides as it would alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import asks, cards, node_object, pod_object
from tests.engine.dialect_worlds import (
    CORE,
    GPU,
    HAMI,
    KOORDINATOR,
    MEMORY,
    NUMBER,
    PERCENT,
    RATIO,
    VOLCANO,
    asking,
    beside,
    decided,
    engine_of,
    koordinator_node,
    under,
    volcano_node,
)

from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import CardReason


def hami_limits(rng: np.random.Generator) -> dict[str, object]:
    return {
        GPU: int(rng.integers(1, 3)),
        "nvidia.com/gpumem": int(rng.integers(1, 9)) * 1000,
        "nvidia.com/gpucores": int(rng.integers(0, 6)) * 10,
    }


def volcano_limits(rng: np.random.Generator) -> dict[str, object]:
    return {NUMBER: int(rng.integers(1, 3)), MEMORY: int(rng.integers(1, 9)) * 2000, PERCENT: int(rng.integers(0, 60))}


def koordinator_limits(rng: np.random.Generator) -> dict[str, object]:
    percent = int(rng.choice([10, 25, 50, 100, 200]))
    return {CORE: percent, RATIO: percent}


@pytest.mark.parametrize("seed", range(6))
def test_three_dialects_at_once_keep_their_books_and_hami_decides_as_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    together, alone = engine_of(), engine_of(HAMI)
    for number in range(3):
        wire = decode_node(node_object(f"h{number}", cards(f"h{number}", 4)))
        together.observe_node(wire, 0.0)
        alone.observe_node(wire, 0.0)
        together.observe_node(decode_node(volcano_node(f"v{number}", *(f"v{number}-{i}" for i in range(4)))), 0.0)
        together.observe_node(decode_node(koordinator_node(f"k{number}", 4)), 0.0)
        together.observe_inventory(f"k{number}", beside(*(f"k{number}-{i}" for i in range(4))), 0.0)
    kinds = (hami_limits, volcano_limits, koordinator_limits)
    placed, living = 0, []
    for step in range(120):
        asked = kinds[int(rng.integers(3))](rng)
        name = f"p{step}"
        waiting = asking(name, asked)
        decision = decided(together, waiting, float(step))
        if GPU in asked:
            lonely = decided(alone, waiting, float(step))
            assert lonely.placement == decision.placement
            here = {each: count for each, count in decision.reasons.items() if each is not CardReason.NodeUnregistered}
            assert here == lonely.reasons
        if decision.placement is not None:
            placed += 1
            notes = together.dialects.annotations(decision.placement, step, waiting)
            bound = asking(name, asked, nodeName=decision.placement.node, annotations=notes, version=2)
            for engine in (together, alone) if GPU in asked else (together,):
                engine.binding_succeeded(waiting.uid)
                engine.observe_pod(bound, float(step))
            living.append((waiting.uid, GPU in asked))
        else:
            for engine in (together, alone) if GPU in asked else (together,):
                engine.remove_pod(waiting.uid, float(step))
        if living and rng.random() < 0.3:
            uid, hamis = living.pop(int(rng.integers(len(living))))
            for engine in (together, alone) if hamis else (together,):
                engine.remove_pod(uid, float(step))
        assert together.state.ledger() == together.state.rebuild().ledger()
        assert not together.state.over_capacity()
    assert placed > 40
    ours = {node: used for node, used in together.state.ledger().items() if node.startswith("h")}
    assert ours == alone.state.ledger()
    assert together.state.quota_usage.as_values() == together.state.rebuild().quota_usage.as_values()


def test_the_claims_of_one_dialect_are_not_read_by_another() -> None:
    with pytest.raises(ClaimError, match=r"nvidia.com/gpu \(hami\) and koordinator.sh/gpu-core \(koordinator\)"):
        Dialects([HAMI, KOORDINATOR]).of_waiting(asking("p", {GPU: 1, CORE: 1}))


def test_asks_are_read_as_by_hami_alone() -> None:
    wire = decode_pod(pod_object("p", asks(2, 3000, 20)))
    assert Dialects([HAMI, KOORDINATOR]).of_waiting(wire).claims.read(wire) == HAMI.claims.read(wire)


def test_plain_pods_are_scored_by_the_devices_that_a_node_has_the_lowest_score_of_several() -> None:
    scorers = {"nodes": {"scorers": [{"name": "fragmentation"}]}}

    def scored(*dialects: Dialect) -> dict[str, float]:
        engine = under(scorers, engine_of(*dialects))
        both = volcano_node("both", "GPU-b0")
        both["metadata"]["annotations"] |= node_object("both", cards("both", 4))["metadata"]["annotations"]
        for wire in (node_object("h", cards("h", 4)), volcano_node("v", "GPU-v0", "GPU-v1"), both, node_object("bare")):
            engine.observe_node(decode_node(wire), 0.0)
        engine.observe_pod(decode_pod(pod_object("p", {"requests": {"cpu": "8"}})), 0.0)
        decision = engine.attempt(0.0, explain=True)
        assert decision is not None
        return {node: parts[0].raw for node, parts in decision.scores.items()}

    together, hamis, volcanos = scored(HAMI, VOLCANO), scored(HAMI), scored(VOLCANO)
    assert together["h"] == hamis["h"] < hamis["bare"]
    assert together["v"] == volcanos["v"] < volcanos["bare"]
    assert together["both"] == min(hamis["both"], volcanos["both"]) < max(hamis["both"], volcanos["both"])
    assert together["bare"] == hamis["bare"]

"""Pods ahead in the queue: which of them are placed again in questions about the end of pods, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.group_worlds import member, named
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.engine.attempts import Attempts
from vgpu_scheduler.whatif import remedies
from vgpu_scheduler.whatif.advice import remedy
from vgpu_scheduler.whatif.world.queue_order import placing

Object = dict[str, Any]


def drawn(seed: int) -> list[Object]:
    """Return full nodes of two pools, a pod that asks, and pods and a gang ahead of it that fit nowhere."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = []
    for number in range(3):
        name = f"n{number}"
        objects.append(node(name, 2))
        objects[-1]["metadata"]["labels"] = {"pool": "xy"[number % 2]}
        for card in range(2):
            memory = [int(each) for each in rng.integers(5000, 8000, size=2)]
            objects += [
                running(f"t{number}{card}{k}", name, f"GPU-{name}-{card}", each) for k, each in enumerate(memory)
            ]
    pools = [{}, {"nodeSelector": {"pool": "x"}}, {"nodeSelector": {"pool": "y"}}]
    for number in range(int(rng.integers(1, 4))):
        spec = pools[int(rng.integers(3))]
        limits = {GPU: 1, MEMORY: int(rng.integers(7000, 16000))}
        objects.append(waits(f"ahead{number}", limits, number, priority=5, **spec))
    if rng.random() < 0.5:
        spec = pools[int(rng.integers(1, 3))]
        objects += [member(f"g{number}", number, 2, memory=7000, priority=5, **spec) for number in range(2)]
    if rng.random() < 0.3:
        hard = {"hard": {f"limits.{MEMORY}": str(int(rng.integers(80000, 110000)))}}
        metadata = {"name": "q", "namespace": "default"}
        objects.append({"kind": "ResourceQuota", "metadata": metadata, "spec": hard, "status": hard})
    return [*objects, waits("asked", {GPU: 1, MEMORY: 9000}, 9, **pools[int(rng.integers(3))])]


@pytest.mark.parametrize("seed", range(60))
def test_who_cannot_gain_changes_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(*drawn(seed))
    found = [each.as_json() for each in remedies(world, named(world, "asked"))]
    monkeypatch.setattr(remedy, "that_may_gain", lambda _world, waiting, _gone, _node: list(waiting))
    assert [each.as_json() for each in remedies(world, named(world, "asked"))] == found


def test_some_of_these_pods_are_left_out_and_some_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, kept = 0, 0
    really = remedy.that_may_gain

    def counted(*arguments: Any) -> list[Any]:
        nonlocal asked, kept
        found = really(*arguments)
        asked, kept = asked + len(arguments[1]), kept + len(found)
        return found

    monkeypatch.setattr(remedy, "that_may_gain", counted)
    for seed in range(12):
        world = world_of(*drawn(seed))
        remedies(world, named(world, "asked"))
    assert 0 < kept < asked


@pytest.mark.parametrize("size", [2, 5, 9])
def test_a_gang_that_fits_nowhere_is_decided_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(node("a", 1), *(member(f"g{number}", number, size, memory=9000) for number in range(size)))
    decided: list[str] = []
    decide = Attempts.decide

    def counted(self: Attempts, asked: Any, now: float) -> Any:
        decided.append(asked.name)
        return decide(self, asked, now)

    monkeypatch.setattr(Attempts, "decide", counted)
    with placing(world, list(world.pending.values())) as placed:
        assert not placed
    assert len(decided) == 1

"""Quotas, pods and ends of pods in random order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import card, cards, engine_with, node, pod

from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import Outcome

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


@pytest.mark.parametrize("seed", range(8))
def test_nobody_ever_gets_more_than_a_quota_leaves(seed: int) -> None:
    """Pods and quotas in random order; limits that are lowered below what is held admit nothing more."""
    rng = np.random.default_rng(seed)
    mixed = [card(f"b-{n}", memory=int(rng.choice([4000, 8000, 16000])), index=n) for n in range(4)]
    engine = engine_with([node("a", cards("a", 4)), node("b", mixed)])
    spaces = ("default", "team", "free")
    live: list[str] = []
    placed = refused = 0
    for step in range(150):
        now, namespace = float(step * 20), str(rng.choice(spaces))
        action = rng.random()
        if action < 0.2 and namespace != "free":
            name, memory, cores = f"q{rng.integers(2)}", int(rng.choice([0, 3000, 9000, 20000])), int(rng.integers(300))
            limits = {MEMORY: str(memory), **({CORES: str(cores)} if rng.random() < 0.5 else {})}
            made = ResourceQuota(namespace, name, limits, uid=f"{namespace}{name}", resource_version=step + 1)
            (engine.quota_limits.remove if rng.random() < 0.2 else engine.quota_limits.observe)(made)
        elif action < 0.4 and live:
            engine.remove_pod(live.pop(int(rng.integers(len(live)))), now)
        else:
            engine.observe_pod(_random_pod(rng, step, namespace), now)
        before = {space: engine.quota_limits.exceeded(space, engine.state) for space in spaces}
        while (decision := engine.attempt(now)) is not None:
            assert decision.error is None
            where = engine.state.pod(decision.uid)
            assert where is not None
            if decision.outcome is Outcome.PLACED:
                placed += 1
                live.append(decision.uid)
                assert not before[where.namespace], "a namespace that holds too much got more"
                assert not engine.quota_limits.exceeded(where.namespace, engine.state), decision
            else:
                refused += "ResourceQuotaNotFit" in decision.message
        assert engine.state.quota_usage.as_values() == engine.state.rebuild().quota_usage.as_values()
    assert placed > 20
    assert refused > 5
    for uid in [known.uid for known in engine.state.pods()]:
        engine.remove_pod(uid, 1e6)
    assert engine.state.quota_usage.as_values() == {}


def _random_pod(rng: np.random.Generator, number: int, namespace: str) -> Pod:
    def some_asks() -> dict[str, object]:
        gpu, cores = str(rng.integers(1, 4)), str(rng.choice([0, 0, 10, 50]))
        share = {"nvidia.com/gpumem": str(rng.choice([500, 1000, 2000, 4000]))}
        if rng.random() < 0.3:
            share = {"nvidia.com/gpumem-percentage": str(rng.choice([10, 25, 50]))}
        return {"limits": {"nvidia.com/gpu": gpu, "nvidia.com/gpucores": cores, **share}}

    inits = [{"name": f"i{n}", "resources": some_asks()} for n in range(int(rng.integers(0, 3)))]
    for init in inits:
        if rng.random() < 0.4:
            init["restartPolicy"] = "Always"
    policy = {"hami.io/gpu-scheduler-policy": str(rng.choice(["binpack", "spread", "topology-aware"]))}
    return pod(f"p{number}", some_asks(), namespace=namespace, annotations=policy, initContainers=inits)

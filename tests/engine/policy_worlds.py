"""Engines under policies."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import allocation, cards, node, pod
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.model import Decision

SPREAD = {"nodes": {"policy": "spread"}}
PERCENT = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}}


def decide(engine: Engine, now: float = 1.0) -> Decision:
    decision = engine.attempt(now)
    assert decision is not None
    return decision


def with_policies(engine: Engine, *specs: dict[str, Any], namespace: str = "") -> Engine:
    for number, spec in enumerate(specs):
        engine.policy_tracker.observe(policy(f"p{number}", spec, namespace))
    return engine


def remove(engine: Engine, name: str) -> None:
    known = engine.policies.catalogue.get(("ClusterVGPUPolicy", "", name))
    assert known is not None
    engine.policy_tracker.remove(known)


def uneven() -> list[Any]:
    """Node a is half full, b is empty."""
    return [node("a", cards("a", 1)), node("b", cards("b", 1))]


def tenant() -> Any:
    notes = allocation("a", ("a-gpu-0", 4000, 10))
    return pod("tenant", annotations=notes, started=True, nodeName="a")


def placed_on(engine: Engine, now: float) -> str:
    placement = decide(engine, now).placement
    assert placement is not None
    return placement.node

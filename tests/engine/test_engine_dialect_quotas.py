"""Quotas of a namespace in the names of other dialects than HAMi's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.dialect_worlds import GPU, MEMORY, NUMBER, PERCENT, asking, decided, engine_of, mixed, volcano_node

from vgpu_scheduler.dialects.volcano import VolcanoRequests, volcano_dialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import ResourceQuota, decode_node

SHARE = "volcano.sh/vgpu-memory-percentage"


def limited(engine: Engine, **hard: object) -> Engine:
    limits = {f"limits.volcano.sh/vgpu-{name}": str(amount) for name, amount in hard.items()}
    assert engine.quota_limits.observe(ResourceQuota("default", "q", limits, uid="uid-q", resource_version=1)) == ()
    return engine


@pytest.mark.parametrize(
    ("hard", "asked"),
    [
        ({"memory": 2000}, {NUMBER: 1, MEMORY: 1000}),
        ({"memory": 4000}, {NUMBER: 2, MEMORY: 1000}),
        ({"cores": 50}, {NUMBER: 1, MEMORY: 10, PERCENT: 25}),
    ],
)
def test_what_a_namespace_holds_is_bounded_in_volcanos_names(hard: dict[str, Any], asked: dict[str, object]) -> None:
    world = limited(mixed(), **hard)
    for name in ("a", "b"):
        assert decided(world, asking(name, asked)).placement is not None
    decision = decided(world, asking("c", asked))
    assert "1 ResourceQuotaNotFit" in decision.message
    assert decided(world, asking("elsewhere", asked, namespace="other")).placement is not None
    assert decided(world, asking("hamis", {GPU: 1, "nvidia.com/gpumem": 7000})).placement is not None
    world.remove_pod("uid-a", 600.0)
    retried = world.attempt(600.0)
    assert retried is not None
    assert retried.placement is not None


def test_a_limit_counts_in_the_unit_of_requests_and_a_percentage_as_what_it_is() -> None:
    names = VolcanoRequests(memory_percent=SHARE, memory_factor=10)
    world = engine_of(volcano_dialect(names))
    node = volcano_node("v", "GPU-0", "GPU-1")
    listed = node["metadata"]["annotations"]
    listed["volcano.sh/node-vgpu-register"] = listed["volcano.sh/node-vgpu-register"].replace("24576", "2457")
    world.observe_node(decode_node(node), 0.0)
    limited(world, memory=1728)
    assert decided(world, asking("half", {NUMBER: 1, SHARE: 50})).placement is not None, "1228 blocks"
    assert decided(world, asking("rest", {NUMBER: 1, MEMORY: 500})).placement is not None
    assert "ResourceQuotaNotFit" in decided(world, asking("more", {NUMBER: 1, MEMORY: 1})).message

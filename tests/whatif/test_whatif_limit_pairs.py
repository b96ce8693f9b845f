"""A limit of a policy is raised beside another change, where neither alone would do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, check_remedies, node, pod, running, world_of

from vgpu_scheduler.whatif import RemedyType, ask, remedies

Object = dict[str, Any]


def policy(limits: Object) -> Object:
    return {"kind": "ClusterVGPUPolicy", "metadata": {"name": "lim"}, "spec": {"limits": limits}}


@pytest.mark.parametrize("seed", range(60))
def test_fewer_cards_and_a_higher_limit_are_found_together(seed: int) -> None:
    """Every node has one card; one container asks for more, and all containers are more than the limit."""
    rng = np.random.default_rng(seed)
    others, count = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    asked = pod("asked", {GPU: count, MEMORY: int(rng.integers(100, 3000))})
    for number in range(others):
        limits = {GPU: "1", MEMORY: str(int(rng.integers(100, 3000)))}
        asked["spec"]["containers"].append({"name": f"c{number}", "resources": {"limits": limits}})
    limit = int(rng.integers(1, others + 1))
    objects = [*(node(name, 1) for name in "ab"[: int(rng.integers(1, 3))]), policy({"devicesPerPod": limit}), asked]
    (remedy,) = remedies(*world_of(*objects))
    assert remedy.type is RemedyType.TOGETHER
    assert remedy.text == (
        f"ask 1 of {GPU} instead of {count} in container main, {count - 1} less and have limits.devicesPerPod of"
        f" ClusterVGPUPolicy lim raised to {others + 1} (it is {limit})"
    )
    assert check_remedies(objects) == {RemedyType.TOGETHER}


@pytest.mark.parametrize("seed", range(60))
def test_a_higher_limit_and_what_nodes_lack_are_found_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = int(rng.integers(8000, 16000))
    held = running("held", "a", "GPU-a-0", int(rng.integers(16384 - memory + 1, 16000)))
    there = node("a", 1)
    asked = pod("asked", {GPU: 1, MEMORY: memory, "cpu": 1})
    if kept := seed % 3:
        asked["spec"]["nodeSelector"] = {"pool": "b"}
        held = running("held", "a", "GPU-a-0", 100)
    if kept == 2:
        del asked["spec"]["nodeSelector"]
        asked["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H100"}
    objects = [there, held, policy({"memoryPerPod": f"{int(rng.integers(1000, 3000))}Mi"}), asked]
    world, waiting = world_of(*objects)
    assert not ask(world, waiting).node
    found = remedies(world, waiting)
    raised = f"limits.memoryPerPod of ClusterVGPUPolicy lim raised to {memory}Mi"
    assert any(raised in each.text for each in found if each.type is RemedyType.TOGETHER) is bool(kept)
    assert check_remedies(objects)

"""The operator dies at every step of a bind and is started again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import sys

import pytest
from tests.e2e.conftest import Cluster, allocations, slice_pod

from vgpu_scheduler.binding import Step
from vgpu_scheduler.cli.demo.process import OperatorProcess
from vgpu_scheduler.devcluster import BEHAVIOUR

PODS = 24
AFTER = 5
"""Binds that reach the step before it kills."""


@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.value)
async def test_killed_and_restarted(cluster: Cluster, step: Step) -> None:
    await cluster.nodes.register([f"node-{n}" for n in range(3)], ("T4",) * 4)
    await cluster.nodes.start()
    doomed = cluster.operator(
        sys.executable, "-m", "tests.e2e.crashing_operator", CRASH_AT=step.value, CRASH_AFTER=str(AFTER)
    )
    doomed.start()
    await doomed.until_leading()
    await cluster.create(*(slice_pod(f"pod-{n}", gpu=1, gpumem=2048, gpucores=10) for n in range(PODS)))
    await cluster.until(lambda: _ended(doomed), f"the operator to die at {step.value}")
    assert doomed.exit_code == -9

    operator = cluster.operator()
    operator.start()
    try:
        await operator.until_leading()
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= PODS, within=90)
        pods = await cluster.pods()
        assert all(pod["spec"].get("nodeName") for pod in pods)
        assert not cluster.nodes.violations
        await cluster.until(lambda: _books_are(operator, allocations(pods)), "the ledger to settle")
        assert not (await operator.ledger())["drift"]
        assert await operator.metric("vgpu_scheduler_over_capacity_nodes") == 0
        await cluster.until(lambda: _no_locks(cluster), "all locks to be released")
    finally:
        operator.stop()


async def test_a_slow_plugin_keeps_its_lock(cluster: Cluster) -> None:
    """Two pods on one node: the second never takes the first one's lock."""
    await cluster.nodes.register(["only"], ("A100-80G",))
    await cluster.nodes.start()
    operator = cluster.operator(VGPU_BIND__PATIENCE="0.2")
    operator.start()
    try:
        await operator.until_leading()
        slow = [slice_pod(f"pod-{n}") for n in range(3)]
        for pod in slow:
            pod["metadata"]["annotations"] = {BEHAVIOUR: "slow=1.5"}
        await cluster.create(*slow)
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 3, within=60)
        assert not cluster.nodes.violations
        assert await operator.metric("vgpu_scheduler_node_locks_total", outcome="taken") == 3
        assert await operator.metric("vgpu_scheduler_node_locks_total", outcome="orphan_replaced") == 0
    finally:
        operator.stop()


async def _ended(operator: OperatorProcess) -> bool:
    return operator.exit_code is not None


async def _books_are(operator: OperatorProcess, expected: dict[str, dict[str, list[int]]]) -> bool:
    return bool((await operator.ledger())["ledger"] == expected)


async def _no_locks(cluster: Cluster) -> bool:
    nodes = [await cluster.node(f"node-{n}") for n in range(3)]
    return not any("hami.io/mutex.lock" in node["metadata"]["annotations"] for node in nodes)

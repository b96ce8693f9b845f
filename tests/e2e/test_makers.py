"""Pods of several makers, from apply to bound, with their plugins; and an operator that is restarted in between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.conftest import Cluster

from vgpu_scheduler.cli.demo.process import OperatorProcess
from vgpu_scheduler.devcluster import (
    A100_PROFILES,
    ASCEND_910B3,
    CAMBRICON,
    HYGON,
    MTHREADS,
    NVIDIA,
    Card,
    Maker,
    equip,
    made_cards,
)

PODS = 6


def wants(name: str, **limits: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "main", "image": "example", "resources": {"limits": limits}}],
        },
    }


def placements(node: str) -> list[Card]:
    """MIG cards as plugins of 2.10 register them."""
    cards = equip(node, ["A100-40G"] * 2, count=7, mode="mig")
    return [
        Card(c.uuid, c.index, c.count, c.memory, c.cores, c.model, c.numa, "mig", profiles=A100_PROFILES) for c in cards
    ]


def templates(node: str) -> list[Card]:
    """MIG cards as plugins of 2.5 to 2.9 register them."""
    return equip(node, ["A100-40G"] * 2, count=7, mode="mig")


CASES = {
    "hami-core": (
        NVIDIA,
        lambda node: equip(node, ["A10"] * 2, count=4),
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"},
    ),
    "mig-placements": (NVIDIA, placements, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}),
    "mig-templates": (NVIDIA, templates, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}),
    "ascend": (
        ASCEND_910B3,
        lambda node: made_cards(node, ASCEND_910B3, 2, 65536),
        {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
    ),
    "hygon": (
        HYGON,
        lambda node: made_cards(node, HYGON, 2, 16368),
        {"hygon.com/dcunum": "1", "hygon.com/dcumem": "4000", "hygon.com/dcucores": "25"},
    ),
    "mthreads": (
        MTHREADS,
        lambda node: made_cards(node, MTHREADS, 2, 49152),
        {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "16", "mthreads.com/sgpu-core": "4"},
    ),
    "cambricon": (
        CAMBRICON,
        lambda node: made_cards(node, CAMBRICON, 2, 25600),
        {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "20"},
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_pods_go_from_apply_to_running_across_a_restart(cluster: Cluster, case: str) -> None:
    maker, cards, limits = CASES[case]
    assert isinstance(maker, Maker)
    nodes = cluster.nodes
    await nodes.register(["node-a", "node-b"], cards, maker=maker)
    await nodes.start()
    first = cluster.operator()
    first.start()
    try:
        await first.until_leading()
        await cluster.create(*(wants(f"early-{number}", **limits) for number in range(PODS // 2)))
        await nodes.until(lambda: nodes.counts["running"] >= 1)
    finally:
        first.stop()
    await cluster.create(*(wants(f"late-{number}", **limits) for number in range(PODS // 2)))
    second = cluster.operator()
    second.start()
    try:
        await second.until_leading()
        await nodes.until(lambda: nodes.counts["running"] == PODS, within=60.0)
        assert nodes.violations == []
        await cluster.until(lambda: _in_step(cluster, second), "the operator's books to equal the plugins'")
    finally:
        second.stop()


async def _in_step(cluster: Cluster, operator: OperatorProcess) -> bool:
    """Tell whether the operator has booked what the plugins have handed out, and would come to the same anew."""
    page = await operator.ledger()
    devices = {name: used for node in page["ledger"].values() for name, used in node.items()}
    held = {name: used for node in ("node-a", "node-b") for name, used in cluster.nodes.used(node).items()}
    same = {name: tuple(used[:3]) for name, used in devices.items()} == {
        name: (used.slots, used.memory, used.cores) for name, used in held.items()
    }
    return same and not page["drift"]

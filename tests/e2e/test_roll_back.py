"""Back to HAMi: what this scheduler has written is for HAMi what it was for us.

HAMi is the naive twin with all its quirks, which the golden cases hold against the real one: it reads the nodes and
pods of the API server as they are when this scheduler has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.e2e.as_hami import gpu, hami_pod
from tests.e2e.conftest import Cluster
from tests.naive.hami_quirks import Switches
from tests.naive.vendors.cluster import makers_of
from tests.naive.vendors.ledger import Ledger
from tests.naive.vendors.model import Device
from tests.naive.vendors.quirks import ALL

from vgpu_devcluster import (
    A100_PROFILES,
    ASCEND_910B3,
    CAMBRICON,
    HYGON,
    MTHREADS,
    NVIDIA,
    Card,
    Vendor,
    equip,
    made_cards,
)

Obj = dict[str, Any]

CONFIG: Obj = {
    "nvidia": {
        "resourceCountName": "nvidia.com/gpu",
        "resourceMemoryName": "nvidia.com/gpumem",
        "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
        "resourceCoreName": "nvidia.com/gpucores",
        "defaultMemory": 0,
        "defaultCores": 0,
    },
    "hygon": {
        "resourceCountName": "hygon.com/dcunum",
        "resourceMemoryName": "hygon.com/dcumem",
        "resourceCoreName": "hygon.com/dcucores",
    },
    "cambricon": {
        "resourceCountName": "cambricon.com/vmlu",
        "resourceMemoryName": "cambricon.com/mlu.smlu.vmemory",
        "resourceCoreName": "cambricon.com/mlu.smlu.vcore",
    },
    "mthreads": {
        "resourceCountName": "mthreads.com/vgpu",
        "resourceMemoryName": "mthreads.com/sgpu-memory",
        "resourceCoreName": "mthreads.com/sgpu-core",
    },
    "vnpus": {
        "configs": [
            {
                "commonWord": "Ascend910B3",
                "resourceName": "huawei.com/Ascend910B3",
                "resourceMemoryName": "huawei.com/Ascend910B3-memory",
                "resourceCoreName": "huawei.com/Ascend910B3-core",
                "memoryAllocatable": 65536,
                "memoryCapacity": 65536,
                "templates": [
                    {"name": "vir05_1c_16g", "memory": 16384, "aiCore": 5},
                    {"name": "vir10_3c_32g", "memory": 32768, "aiCore": 10},
                ],
            }
        ]
    },
}
"""As HAMi's chart has it."""


def made(vendor: Vendor, memory: int) -> Callable[[str], list[Card]]:
    return lambda node: made_cards(node, vendor, 3, memory)


def placements(node: str) -> list[Card]:
    cards = equip(node, ["A100-40G"] * 2, count=7, mode="mig")
    return [replace(card, profiles=A100_PROFILES) for card in cards]


def dcu(memory: int, count: int = 1) -> dict[str, str]:
    return {"hygon.com/dcunum": str(count), "hygon.com/dcumem": str(memory), "hygon.com/dcucores": "20"}


def npu(memory: int, count: int = 1) -> dict[str, str]:
    return {"huawei.com/Ascend910B3": str(count), "huawei.com/Ascend910B3-memory": str(memory)}


def mtt(units: int) -> dict[str, str]:
    return {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": str(units), "mthreads.com/sgpu-core": "2"}


def mlu(units: int) -> dict[str, str]:
    return {
        "cambricon.com/vmlu": "1",
        "cambricon.com/mlu.smlu.vmemory": str(units),
        "cambricon.com/mlu.smlu.vcore": "10",
    }


NONE: dict[str, str] = {}
NODES: Mapping[str, tuple[Vendor, Callable[[str], list[Card]], dict[str, str], dict[str, str]]] = {
    "hami-core": (NVIDIA, lambda node: equip(node, ["A10"] * 2, count=6), gpu(3000, 20), gpu(2000, 10, count=2)),
    "mig": (NVIDIA, placements, gpu(9000, 0), gpu(4000, 0, count=2)),
    "hygon": (HYGON, made(HYGON, 16368), dcu(3000), dcu(2000, count=2)),
    "ascend": (ASCEND_910B3, made(ASCEND_910B3, 65536), npu(32768), npu(16384, count=2)),
    "mthreads": (MTHREADS, made(MTHREADS, 49152), mtt(16), mtt(8)),
    "cambricon": (CAMBRICON, made(CAMBRICON, 25600), mlu(30), mlu(20)),
}
"""By node: the vendor, its cards, and two claims."""
PODS = 3


@pytest.mark.long
@pytest.mark.alone
async def test_hami_reads_the_same_books(cluster: Cluster) -> None:
    side = cluster.nodes
    for node, (vendor, cards, *_) in NODES.items():
        await side.register([node], cards, vendor=vendor)
    await side.start()
    operator = cluster.operator()
    operator.start()
    try:
        await operator.until_leading()
        for node, (*_, one, two) in NODES.items():
            shapes = {
                "init": hami_pod(f"{node}-init", NONE, two, init=[one], scheduler="vgpu-scheduler", node=node),
                "apps": hami_pod(f"{node}-apps", one, NONE, one, init=[NONE], scheduler="vgpu-scheduler", node=node),
                "plain": hami_pod(f"{node}-plain", two, scheduler="vgpu-scheduler", node=node),
            }
            await cluster.create(*shapes.values())
        await side.until(lambda: side.counts["running"] == PODS * len(NODES), within=60.0)
        assert side.violations == []
        booked = (await operator.ledger())["ledger"]
    finally:
        operator.stop()

    nodes = [await cluster.node(name) for name in NODES]
    for node in nodes:
        assert [key for key in node["metadata"].get("annotations", {}) if "lock" in key] == []
    case = {"config": {"deviceConfig": CONFIG}, "nodes": nodes, "pods": await cluster.pods(), "quotas": []}
    makers = makers_of(case)
    hami = Ledger(case, makers, Switches(ALL))
    assert {maker for node in hami.devices.values() for maker in {device.vendor for device in node}} == makers.keys()
    for name in NODES:
        read = {device.uuid: of(device) for device in hami.devices[name] if device.used}
        assert len(read) >= 2, name
        assert read == {card: tuple(used[:3]) for card, used in booked[name].items()}, name
        assert all(device.healthy for device in hami.devices[name])
        spans = {device.uuid: slices(device) for device in hami.devices[name] if device.in_use}
        ours = {card: [n for n, taken in enumerate(used[4:]) if taken] for card, used in booked[name].items()}
        assert spans == {card: taken for card, taken in ours.items() if taken}, name
        assert bool(spans) is (name == "mig")


def of(device: Device) -> tuple[int, int, int]:
    return device.used, device.used_memory, device.used_cores


def slices(device: Device) -> list[int]:
    """Return the slices in use; an app container may have those that an init container had before it."""
    return sorted({number for held in device.in_use for number in range(held.start, held.start + held.size)})

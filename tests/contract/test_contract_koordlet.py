"""The double of koordlet on both servers: what it hands out, and what it says of a scheduler that errs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.contract.client import Api, Object

from vgpu_devcluster import Koordlet

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
CORE, MEMORY, RATIO, RDMA = (
    f"koordinator.sh/{name}" for name in ("gpu-core", "gpu-memory", "gpu-memory-ratio", "rdma")
)
GIB = 2**30
HALF: Object = {CORE: "50", MEMORY: "8Gi", RATIO: "50"}
NIC, FIRST, SECOND = "0000:40:00.0", "0000:40:00.1", "0000:40:00.2"
"""An RDMA device, and its virtual functions."""


@pytest_asyncio.fixture
async def koordlet(api: Api) -> AsyncIterator[Koordlet]:
    """A koordlet with one node of two cards and two RDMA devices, each with two virtual functions."""
    server = api.server
    async with Koordlet(server.url, token=server.token, tls=server.tls, delay=0.0) as made:
        await made.register(_node(api), rdma=2, functions=2)
        yield made


def _node(api: Api) -> str:
    return f"{api.namespace}-gpu"


async def _run(api: Api, name: str, asked: Object, allocated: Object) -> None:
    """Create a pod, bind it with an allocation, and wait until it runs."""
    container = {"name": "c", "image": "example.com/image:1", "resources": {"requests": asked, "limits": asked}}
    await api.pod(name, containers=[container])
    assert (await api.bind(name, _node(api), {"annotations": {ALLOCATED: json.dumps(allocated)}})).code == 201
    async with asyncio.timeout(10):
        while (await api.get(f"{api.pods}/{name}")).ok()["status"].get("phase") != "Running":
            await asyncio.sleep(0.01)


def _said(api: Api, koordlet: Koordlet) -> list[str]:
    """Return what it has said, of which pod of the namespace."""
    return [
        violation.removeprefix(f"{api.namespace}/").replace(_node(api), "NODE") for violation in koordlet.violations
    ]


async def test_an_allocation_from_before_1_6_is_booked_by_its_minors(api: Api, koordlet: Koordlet) -> None:
    card = f"gpu/1/GPU-{_node(api)}-1"
    await _run(api, "old", HALF, {"gpu": [{"minor": 1, "resources": HALF}]})
    assert koordlet.violations == []
    assert koordlet.handed_out(_node(api)) == {card: (50, 8 * GIB, 50)}
    await _run(api, "over", {CORE: "60"}, {"gpu": [{"minor": 1, "resources": {CORE: "60"}}]})
    await _run(api, "nowhere", HALF, {"gpu": [{"minor": 2, "resources": HALF}]})
    assert _said(api, koordlet) == [
        f"over: device gpu/1/GPU-NODE-1 has [110, {8 * GIB}, 50] of [100, {16 * GIB}, 100] handed out",
        "nowhere: device gpu/2/ is not one of node NODE",
    ]


def _function(bus: str, minor: int = 0) -> Object:
    """Return an allocation of a part of an RDMA device by a virtual function."""
    entry = {"minor": minor, "id": NIC, "resources": {RDMA: "10"}, "extension": {"vfs": [{"minor": -1, "busID": bus}]}}
    return {"rdma": [entry]}


async def test_nobody_else_has_the_virtual_function_of_a_pod(api: Api, koordlet: Koordlet) -> None:
    await _run(api, "first", {RDMA: "10"}, _function(FIRST))
    await _run(api, "second", {RDMA: "10"}, _function(SECOND))
    assert koordlet.violations == []
    assert koordlet.handed_out(_node(api)) == {
        f"rdma/0/{NIC}": (20,),
        f"rdma-vf/0/{FIRST}": (100,),
        f"rdma-vf/0/{SECOND}": (100,),
    }
    await _run(api, "third", {RDMA: "10"}, _function(SECOND))
    assert _said(api, koordlet) == [f"third: device rdma-vf/0/{SECOND} has [200] of [100] handed out"]


@pytest.mark.parametrize(
    ("allocated", "said"),
    [
        (
            _function("0000:40:00.3"),
            ["is not given rdma-vf/0/0000:40:00.3", "device rdma-vf/0/0000:40:00.3 is not one of"],
        ),
        (_function(FIRST, minor=1), [f"device rdma/1/{NIC} is not one of"]),
        ({"rdma": [{"minor": 0, "resources": {RDMA: "10"}}]}, [f"is not given rdma/0/{NIC}"]),
        ({"rdma": [{"minor": 0, "id": NIC, "resources": {RDMA: "101"}}]}, ["has [101] of [100] handed out"]),
        ({"rdma": 2 * _function(FIRST)["rdma"]}, [f"device rdma-vf/0/{FIRST} has [200] of [100] handed out"]),
        ({"gpu": [{"minor": 0, "resources": HALF}]}, ["no rdma can be read of the allocation"]),
    ],
    ids=["unknown", "of another device", "without an id", "more than there is", "one twice", "another type"],
)
async def test_it_says_what_is_wrong_with_rdma_devices(
    api: Api, koordlet: Koordlet, allocated: Object, said: list[str]
) -> None:
    await _run(api, "wrong", {RDMA: "10"}, allocated)
    found = _said(api, koordlet)
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True)), found

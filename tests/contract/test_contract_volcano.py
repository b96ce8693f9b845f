"""The double of Volcano's device plugin on both servers: whom it serves, and what it says of a scheduler that errs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from tests.contract.client import Api, Object

from vgpu_devcluster import BEHAVIOUR, VolcanoPlugin

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
LEFT, TIME, PHASE = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/bind-phase"
DONE = str(2**64 - 1)
ONE: Object = {NUMBER: "1", MEMORY: "1000"}


@asynccontextmanager
async def opened(api: Api, *, by_number: bool = True) -> AsyncIterator[VolcanoPlugin]:
    server = api.server
    async with VolcanoPlugin(server.url, by_number=by_number, token=server.token, tls=server.tls, delay=0.0) as plugin:
        await plugin.register(_node(api))
        yield plugin


@pytest_asyncio.fixture
async def plugin(api: Api) -> AsyncIterator[VolcanoPlugin]:
    """A plugin of today with one node of two cards."""
    async with opened(api) as made:
        yield made


def _node(api: Api) -> str:
    return f"{api.namespace}-gpu"


def _card(api: Api, memory: int = 1000, index: int = 0) -> str:
    return f"GPU-{_node(api)}-{index},NVIDIA,{memory},0:"


async def _bound(api: Api, name: str, time: int, left: str, *limits: Object, behaviour: str = "") -> str:
    """Create a pod with a container for each of some limits, and bind it; return its UID."""
    containers = [
        {"name": f"c{number}", "image": "example.com/image:1", "resources": {"limits": each}}
        for number, each in enumerate(limits)
    ]
    uid = (await api.pod(name, {"annotations": {BEHAVIOUR: behaviour}}, containers=containers))["metadata"]["uid"]
    notes = {"volcano.sh/vgpu-node": _node(api), TIME: str(time), LEFT: left, PHASE: "allocating"}
    assert (await api.bind(name, _node(api), {"annotations": notes})).code == 201
    return str(uid)


async def _read(api: Api, name: str) -> Object:
    return (await api.get(f"{api.pods}/{name}")).ok()


async def _phase(api: Api, name: str) -> str:
    """Wait until the kubelet has said what became of a pod; return that."""
    async with asyncio.timeout(10):
        while (phase := str((await _read(api, name))["status"].get("phase"))) in {"Pending", "None"}:
            await asyncio.sleep(0.01)
    return phase


async def _said(plugin: VolcanoPlugin, text: str) -> None:
    async with asyncio.timeout(10):
        while not any(text in violation for violation in plugin.violations):
            await asyncio.sleep(0.01)


async def test_it_serves_the_oldest_pod_that_has_as_many_cards_left(api: Api, plugin: VolcanoPlugin) -> None:
    both = _card(api) + _card(api, index=1)
    await _bound(api, "two", 2, both, {NUMBER: "2"})
    assert await _phase(api, "two") == "Running"
    await _bound(api, "one", 1, _card(api) + ";", ONE, {})
    assert await _phase(api, "one") == "Running"
    notes = (await _read(api, "one"))["metadata"]["annotations"]
    assert (notes[LEFT], notes[TIME], notes[PHASE]) == (";", DONE, "success")
    assert plugin.violations == []


async def test_cards_in_several_containers_are_never_handed_out(api: Api, plugin: VolcanoPlugin) -> None:
    left = f"{_card(api)};{_card(api)}"
    await _bound(api, "several", 1, left, ONE, ONE)
    assert await _phase(api, "several") == "Failed"
    assert plugin.violations == [f"{api.namespace}/several: the plugin took the devices of pod nobody"]
    notes = (await _read(api, "several"))["metadata"]["annotations"]
    assert (notes[LEFT], notes[TIME], notes[PHASE]) == (left, "1", "allocating")


async def test_a_pod_with_as_many_cards_in_several_containers_is_taken_for_one_with_them_in_one(
    api: Api, plugin: VolcanoPlugin
) -> None:
    first = await _bound(api, "several", 1, f"{_card(api)};{_card(api)}", ONE, ONE)
    assert await _phase(api, "several") == "Failed"
    await _bound(api, "two", 2, _card(api) + _card(api, index=1), {NUMBER: "2"})
    assert await _phase(api, "two") == "Failed"
    assert plugin.violations[1:] == [f"{api.namespace}/two: the plugin took the devices of pod {first}"]
    notes = (await _read(api, "several"))["metadata"]["annotations"]
    assert (notes[TIME], notes[PHASE]) == (DONE, "failed"), "it is in nobody's way any more"


async def test_a_pod_that_failed_before_it_was_served_gets_the_next_ones_turn(api: Api, plugin: VolcanoPlugin) -> None:
    first = await _bound(api, "rejected", 1, _card(api), ONE, behaviour="reject")
    assert await _phase(api, "rejected") == "Failed"
    assert plugin.violations == []
    await _bound(api, "two", 2, _card(api) + _card(api, index=1), {NUMBER: "2"})
    assert await _phase(api, "two") == "Running"
    await _bound(api, "next", 3, _card(api, 2000, 1), ONE)
    assert await _phase(api, "next") == "Failed"
    assert plugin.violations == [f"{api.namespace}/next: the plugin took the devices of pod {first}"]


@pytest.mark.parametrize("name", [MEMORY, CORES])
async def test_memory_or_cores_without_a_number_never_reach_the_plugin(
    api: Api, plugin: VolcanoPlugin, name: str
) -> None:
    first = await _bound(api, "unlimited", 1, _card(api), {name: "1000"})
    assert await _phase(api, "unlimited") == "Running"
    await _said(plugin, f"unlimited: container c0 may see all cards: it has {name} without {NUMBER}")
    await _bound(api, "next", 2, _card(api, 2000, 1), ONE)
    assert await _phase(api, "next") == "Failed"
    await _said(plugin, f"next: the plugin took the devices of pod {first}")


async def test_before_it_looked_at_numbers_it_served_containers_one_by_one(api: Api) -> None:
    async with opened(api, by_number=False) as plugin:
        await _bound(api, "several", 1, f"{_card(api)};{_card(api)}", ONE, ONE)
        assert await _phase(api, "several") == "Running"
        notes = (await _read(api, "several"))["metadata"]["annotations"]
        assert (notes[LEFT], notes[TIME], notes[PHASE]) == (";", DONE, "success")
        assert plugin.violations == []


async def test_before_it_looked_at_numbers_a_failed_pod_got_anybodys_turn(api: Api) -> None:
    async with opened(api, by_number=False) as plugin:
        first = await _bound(api, "rejected", 1, _card(api), ONE, behaviour="reject")
        assert await _phase(api, "rejected") == "Failed"
        await _bound(api, "two", 2, _card(api) + _card(api, index=1), {NUMBER: "2"})
        assert await _phase(api, "two") == "Failed"
        assert plugin.violations == [f"{api.namespace}/two: the plugin took the devices of pod {first}"]

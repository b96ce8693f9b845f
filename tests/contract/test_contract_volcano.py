"""The double of Volcano's device plugin on both servers: whom it serves, and what it says of a scheduler that errs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.client import Api, Object, Server

from vgpu_devcluster import BEHAVIOUR, DevCluster, VolcanoPlugin

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
LEFT, TIME, PHASE = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/bind-phase"
DONE = str(2**64 - 1)
ONE: Object = {NUMBER: "1", MEMORY: "1000"}


@asynccontextmanager
async def opened(api: Api, *, version: str = "v1.12") -> AsyncIterator[VolcanoPlugin]:
    server = api.server
    async with VolcanoPlugin(server.url, version=version, token=server.token, tls=server.tls, delay=0.0) as plugin:
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


async def _bound(
    api: Api, name: str, time: int, left: str, *limits: Object, behaviour: str = "", node: str = ""
) -> str:
    """Create a pod with a container for each of some limits, and bind it; return its UID."""
    containers = [
        {"name": f"c{number}", "image": "example.com/image:1", "resources": {"limits": each}}
        for number, each in enumerate(limits)
    ]
    uid = (await api.pod(name, {"annotations": {BEHAVIOUR: behaviour}}, containers=containers))["metadata"]["uid"]
    on = node or _node(api)
    notes = {"volcano.sh/vgpu-node": on, TIME: str(time), LEFT: left, PHASE: "allocating"}
    assert (await api.bind(name, on, {"annotations": notes})).code == 201
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
    assert plugin.violations[1:] == [f"{api.namespace}/two: the plugin took the devices of pod {first}: 1 of 2 cards"]
    notes = (await _read(api, "several"))["metadata"]["annotations"]
    assert (notes[TIME], notes[PHASE]) == (DONE, "failed"), "it is in nobody's way any more"


async def test_a_pod_that_failed_before_it_was_served_gets_the_next_ones_turn(api: Api, plugin: VolcanoPlugin) -> None:
    first = await _bound(api, "rejected", 1, _card(api), ONE, behaviour="reject")
    assert await _phase(api, "rejected") == "Failed"
    assert plugin.violations == []
    await _bound(api, "two", 2, _card(api) + _card(api, index=1), {NUMBER: "2"})
    assert await _phase(api, "two") == "Running"
    await _bound(api, "next", 3, _card(api, 2000, 1), ONE)
    assert await _phase(api, "next") == "Running", "with the card of another pod"
    assert plugin.violations == [f"{api.namespace}/next: the plugin took the devices of pod {first}"]
    assert (await _read(api, "next"))["metadata"]["annotations"][PHASE] == "allocating"


@pytest.mark.parametrize("name", [MEMORY, CORES])
async def test_memory_or_cores_without_a_number_never_reach_the_plugin(
    api: Api, plugin: VolcanoPlugin, name: str
) -> None:
    first = await _bound(api, "unlimited", 1, _card(api), {name: "1000"})
    assert await _phase(api, "unlimited") == "Running"
    await _said(plugin, f"unlimited: container c0 may see all cards: it has {name} without {NUMBER}")
    await _bound(api, "next", 2, _card(api, 2000, 1), ONE)
    assert await _phase(api, "next") == "Running"
    await _said(plugin, f"next: the plugin took the devices of pod {first}")


async def test_before_it_looked_at_numbers_it_served_containers_one_by_one(api: Api) -> None:
    async with opened(api, version="v1.11") as plugin:
        await _bound(api, "several", 0, f"{_card(api)};{_card(api)}", ONE, ONE)
        assert await _phase(api, "several") == "Running"
        notes = (await _read(api, "several"))["metadata"]["annotations"]
        assert (notes[LEFT], notes[TIME], notes[PHASE]) == (";", DONE, "success")
        assert plugin.violations == []


async def test_before_it_looked_at_numbers_a_failed_pod_got_anybodys_turn(api: Api) -> None:
    async with opened(api, version="v1.11") as plugin:
        first = await _bound(api, "rejected", 0, _card(api), ONE, behaviour="reject")
        assert await _phase(api, "rejected") == "Failed"
        await _bound(api, "two", 2, _card(api) + _card(api, index=1), {NUMBER: "2"})
        assert await _phase(api, "two") == "Failed"
        assert plugin.violations == [f"{api.namespace}/two: the plugin took the devices of pod {first}: 1 of 2 cards"]


async def test_before_it_looked_at_numbers_it_began_with_the_first_pod_of_the_cluster(tmp_path: Path) -> None:
    with DevCluster.thread(disruption_controller=False) as cluster:
        server = Server("devcluster", cluster.url, "unchecked", None, cluster.kubeconfig(tmp_path / "kubeconfig"))
        async with Api(server, "t") as api, opened(api, version="v1.11") as plugin:
            (await api.post("/api/v1/namespaces", {"metadata": {"name": "t"}})).created()
            await plugin.register("t-gpu-2")
            first = await _bound(api, "a", 1, _card(api), ONE, behaviour="reject")
            assert await _phase(api, "a") == "Failed"
            await _bound(api, "b", 2, _card(api, 2000, 1), ONE, node="t-gpu-2")
            assert await _phase(api, "b") == "Running"
            assert plugin.violations[0] == f"t/b: the plugin took the devices of pod {first}", "of another node"


async def test_of_v1_10_only_the_first_container_is_served(api: Api) -> None:
    async with opened(api, version="v1.10") as plugin:
        await api.pod("first")
        await _bound(api, "several", 0, f"{_card(api)};{_card(api)}", ONE, ONE)
        assert await _phase(api, "several") == "Failed"
        assert (await _read(api, "several"))["metadata"]["annotations"][TIME] == DONE
        assert len(plugin.violations) == 1


async def test_cards_of_other_types_are_counted_and_not_handed_out(api: Api, plugin: VolcanoPlugin) -> None:
    other = _card(api, index=1).replace("NVIDIA", "Other")
    first = await _bound(api, "odd", 1, _card(api) + other, {NUMBER: "2"})
    assert await _phase(api, "odd") == "Failed"
    assert plugin.violations == [f"{api.namespace}/odd: the plugin took the devices of pod {first}: 1 of 2 cards"]


@pytest.mark.parametrize("left", ["", "served"])
async def test_the_lock_of_volcanos_scheduler_is_released_however_it_ends(
    api: Api, plugin: VolcanoPlugin, left: str
) -> None:
    path = f"/api/v1/nodes/{_node(api)}"
    (await api.merge(path, {"metadata": {"annotations": {"hamivgpu": "2026-01-01T00:00:00Z"}}})).ok()
    await _bound(api, "one", 1, _card(api) if left else "", ONE)
    assert await _phase(api, "one") == ("Running" if left else "Failed")
    assert "hamivgpu" not in (await api.get(path)).ok()["metadata"]["annotations"]
    assert len(plugin.violations) == (0 if left else 1)

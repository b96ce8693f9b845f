"""A burst of pods of three dialects at once, of which the leader is killed: every plugin serves what the books say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

import pytest
from tests.e2e.conftest import MANIFESTS, PLUGIN, Cluster, allocations, slice_pod
from tests.e2e.test_dialects import CORE, DEFINITION, MEMORY, NUMBER, PERCENT, RATIO, asking, define_devices
from tests.e2e.test_failover import leads, ready

from vgpu_devcluster import Koordlet, VolcanoPlugin

pytestmark = [pytest.mark.long, pytest.mark.alone]

Obj = dict[str, Any]
EACH = 200
"""Pods of each dialect."""
WHOLE = 5
"""How many of them ask for a whole card."""
ISOLATED = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
HINT = "scheduling.koordinator.sh/device-allocate-hint"
NODES, CARDS = 4, 8
"""Nodes of each, and the cards of a node."""


@pytest.fixture
async def sides(cluster: Cluster) -> AsyncIterator[tuple[VolcanoPlugin, Koordlet]]:
    """Nodes of each dialect."""
    plane = cluster.plane
    plane.kubectl("apply", "-f", str(MANIFESTS / "koordinator" / "rbac.yaml"))
    await define_devices(cluster)
    await cluster.nodes.register([f"hami-{number}" for number in range(NODES)], ("T4",) * CARDS)
    await cluster.nodes.start()
    access = {"token": plane.tokens[PLUGIN], "tls": plane.ssl_context()}
    try:
        async with AsyncExitStack() as stack:
            plugin = await stack.enter_async_context(VolcanoPlugin(plane.url, **access))
            koordlet = await stack.enter_async_context(Koordlet(plane.url, **access))
            for number in range(NODES):
                await plugin.register(f"volcano-{number}", CARDS)
                labels = ISOLATED if number % 2 else {}
                await koordlet.register(f"koordinator-{number}", CARDS, labels=labels, rdma=1, functions=16)
                await koordlet.list_devices(f"koordinator-{number}")
            yield plugin, koordlet
    finally:
        plane.kubectl("delete", "crd", DEFINITION["metadata"]["name"], "--ignore-not-found")
        plane.kubectl("delete", "-f", str(MANIFESTS / "koordinator" / "rbac.yaml"))


def mixed(number: int) -> tuple[Obj, Obj, Obj]:
    """Return a pod of each dialect.

    The first ones ask for whole cards, most others for a share of a card, some for shares of two, some for more of one;
    every other one of Koordinator's for an isolated share, and some of those for a virtual function, too.
    """
    if number < WHOLE:
        return (
            slice_pod(f"h-{number}", gpu=1, gpucores=100),
            asking(f"v-{number}", **{NUMBER: "1", PERCENT: "100"}),
            asking(f"k-{number}", **{CORE: "100", RATIO: "100"}),
        )
    two = 2 if number % 8 == 0 else 1
    size = 1 + number % 3
    hami = slice_pod(f"h-{number}", gpu=two, gpumem=512 * size, gpucores=3 * size)
    volcano = asking(f"v-{number}", **{NUMBER: str(two), MEMORY: str(1000 * size), PERCENT: str(3 * size)})
    share = {CORE: str(3 * size * two), RATIO: str(3 * size * two)}
    shared = {"koordinator.sh/gpu.shared": "2"} if two == 2 else {}
    koordinator = asking(f"k-{number}", **share, **shared)
    koordinator["metadata"]["labels"] = ISOLATED if number % 2 else {}
    if number % 8 == 3:
        koordinator = with_function(koordinator)
    return hami, volcano, koordinator


def with_function(pod: Obj) -> Obj:
    """Return a pod that asks for a virtual function of an RDMA device as well."""
    metadata, spec = pod["metadata"], pod["spec"]
    (main,) = spec["containers"]
    amounts = {**main["resources"]["requests"], "koordinator.sh/rdma": "1"}
    return {
        "metadata": {**metadata, "annotations": {HINT: '{"rdma": {"vfSelector": {}}}'}},
        "spec": {**spec, "containers": [{**main, "resources": {"limits": amounts, "requests": amounts}}]},
    }


def handed_out(side: VolcanoPlugin | Koordlet, prefix: str) -> dict[str, Any]:
    """Return what a node side has handed out of each card, by node."""
    nodes = (f"{prefix}-{number}" for number in range(NODES))
    return {node: held for node in nodes if (held := side.handed_out(node))}


def by_dialect(ledger: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {node: held for node, held in ledger.items() if node.startswith(prefix) and held}


async def test_the_books_are_those_of_all_plugins_after_the_leader_was_killed_in_a_burst(
    cluster: Cluster, sides: tuple[VolcanoPlugin, Koordlet]
) -> None:
    plugin, koordlet = sides
    replicas = [
        cluster.operator(log=f"replica-{number}.log", VGPU_DIALECTS="hami,volcano,koordinator") for number in range(2)
    ]
    try:
        for replica in replicas:
            replica.start()
        for replica in replicas:
            await cluster.until(lambda replica=replica: ready(replica), "a replica to be ready", within=120)

        async def one_leads() -> list[bool]:
            found = list(await asyncio.gather(*map(leads, replicas)))
            return found if sum(found) == 1 else []

        await cluster.until(one_leads, "one of them to lead")
        leader, standby = replicas if await leads(replicas[0]) else replicas[::-1]
        await cluster.create(*chain.from_iterable(map(mixed, range(WHOLE))))
        await cluster.create(*chain.from_iterable(map(mixed, range(WHOLE, EACH))))

        def served() -> int:
            return cluster.nodes.counts["running"] + len(plugin.started) + len(koordlet.started)

        async def half() -> bool:
            return min(cluster.nodes.counts["running"], len(plugin.started), len(koordlet.started)) >= EACH // 8

        await cluster.until(half, "a part of each to run", within=120)
        assert served() < 3 * EACH
        leader.kill()
        await cluster.until(lambda: leads(standby), "the other one to lead")

        async def everyone() -> bool:
            return served() == 3 * EACH

        await cluster.until(everyone, "all of them to run", within=240)
        pods = await cluster.pods()
        assert len(pods) == 3 * EACH
        of_plugin, of_koordlet = handed_out(plugin, "volcano"), handed_out(koordlet, "koordinator")

        async def equal() -> bool:
            report = await standby.ledger()
            ledger = report["ledger"]
            volcano = {
                node: {uuid: tuple(amounts) for uuid, amounts in held.items()}
                for node, held in by_dialect(ledger, "volcano").items()
            }
            koordinator = {
                node: {
                    name: (cores, memory, ratio) if name.startswith("gpu/") else (share,)
                    for name, (share, memory, cores, ratio) in held.items()
                }
                for node, held in by_dialect(ledger, "koordinator").items()
            }
            of_hami = by_dialect(ledger, "hami") == allocations(pods)
            return not report["drift"] and of_hami and volcano == of_plugin and koordinator == of_koordlet

        await cluster.until(equal, "the books to be those of the plugins")
        assert await standby.metric("vgpu_scheduler_over_capacity_nodes") == 0
    finally:
        for replica in replicas:
            replica.stop()
    assert not cluster.nodes.violations
    assert not plugin.violations
    assert not koordlet.violations

"""This scheduler beside HAMi, on nodes of its own."""

from __future__ import annotations

import pytest
from tests.e2e.as_hami import HAMI, decided, gpu, hami_pod, withdraw
from tests.e2e.conftest import Cluster


@pytest.mark.parametrize("announced", ["before the start", "after the start"])
@pytest.mark.parametrize("ends", ["deleted", "withdrawn"])
async def test_its_decisions_count_and_its_nodes_are_left_alone(cluster: Cluster, announced: str, ends: str) -> None:
    side = cluster.nodes
    await side.register(["ours"], ["A10"], count=4, labels={"pool": "ours"})
    await side.register(["theirs"], ["A10"], count=4, labels={"pool": "hami"})
    (card,) = (card.uuid for card in side.cards("ours"))

    async def announce() -> None:
        await decided(cluster, hami_pod("announced", gpu(20000)), "ours", f"{card},NVIDIA,20000,10:;")

    if announced == "before the start":
        await announce()
    await side.start()
    operator = cluster.operator(VGPU_MANAGED_NODES="pool=ours", VGPU_COEXIST_WITH=HAMI)
    operator.start()
    try:
        await operator.until_leading()
        if announced == "after the start":
            await announce()

        async def counted() -> bool:
            return bool((await operator.ledger())["ledger"] == {"ours": {card: [1, 20000, 10]}})

        await cluster.until(counted, "the announced pod to be counted", within=1.0 + 4.0 * announced.startswith("b"))
        await cluster.create(hami_pod("big", gpu(4000), scheduler="vgpu-scheduler"))

        async def told() -> bool:
            message = await cluster.message("big")
            return "1 CardInsufficientMemory" in message and "1 node(s) are not managed by this scheduler" in message

        await cluster.until(told, "the pod to wait")
        if ends == "deleted":
            async with cluster.http.delete("/api/v1/namespaces/default/pods/announced") as answer:
                assert answer.status == 200
        else:
            await withdraw(cluster, "announced")
        await cluster.until(lambda: cluster.bound("big"), "the pod to be bound")
        assert await cluster.bound("big") == "ours"
    finally:
        operator.stop()

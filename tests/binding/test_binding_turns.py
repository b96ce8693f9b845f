"""Pods whose plugins find them without a lock: nobody is bound beside one that has not started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.binding.bench import Bench, bench

from vgpu_devcluster import BEHAVIOUR, MTHREADS, NVIDIA, Vendor, equip, made_cards
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.engine import ClosureCause

GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
MTT = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "16", "mthreads.com/sgpu-core": "4"}
ON_M = {"kubernetes.io/hostname": "node-m"}


async def bound_by_a_process_before(b: Bench, limits: dict[str, str], *vendors: Vendor) -> None:
    """A pod that is bound, and whose plugins have not answered."""
    await b.create("before", {"limits": limits}, annotations={BEHAVIOUR: "held"})
    common = {"hami.io/vgpu-node": "node-m", "hami.io/bind-phase": "allocating", "hami.io/bind-time": "1"}
    for vendor in vendors:
        card = next(card.uuid for card in b.nodes.cards("node-m") if vendor is NVIDIA or "mthreads" in card.uuid)
        entry = f"{card},{vendor.word},1000,1:;"
        common |= dict.fromkeys(filter(None, (vendor.allocated, vendor.to_allocate)), entry) | dict.fromkeys(
            vendor.told, "0"
        )
    await b.bind_elsewhere("before", "node-m", {**common, "mthreads.com/predicate-time": "1"})


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [(MTT, MTT, True), ({**GPU, **MTT}, GPU, True), (MTT, GPU, True), ({}, MTT, False)],
    ids=["no lock", "two vendors, then one", "another vendor's", "a pod without devices"],
)
async def test_a_pod_waits_until_the_one_before_has_started(
    tmp_path: Path, before: dict[str, str], after: dict[str, str], *, waits: bool
) -> None:
    async with bench(tmp_path) as b:
        cards = {NVIDIA: lambda node: equip(node, ["T4"]), MTHREADS: lambda node: made_cards(node, MTHREADS, 1, 49152)}
        await b.nodes.register(["node-m"], cards)
        vendors = [vendor for vendor in (NVIDIA, MTHREADS) if vendor.count in before]
        await bound_by_a_process_before(b, before, *vendors)
        await b.create("after", {"limits": after}, nodeSelector=ON_M)
        await b.learn()
        b.watch()
        assert b.submit() == 1
        if waits:
            await b.create("elsewhere", {"limits": GPU}, nodeSelector={"kubernetes.io/hostname": "node-a"})
            await b.until(lambda: b.submit() == 1)
            await b.until(lambda: (HookPoint.BOUND, "elsewhere") in b.steps)
            assert (HookPoint.CHECKED, "after") not in b.steps
            status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
            path = "/api/v1/namespaces/default/pods/before/status"
            answer = await b.call("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
            assert answer.ok, answer.message
        await b.until(lambda: (HookPoint.BOUND, "after") in b.steps)


async def test_a_pod_that_has_its_devices_and_starts_slowly_closes_its_node_until_it_has(tmp_path: Path) -> None:
    """Its plugin is not silent, and the node must not draw pods again and again meanwhile."""
    async with bench(tmp_path, node_side_timeout=30.0) as b:
        cards = {MTHREADS: lambda node: made_cards(node, MTHREADS, 1, 49152)}
        await b.nodes.register(["node-m"], cards)
        await bound_by_a_process_before(b, MTT, MTHREADS)
        path = "/api/v1/namespaces/default/pods/before"
        answered = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
        assert (await b.call("PATCH", path, answered, content_type="application/merge-patch+json")).ok
        await b.create("after", {"limits": MTT}, nodeSelector=ON_M)
        await b.learn()
        b.watch()
        assert b.submit() == 1
        await b.until(lambda: b.binder.depth == 0)
        b.clock.ahead += 31.0
        await b.until(lambda: b.engine.closed_nodes.closures("node-m"))
        b.clock.ahead += 31.0
        assert b.submit() == 0
        assert [closure.cause for closure in b.engine.closed_nodes.closures("node-m")] == [ClosureCause.POD_STARTING]
        assert not [note for _, note in await b.events() if "has not answered" in note]
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        await b.call("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
        await b.until(lambda: not b.engine.closed_nodes.closures("node-m"))
        b.clock.ahead += 31.0
        await b.until(lambda: b.submit() == 1)
        await b.until(lambda: (HookPoint.BOUND, "after") in b.steps)

"""Room for groups: all pods are nominated before anybody is evicted, and nobody is where one of them is not."""

from __future__ import annotations

import pytest
from tests.binding.evictor_bench import EvictorBench, bench, nominate
from tests.engine.builders import asks, cards, in_group, node_object, pod_object

from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.model import Decision

GANG = ("gang-0", "gang-1")


def decided(b: EvictorBench, *names: str) -> tuple[Decision, ...]:
    """Have nodes n and m be taken, and a group come that needs both; return what is decided about it."""
    b.api.nodes["m"] = node_object("m", cards("m", 1))
    b.see(NODES, b.api.nodes["m"])
    for node in ("n", "m"):
        b.runs(f"low-{node}", node)
    for name in names:
        b.api.pods[name] = pod_object(name, asks(gpumem=8000), priority=5, annotations=in_group("gang", len(names)))
        b.see(PODS, b.api.pods[name])
    return b.engine.schedule_next(b.clock.monotonic()) or b.engine.schedule_next(b.clock.monotonic())


async def test_all_pods_are_nominated_before_anybody_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        decisions = decided(b, *GANG)
        assert [decision.preemption is not None for decision in decisions] == [True, True]
        b.evictor.submit(*decisions)
        wrote = [f"PATCH {name}/status" for name in GANG] + ["POST low-m/eviction", "POST low-n/eviction"]
        await b.until(lambda: b.eviction_api.wrote == wrote)
        assert [b.api.pods[name]["status"]["nominatedNodeName"] for name in GANG] == ["m", "n"]
        assert b.evictor.stats.nominated == len(GANG)


async def test_nobody_is_evicted_where_one_pod_cannot_be_nominated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        decisions = decided(b, *GANG)
        del b.api.pods["gang-1"]  # which nobody has shown yet
        b.evictor.submit(*decisions)
        await b.until(lambda: not b.engine.preemptions.under_way())
        assert not b.engine.state.holds
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["gang-0"]["status"])
        assert not any(write.endswith("/eviction") for write in b.eviction_api.wrote)


async def test_nobody_else_is_evicted_once_one_pod_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        decisions = decided(b, *GANG)

        def gone(write: str) -> None:
            if write == "low-m/eviction":
                b.engine.remove_pod("uid-gang-1", b.clock.monotonic())

        b.eviction_api.on_write = gone
        b.evictor.submit(*decisions)
        await b.until(lambda: "POST low-m/eviction" in b.eviction_api.wrote)
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["gang-0"]["status"])
        assert "POST low-n/eviction" not in b.eviction_api.wrote
        assert not b.engine.state.holds


async def test_a_victim_that_cannot_be_evicted_has_the_group_decided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        decisions = decided(b, *GANG)
        b.eviction_api.refusals.append(500)
        b.eviction_api.refusals.append(429)
        b.evictor.submit(*decisions)
        await b.until(lambda: not b.engine.preemptions.under_way())
        for name in GANG:
            await b.until(lambda name=name: "nominatedNodeName" not in b.api.pods[name]["status"])  # type: ignore[misc]
        assert not b.engine.state.holds


async def test_a_leader_that_takes_over_goes_on_for_the_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        decided(b)
        for name, node in zip(GANG, ("m", "n"), strict=True):
            b.api.pods[name] = pod_object(name, asks(gpumem=8000), priority=5, annotations=in_group("gang", 2))
            nominate(b.api.pods[name], node)
            b.see(PODS, b.api.pods[name])
        ends = b.api.pods["low-m"]
        ends["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
        ends["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        ]
        b.see_pod("low-m")
        await b.evictor.take_over()
        assert {hold.reservation.pod: hold.node for hold in b.engine.state.holds} == {
            "default/gang-0": "m",
            "default/gang-1": "n",
        }
        await b.until(lambda: b.eviction_api.wrote == ["POST low-n/eviction"])

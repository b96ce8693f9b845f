"""What the evictor leaves in the records of policies: the evictions that happened or may have, and no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.binding.evictor_bench import EvictorBench, PolicyApi, bench, some_looks
from tests.engine.builders import asks, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.intake import PODS
from vgpu_scheduler.model import Decision


def with_policies(b: EvictorBench, monkeypatch: pytest.MonkeyPatch) -> PolicyApi:
    """Have the API server of a bench know policies."""
    made = PolicyApi(b.eviction_api.request)
    monkeypatch.setattr(b.eviction_api, "request", made.request)
    return made


def two_with_one_victim(b: EvictorBench) -> list[Decision]:
    """Have two pods come that share the room of one victim."""
    b.runs("low")
    found = []
    for name in ("one", "other"):
        b.api.pods[name] = pod_object(name, asks(gpumem=4000), priority=5)
        b.see(PODS, b.api.pods[name])
        found.append(b.tried())
    assert all(decision.preemption is not None for decision in found)
    return found


async def test_an_eviction_for_two_pods_stays_recorded_though_the_second_is_told_that_its_victim_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch, perHour=5) as b:
        policies = with_policies(b, monkeypatch)
        decisions = two_with_one_victim(b)

        def gone(what: str) -> None:
            if what == "low/eviction":
                b.api.pods.pop("low", None)  # it had no grace period, and nobody tells of its end yet

        b.eviction_api.on_write = gone
        for decision in decisions:
            b.evictor.submit(decision)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)
        await some_looks()
        assert [one["uid"] for one in policies.evictions] == ["uid-low"]


async def test_a_record_that_another_pod_relies_on_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is refused when both have looked at the record, and the second one evicts their victim."""
    async with bench(monkeypatch, perHour=5) as b:
        policies = with_policies(b, monkeypatch)
        decisions = two_with_one_victim(b)
        b.eviction_api.refusals.append(429)
        for decision in decisions:
            b.evictor.submit(decision)
        await b.until(lambda: "deletionTimestamp" in b.api.pods["low"]["metadata"])
        await some_looks()
        assert [one["uid"] for one in policies.evictions] == ["uid-low"]


async def test_the_last_pod_that_gives_a_shared_victim_up_takes_the_record_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch, perHour=5) as b:
        policies = with_policies(b, monkeypatch)
        decisions = two_with_one_victim(b)
        b.eviction_api.refusals.extend([429, 429])
        for decision in decisions:
            b.evictor.submit(decision)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)
        await b.until(lambda: not policies.evictions)
        await some_looks()
        assert "preempts" in policies.recorded


@pytest.mark.parametrize("minutes", [0, 2], ids=["just now", "minutes ago"])
async def test_a_record_that_was_there_already_is_never_taken_back(
    monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """An earlier leader has written it and evicted the pod perhaps, of which no event has come yet."""
    async with bench(monkeypatch, perHour=5) as b:
        policies = with_policies(b, monkeypatch)
        b.runs("low")
        stamp = (b.clock.now() - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        policies.recorded["preempts"] = [{"time": stamp, "pod": "default/low", "uid": "uid-low", "node": "n"}]
        b.eviction_api.refusals.append(404)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        await some_looks()
        assert [one["uid"] for one in policies.evictions] == ["uid-low"]


async def test_what_one_of_several_policies_has_recorded_is_taken_back_when_another_one_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch, perHour=5) as b:
        tenants = policy("tenants", {"preemption": {"perHour": 5}}, namespace="default")
        b.engine.policy_tracker.observe(tenants)
        policies = with_policies(b, monkeypatch)
        policies.refuses = "tenants"
        b.runs("low")
        b.preempts()
        await b.until(lambda: policies.evictions)
        b.engine.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": False}}))
        await b.until(lambda: not b.is_kept())
        await b.until(lambda: not policies.evictions)
        assert "POST low/eviction" not in b.eviction_api.wrote


async def test_an_eviction_that_was_not_sent_as_the_lease_is_late_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch, perHour=5) as b:
        policies = with_policies(b, monkeypatch)
        b.runs("low")
        asked = 0

        def until_it_is_sent(_: float) -> bool:
            nonlocal asked
            asked += bool(policies.evictions)
            if asked == 2:  # it was held when that was asked after the eviction was recorded
                b.engine.remove_pod("uid-high", b.clock.monotonic())
            return asked != 2

        b.may_write = until_it_is_sent
        b.preempts()
        await b.until(lambda: asked >= 2)
        await b.until(lambda: not policies.evictions)
        assert "POST low/eviction" not in b.eviction_api.wrote


async def test_a_limit_that_sinks_while_an_eviction_is_recorded_holds_for_that_eviction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another leader has evicted a pod, of which this one knows nothing: together they are more than one."""
    async with bench(monkeypatch, perHour=2) as b:
        policies = with_policies(b, monkeypatch)
        b.runs("low")
        stamp = b.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        policies.recorded["preempts"] = [{"time": stamp, "pod": "default/other", "uid": "uid-other", "node": "n"}]

        def sinks(_: str) -> None:
            b.engine.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": True, "perHour": 1}}))

        policies.on_write = sinks
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await b.until(lambda: [one["uid"] for one in policies.evictions] == ["uid-other"])
        assert "POST low/eviction" not in b.eviction_api.wrote


async def test_a_victim_that_could_not_even_be_marked_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch, perHour=1, budgets="Exceed") as b:
        policies = with_policies(b, monkeypatch)
        b.runs("low")
        b.eviction_api.refusals.append(429)
        request, marks = b.eviction_api.request, 0

        async def not_marked(method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
            nonlocal marks
            if method == "PATCH" and "/low/status" in path:
                marks += 1
                b.engine.remove_pod("uid-high", b.clock.monotonic())
                return ApiResponse(503, b"{}")
            return await request(method, path, body, **more)

        monkeypatch.setattr(b.eviction_api, "request", not_marked)
        b.preempts()
        await b.until(lambda: marks == 1 and not policies.evictions)
        assert "DELETE low" not in b.eviction_api.wrote


async def test_a_victim_that_somebody_else_has_end_after_it_was_recorded_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch, perHour=1) as b:
        policies = with_policies(b, monkeypatch)
        b.runs("low")

        def ends(_: str) -> None:
            if policies.evictions:
                found = b.api.pods["low"]
                found["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
                found["metadata"]["resourceVersion"] = "1000"
                b.see(PODS, found)

        policies.on_write = ends
        b.preempts()
        await b.until(lambda: "preempts" in policies.recorded and not policies.evictions)
        assert "POST low/eviction" not in b.eviction_api.wrote
        assert b.is_kept(), "its room is the pod's all the same"

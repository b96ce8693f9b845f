"""NominationWriter are taken back when no room is kept any more, and written again when they are lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.binding.evictor_bench import PACE, EvictorBench, bench, nominate, some_looks
from tests.engine.builders import asks, cards, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.intake import NODES, PODS


async def test_a_nomination_is_taken_back_when_the_preemption_is_no_longer_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.extend([503] * 3)

        def forbid(what: str) -> None:
            if what == "low/eviction":
                known = policy("preempts", {"preemption": {"mayPreempt": False}})
                b.engine.policy_tracker.observe(known)

        b.eviction_api.on_write = forbid
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await b.until(lambda: b.eviction_api.wrote[-1] == "PATCH high/status")
        assert "nominatedNodeName" not in b.api.pods["high"]["status"]
        await some_looks()
        assert b.eviction_api.wrote == ["PATCH high/status", "POST low/eviction", "PATCH high/status"]
        assert not b.engine.state.holds


@pytest.mark.parametrize("may_preempt", [True, False])
@pytest.mark.parametrize(("manager", "is_taken_back"), [("vgpu-scheduler", True), ("karpenter", False)])
async def test_a_nomination_of_an_earlier_leader_is_taken_back_and_one_of_anybody_else_is_not(
    monkeypatch: pytest.MonkeyPatch, manager: str, *, may_preempt: bool, is_taken_back: bool
) -> None:
    async with bench(monkeypatch, mayPreempt=may_preempt) as b:
        b.runs("low", priority=9)
        high = b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
        nominate(high, "n", manager)
        b.see(PODS, high)
        b.evictor.resume()
        await some_looks()
        assert b.eviction_api.wrote == ["PATCH high/status"] * is_taken_back
        assert ("nominatedNodeName" in high["status"]) is not is_taken_back
        assert len(b.eviction_api.read) == 1


async def test_a_nomination_is_taken_back_of_a_pod_that_was_placed_when_a_leader_took_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        high = b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
        nominate(high, "n", "vgpu-scheduler")
        b.see(PODS, high)
        assert b.engine.schedule_next(b.clock.seconds)[0].placement is not None
        await b.evictor.take_over()
        await some_looks()
        b.clock.seconds += 3600.0
        await some_looks()
        assert not b.eviction_api.wrote, "it is about to be bound"
        b.engine.unreserve("uid-high", b.clock.seconds)
        await b.until(lambda: b.eviction_api.wrote == ["PATCH high/status"])
        assert "nominatedNodeName" not in high["status"]


def half_ends(b: EvictorBench, manager: str) -> None:
    """Have half of the card be left by a pod that a drain has evicted, and a pod be nominated that needs all of it."""
    b.runs("high-low", memory=4000, priority=1)
    b.runs("low", memory=4000)
    ends = b.api.pods["low"]
    ends["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
    ends["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    b.see(PODS, ends)
    high = b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
    nominate(high, "n", manager)
    b.see(PODS, high)


async def test_nobody_is_evicted_and_nothing_is_kept_for_a_pod_that_somebody_else_nominated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        half_ends(b, "karpenter")
        await b.evictor.take_over()
        await some_looks()
        assert not b.eviction_api.wrote
        assert not b.engine.state.holds


async def test_a_leader_that_takes_over_asks_again_whose_a_nomination_is_until_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        half_ends(b, "vgpu-scheduler")
        request, asked = b.eviction_api.request, 0

        async def unsure(method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
            nonlocal asked
            asked += method == "GET"
            if method == "GET" and asked < 3:
                if asked == 1:
                    raise ApiUnreachableError("no answer")
                return ApiResponse(503, b"{}")
            return await request(method, path, body, **more)

        monkeypatch.setattr(b.eviction_api, "request", unsure)
        await b.evictor.take_over()
        assert b.is_kept()
        await b.until(lambda: "POST high-low/eviction" in b.eviction_api.wrote)


async def test_nothing_is_kept_for_a_nomination_of_which_nobody_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        half_ends(b, "vgpu-scheduler")

        async def silent(*_: Any, **__: Any) -> ApiResponse:
            raise ApiUnreachableError("no answer")

        monkeypatch.setattr(b.eviction_api, "request", silent)
        await b.evictor.take_over()
        await some_looks()
        assert not b.eviction_api.wrote
        assert not b.engine.state.holds


async def test_a_nomination_that_is_shown_only_after_it_was_given_up_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then the pod is shown with the nomination before it, which is taken back as well."""
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.engine.remove_node("n")
        b.api.nodes["m"] = node_object("m", cards("m", 1))
        b.see(NODES, b.api.nodes["m"])
        b.runs("other", "m")
        b.eviction_api.slow_nomination = "m"
        again = b.engine.attempt(b.clock.monotonic() + 60.0)  # once its back-off is over
        assert again is not None
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await some_looks()
        b.engine.preemptions.withdraw("uid-high")
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["high"]["status"])
        b.eviction_api.goes_on.set()
        await b.until(lambda: b.eviction_api.wrote.count("PATCH high/status") == 4)
        assert "nominatedNodeName" not in b.api.pods["high"]["status"]


@pytest.mark.parametrize("refusals", [[], [503, 503, 503]], ids=["all are asked", "some are to be asked"])
async def test_a_nomination_that_is_lost_is_written_again(monkeypatch: pytest.MonkeyPatch, refusals: list[int]) -> None:
    """Whoever leads next keeps the room for those alone that are nominated."""
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.extend(refusals)
        b.eviction_api.retry_after = 5 * PACE
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        high = b.api.pods["high"]
        del high["status"]["nominatedNodeName"]
        b.eviction_api.encoded(high)
        b.see(PODS, high)
        await b.until(lambda: b.eviction_api.wrote.count("PATCH high/status") == 2)
        assert high["status"]["nominatedNodeName"] == "n"
        await some_looks()
        assert b.eviction_api.wrote.count("PATCH high/status") == 2


async def test_a_nomination_stays_while_room_is_kept_for_a_pod_that_could_not_be_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.engine.remove_pod("uid-low", b.clock.monotonic())
        assert b.tried().placement is not None
        b.engine.unreserve("uid-high", b.clock.monotonic())
        assert b.engine.state.holds.get("uid-high") is not None
        await some_looks()
        assert b.api.pods["high"]["status"]["nominatedNodeName"] == "n"
        b.engine.preemptions.withdraw("uid-high")
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["high"]["status"])

"""The evictor at its edges: victims that do not end, rights that are missing, a lease that is lost, and lanes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.binding.evictor_bench import PACE, Obj, PolicyApi, bench, nominate, some_looks
from tests.engine.builders import allocation, asks, cards, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding.evictions import EvictionAnswer
from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.kube import PodGroup


async def test_a_victim_that_does_not_end_is_told_of_and_then_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        api = b.eviction_api
        await b.until(lambda: api.wrote == ["PATCH high/status", "POST low/eviction"])
        b.see_pod("low")
        b.see_pod("high")
        b.clock.seconds = 30.0 + 29.0  # its grace period ends after 30 s
        await some_looks()
        assert b.evictor.stats.overdue == 0
        b.clock.seconds = 30.0 + 31.0
        await b.until(lambda: b.evictor.stats.overdue == 1)
        text = "pod default/low on node n has not ended within its grace period"
        await b.until(lambda: ("VictimOverdue", text) in api.events)
        assert b.is_kept()
        b.clock.seconds = 30.0 + 121.0
        await b.until(lambda: not b.is_kept())
        assert not b.engine.state.holds
        await b.until(lambda: "nominatedNodeName" not in api.pods["high"]["status"])
        again = b.tried()
        assert again.preemption is None, "who does not end is no victim"
        assert api.wrote.count("POST low/eviction") == 1
        b.clock.seconds = 30.0 + 900.0
        await some_looks()
        assert b.evictor.stats.overdue == 1, "it is counted until it is gone, whoever waits for it"
        b.engine.remove_pod("uid-low", b.clock.monotonic())
        await b.until(lambda: b.evictor.stats.overdue == 0)


async def test_a_pod_is_not_told_the_names_of_overdue_pods_of_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        notes = allocation("n", ("n-gpu-0", 8000, 0))
        found = pod_object("low", asks(gpumem=8000), namespace="team", annotations=notes, nodeName="n", started=True)
        b.api.pods["low"] = found
        b.see(PODS, found)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.see_pod("low")
        b.clock.seconds = 30.0 + 31.0
        text = "pod uid-low on node n has not ended within its grace period"
        await b.until(lambda: ("VictimOverdue", text) in b.eviction_api.events)
        assert ("Preempted", "Preempted by pod uid-high on node n") in b.eviction_api.events


async def test_a_missing_right_is_told_and_tried_again_when_it_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.append(403)
        b.preempts()
        await b.until(lambda: not b.is_kept())
        assert b.eviction_api.wrote[:2] == ["PATCH high/status", "POST low/eviction"]
        await b.until(lambda: "nominatedNodeName" not in b.api.pods["high"]["status"])
        b.clock.seconds += 11.0
        told = b.tried()
        assert told.preemption is None
        assert told.message.endswith('the right to evict is missing: user "us" cannot create pods/eviction.')
        b.clock.seconds += 61.0
        again = b.tried()
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)
        await some_looks()
        assert b.is_kept()


async def test_a_victim_that_a_budget_protects_is_asked_for_again_where_an_earlier_leader_evicted_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("high-low", memory=4000, priority=1)
        b.runs("low", memory=4000)
        ends = b.api.pods["low"]
        ends["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
        ends["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        ]
        b.see(PODS, ends)
        b.api.pods["high"] = pod_object("high", asks(gpumem=8000), priority=5)
        nominate(b.api.pods["high"], "n")
        b.see(PODS, b.api.pods["high"])
        b.eviction_api.refusals.append(429)
        b.eviction_api.retry_after = PACE
        await b.evictor.take_over()
        under_way = b.engine.preemptions.of("uid-high")
        await b.until(lambda: b.eviction_api.wrote == ["POST high-low/eviction"] * 2)
        assert b.engine.preemptions.of("uid-high") is under_way is not None


async def test_a_victim_that_is_protected_meanwhile_is_not_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def protect(_: str) -> None:
            kept = {"priority": 9, "preemption": {"mayPreempt": True, "preemptible": False}}
            b.engine.policy_tracker.observe(policy("kept", kept))

        b.eviction_api.on_write = protect
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert "POST low/eviction" not in b.eviction_api.wrote


@pytest.mark.parametrize("sent", [False, True], ids=["waits for its turn", "its Binding is sent"])
async def test_a_victim_that_waits_in_a_lane_is_taken_out_of_it(monkeypatch: pytest.MonkeyPatch, *, sent: bool) -> None:
    async with bench(monkeypatch) as b:
        low = b.decided("low", 0)
        assert low.placement is not None
        b.may_leave = not sent
        b.preempts()
        await b.until(lambda: b.left)
        assert b.left[0] == "uid-low"
        if sent:
            await b.until(lambda: len(b.left) > 2)
            assert b.eviction_api.wrote == ["PATCH high/status"]
            b.runs("low")  # what was free is not any more: who ends is decided anew
            await b.until(lambda: not b.is_kept())
            assert "POST low/eviction" not in b.eviction_api.wrote
        else:
            await some_looks()
            assert b.eviction_api.wrote == ["PATCH high/status"]
            assert b.engine.state.reservation("uid-low") is None


async def test_a_victim_of_which_nobody_says_whether_it_was_bound_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vgpu_scheduler.binding.victim_eviction._MOST_TRIES", 3)
    async with bench(monkeypatch) as b:
        b.decided("low", 0)
        b.may_leave = False
        b.preempts()
        await b.until(lambda: not b.is_kept())
        assert len(b.left) == 3
        assert "POST low/eviction" not in b.eviction_api.wrote
        b.clock.seconds += 120.0
        assert b.tried().preemption is None, "it is not chosen again"


@pytest.mark.parametrize(
    ("after", "rules", "wrote"),
    [
        ("", {}, []),
        ("high/status", {}, ["PATCH high/status"]),
        ("low/status", {"budgets": "Exceed"}, ["PATCH high/status", "POST low/eviction", "PATCH low/status"]),
    ],
    ids=["before all", "after the nomination", "between marking a victim and deleting it"],
)
async def test_who_has_lost_the_lease_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, after: str, rules: Obj, wrote: list[str]
) -> None:
    async with bench(monkeypatch, **rules) as b:
        b.runs("low")
        b.leads = bool(after)
        b.eviction_api.refusals.append(429)

        def lose(what: str) -> None:
            b.leads = b.leads and what != after

        b.eviction_api.on_write = lose
        b.preempts()
        await b.until(lambda: len(b.eviction_api.wrote) >= len(wrote))
        await some_looks()
        assert b.eviction_api.wrote == wrote
        assert json.dumps(b.api.pods["low"]).count("deletionTimestamp") == 0


async def test_a_preemption_that_begins_while_the_lease_is_late_goes_on_once_it_is_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.leads = False
        b.preempts()
        await some_looks()
        assert not b.eviction_api.wrote
        b.leads = True
        await b.until(lambda: b.eviction_api.wrote == ["PATCH high/status", "POST low/eviction"])


async def test_a_second_preemption_of_a_pod_is_not_taken_for_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its victims were not asked to end when those of the first were."""
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        await some_looks()
        b.api.nodes["m"] = node_object("m", cards("m", 1))
        b.see(NODES, b.api.nodes["m"])
        b.runs("other", "m", priority=1)
        cordoned = b.api.nodes["n"]
        cordoned["metadata"]["resourceVersion"] = "5000"
        cordoned["spec"] = {"unschedulable": True}
        b.see(NODES, cordoned)
        b.clock.seconds += 32.0
        b.engine.remove_pod("uid-low", b.clock.monotonic())
        b.eviction_api.slow_nomination = "m"
        again = b.tried()
        assert again.preemption is not None
        b.evictor.submit(again)
        await some_looks()
        assert b.engine.preemptions.of("uid-high") is again.preemption
        b.eviction_api.goes_on.set()
        await b.until(lambda: "POST other/eviction" in b.eviction_api.wrote)


@pytest.mark.parametrize("refused_with", [429, 503])
async def test_an_eviction_that_is_refused_does_not_count_towards_the_limits_of_policies(
    monkeypatch: pytest.MonkeyPatch, refused_with: int
) -> None:
    """One of which nobody knows whether it was carried out does."""
    async with bench(monkeypatch, perHour=1) as b:
        b.runs("low")
        policies = PolicyApi(b.eviction_api.request)
        monkeypatch.setattr(b.eviction_api, "request", policies.request)
        b.eviction_api.refusals.extend([refused_with, 429])
        b.eviction_api.retry_after = PACE
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert [one["uid"] for one in policies.evictions] == ["uid-low"] * (refused_with == 503)


async def test_no_more_are_evicted_than_another_leader_has_left_of_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch, perHour=1) as b:
        b.runs("low")
        stamp = b.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        one = {"time": stamp, "pod": "default/other", "uid": "uid-other", "node": "n"}
        recorded: Obj = {"metadata": {"uid": "p", "resourceVersion": "1"}, "status": {"evictions": [one]}}
        request = b.eviction_api.request

        async def answering(method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
            if "policies/" in path:
                assert method == "GET"
                return ApiResponse(200, json.dumps(recorded).encode())
            return await request(method, path, body, **more)

        monkeypatch.setattr(b.eviction_api, "request", answering)
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert "POST low/eviction" not in b.eviction_api.wrote


async def test_a_victim_that_stays_though_the_answer_was_that_it_is_gone_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.append(404)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        b.clock.seconds += 29.0
        await some_looks()
        assert b.is_kept()
        b.clock.seconds += 2.0
        await b.until(lambda: not b.is_kept())
        b.clock.seconds += 11.0
        again = b.tried()
        assert again.preemption is not None, again.message
        b.evictor.submit(again)
        await b.until(lambda: b.eviction_api.wrote.count("POST low/eviction") == 2)


async def test_a_preemption_that_breaks_off_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def fail(what: str) -> None:
            if what == "low/eviction":
                raise RuntimeError("no good")

        b.eviction_api.on_write = fail
        b.eviction_api.refusals.append(503)
        b.preempts()
        await b.until(lambda: "POST low/eviction" in b.eviction_api.wrote)
        await some_looks()
        b.clock.seconds += 31.0
        await b.until(lambda: not b.is_kept())
        assert not b.engine.state.holds


async def test_an_eviction_whose_answer_is_lost_is_told_and_counted_once_its_victim_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def carried_out(what: str) -> None:
            if what == "low/eviction":
                b.see_pod("low")
                raise ApiUnreachableError("cut, but carried out")

        b.eviction_api.on_write = carried_out
        b.preempts()
        told = ("Preempted", "Preempted by pod default/high on node n")
        await b.until(lambda: told in b.eviction_api.events)
        await some_looks()
        assert b.eviction_api.wrote.count("POST low/eviction") == 1
        assert b.evictor.stats.answers == {EvictionAnswer.UNKNOWN: 1, EvictionAnswer.EVICTED: 1}


async def test_a_victim_that_ends_by_itself_is_not_told_to_be_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")

        def deleted(what: str) -> None:
            if what == "high/status":
                b.api.pods["low"]["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"
                b.eviction_api.encoded(b.api.pods["low"])
                b.see_pod("low")

        b.eviction_api.on_write = deleted
        b.preempts()
        await b.until(lambda: "PATCH high/status" in b.eviction_api.wrote)
        await some_looks()
        assert not [reason for reason, _ in b.eviction_api.events if reason == "Preempted"]
        assert not b.evictor.stats.answers


async def test_times_of_policies_follow_the_wall_clock_when_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        await some_looks()
        before, now = b.engine.preemptions.evaluator.unix_ahead, b.clock.now
        monkeypatch.setattr(b.clock, "now", lambda: now() + timedelta(hours=1))
        await b.until(lambda: b.engine.preemptions.evaluator.unix_ahead != before)
        assert b.engine.preemptions.evaluator.unix_ahead == before + 3600.0


async def test_what_budgets_protected_is_forgotten_with_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low")
        b.eviction_api.refusals.append(429)
        b.preempts()
        await b.until(lambda: not b.is_kept())
        await some_looks()
        assert b.evictor._protected
        b.engine.remove_pod("uid-low", b.clock.monotonic())
        await b.until(lambda: not b.evictor._protected)


async def test_nobody_else_is_evicted_on_a_node_that_is_cordoned_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(monkeypatch) as b:
        b.runs("low", memory=4000)
        b.runs("lower", memory=4000, priority=1)
        b.eviction_api.retry_after = 5 * PACE

        def cordon(what: str) -> None:
            if what.endswith("/eviction") and not b.eviction_api.refusals:
                b.eviction_api.refusals.extend([429] * 3)  # the second victim has to be asked for again
                b.api.nodes["n"]["metadata"]["resourceVersion"] = "5000"
                b.api.nodes["n"]["spec"] = {"unschedulable": True}
                b.see(NODES, b.api.nodes["n"])

        b.eviction_api.on_write = cordon
        b.preempts()
        await b.until(lambda: not b.is_kept())
        for _ in range(4):
            await some_looks()
        assert len([pod for pod in b.api.pods.values() if "deletionTimestamp" in pod["metadata"]]) == 1


async def test_who_ends_elsewhere_with_a_pod_is_evicted_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room is complete when those on the node have left: nobody looks after the others then."""
    async with bench(monkeypatch) as b:
        group = PodGroup(
            kind="PodGroup.v1alpha2.scheduling.k8s.io", uid="g", namespace="default", name="job", resource_version=1,
            minimum=0, disrupted_whole=True,
        )  # fmt: skip
        b.engine.groups.observe_object(group)
        b.api.nodes["other"] = node_object("other", cards("other", 1), unschedulable=True)
        b.see(NODES, b.api.nodes["other"])
        for name, node in (("here", "n"), ("there", "other")):
            notes = allocation(node, (f"{node}-gpu-0", 8000, 0))
            of_group = {"schedulingGroup": {"podGroupName": "job"}, "nodeName": node, "started": True}
            b.api.pods[name] = pod_object(name, asks(gpumem=8000), annotations=notes, **of_group)  # type: ignore[arg-type]
            b.see(PODS, b.api.pods[name])
        b.preempts()
        wrote = ["PATCH high/status", "POST there/eviction", "POST here/eviction"]
        await b.until(lambda: b.eviction_api.wrote == wrote)

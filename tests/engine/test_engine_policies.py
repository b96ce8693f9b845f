"""Policies in decisions: what is in force counts at once, wakes whom it helps, and is named."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, card, cards, engine_with, node, pod
from tests.engine.policy_worlds import PERCENT, SPREAD, decide, remove, tenant, uneven, with_policies
from tests.policy.resources import policy

from vgpu_scheduler.kube import Namespace
from vgpu_scheduler.model import ClusterEvent, Outcome
from vgpu_scheduler.predicates import reasons as filters


def test_a_policy_changes_the_next_decision_and_its_end_the_one_after() -> None:
    engine = engine_with(uneven(), [tenant()])
    nodes = []
    for number, change in enumerate(("none", "put", "change", "remove")):
        if change == "put":
            engine.policy_tracker.observe(policy("p", SPREAD))
        elif change == "change":
            engine.policy_tracker.observe(policy("p", {"nodes": {"policy": "binpack"}}))
        elif change == "remove":
            engine.policy_tracker.observe(policy("p", SPREAD))
            remove(engine, "p")
        engine.observe_pod(pod(f"x{number}"), 4.0)
        decision = decide(engine, 5.0)
        assert decision.placement is not None
        nodes.append((decision.placement.node, *decision.sources["nodes"]))
        engine.remove_pod(f"uid-x{number}", 5.0)
    assert nodes == [
        ("a", "settings"), ("b", "ClusterVGPUPolicy p"), ("a", "ClusterVGPUPolicy p"), ("a", "settings")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "resources", "message"),
    [
        ({"limits": {"devicesPerPod": 1}}, asks(2), "pod asks for 2 devices, limits.devicesPerPod of"),
        ({"limits": {"memoryPerPod": "1Gi"}}, asks(2, 1024), "pod asks for 2Gi, limits.memoryPerPod of"),
        ({"limits": {"coresPerPod": 50}}, asks(2, 100, 30), "pod asks for 60 percent of compute"),
        ({"limits": {"memoryPerPod": "1Gi"}}, PERCENT, "2 CardDeniedByPolicy"),
        ({"devices": {"types": {"deny": ["t4"]}}}, asks(), "2 CardDeniedByPolicy"),
        ({"devices": {"types": {"allow": ["A100"]}}}, asks(), "2 CardDeniedByPolicy"),
        ({"devices": {"modes": ["mps"]}}, asks(), "2 CardDeniedByPolicy"),
        ({"nodeSelector": {"matchLabels": {"pool": "x"}}}, asks(), "2 node(s) didn't match the policy's node selector"),
    ],
)
def test_what_a_policy_forbids_is_said_and_its_end_wakes_the_pod(
    spec: dict[str, Any], resources: dict[str, Any], message: str
) -> None:
    engine = with_policies(engine_with([node(n, cards(n, 2)) for n in "ab"]), spec)
    engine.observe_pod(pod("x", resources), 0.0)
    refused = decide(engine)
    assert refused.placement is None
    assert message in refused.message
    assert engine.attempt(20.0) is None
    remove(engine, "p0")
    assert decide(engine, 30.0).outcome is Outcome.PLACED


def test_what_is_asked_for_may_be_all_that_is_allowed() -> None:
    limits = {"limits": {"devicesPerPod": 2, "memoryPerPod": "2Gi", "coresPerPod": 60}}
    engine = with_policies(engine_with([node("a", cards("a", 2))]), limits)
    engine.observe_pod(pod("x", asks(2, 1024, 30)), 0.0)
    assert decide(engine).outcome is Outcome.PLACED


def test_what_kubernetes_says_of_a_node_goes_before_what_a_policy_says() -> None:
    small = node("c", cards("c", 1), allocatable={"cpu": "1"})
    engine = engine_with([node("a", cards("a", 1), unschedulable=True), node("b", cards("b", 1)), small])
    with_policies(engine, {"nodeSelector": {"matchLabels": {"pool": "x"}}})
    engine.observe_pod(pod("x", asks(cpu="4")), 0.0)
    assert decide(engine).reasons == {
        filters.UNSCHEDULABLE: 1,
        filters.insufficient("cpu"): 1,
        filters.POLICY_SELECTOR: 1,
    }


def test_exclusive_leaves_out_cards_whose_compute_cannot_be_taken_whole() -> None:
    scaled = node("a", [card("scaled", devcore=200)])
    engine = with_policies(engine_with([scaled]), {"devices": {"exclusive": True}})
    engine.observe_pod(pod("x"), 0.0)
    assert "CardDeniedByPolicy" in decide(engine).message


def test_a_change_that_does_not_concern_a_pod_does_not_wake_it() -> None:
    engine = with_policies(engine_with([node("a", cards("a", 1))]), {"limits": {"devicesPerPod": 1}})
    engine.observe_pod(pod("x", asks(2)), 0.0)
    decide(engine)
    engine.policy_tracker.observe(policy("elsewhere", SPREAD, "other"))
    assert engine.attempt(21.0) is None
    engine.policy_tracker.observe(policy("here", SPREAD, "default"))
    refused = decide(engine, 23.0)  # the limit still holds
    assert (refused.sources["nodes"], refused.sources["limits"]) == (
        ("VGPUPolicy default/here",),
        ("ClusterVGPUPolicy p0",),
    )


def test_percentages_are_kept_within_a_limit_by_the_size_of_the_card() -> None:
    big, small = node("a", [card("big", memory=80000)]), node("b", [card("small", memory=16000)])
    engine = with_policies(engine_with([big, small]), {"limits": {"memoryPerPod": "10Gi"}})
    engine.observe_pod(pod("x", PERCENT), 0.0)
    placed = decide(engine).placement
    assert placed is not None
    assert placed.node == "b"


def test_defaults_hold_for_claims_that_do_not_say() -> None:
    engine = with_policies(engine_with([node("a", cards("a", 1))]), {"defaults": {"memory": "2Gi", "cores": 20}})
    engine.observe_pod(pod("x", {"limits": {"nvidia.com/gpu": "1"}}), 0.0)
    engine.observe_pod(pod("y", asks(1, 512, 5)), 0.0)
    amounts = []
    for _ in range(2):
        placed = decide(engine).placement
        assert placed is not None
        amounts.append(placed.containers[0][0].amounts)
    assert amounts == [(1, 2048, 20), (1, 512, 5)]


def test_overrides_that_are_not_allowed_are_not_followed_and_said() -> None:
    engine = with_policies(engine_with([node("a", cards("a", 2))]), {"podOverrides": {"allow": ["devicePolicy"]}})
    engine.observe_pod(pod("x", annotations={"nvidia.com/use-gpuuuid": "nobody", "nvidia.com/vgpu-mode": "mig"}), 0.0)
    decision = decide(engine)
    assert decision.placement is not None
    assert sorted(decision.warnings) == [
        f"annotation nvidia.com/{name} is not followed: podOverrides of ClusterVGPUPolicy p0 does not allow it"
        for name in ("use-gpuuuid", "vgpu-mode")
    ]


def test_a_policy_that_is_not_understood_makes_its_pods_wait_and_no_others() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.policy_tracker.observe(policy("bad", {"nodes": {"policy": "sideways"}}, "default"))
    engine.observe_pod(pod("x"), 0.0)
    waiting = decide(engine)
    assert (waiting.outcome, waiting.placement) == (Outcome.REFUSED, None)
    assert "PolicyNotReady: VGPUPolicy default/bad: spec.nodes.policy" in waiting.message
    engine.observe_pod(pod("y", namespace="other"), 1.0)
    assert decide(engine).outcome is Outcome.PLACED
    engine.policy_tracker.observe(policy("bad", SPREAD, "default"))
    assert decide(engine, 21.0).outcome is Outcome.PLACED


def test_an_assumed_placement_is_checked_again_under_a_new_policy() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(pod("x"), 0.0)
    first = decide(engine).placement
    assert engine.assumed.recheck("uid-x") == first
    engine.policy_tracker.observe(policy("p", {"devices": {"types": {"deny": ["T4"]}}}))
    assert engine.assumed.recheck("uid-x") is None
    engine.unreserve("uid-x", 3.0)
    assert "CardDeniedByPolicy" in decide(engine, 30.0).message


def test_namespaces_count_by_their_labels() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    spec = {"namespaceSelector": {"matchLabels": {"tier": "shared"}}, "limits": {"devicesPerPod": 1}}
    with_policies(engine, spec)
    engine.policy_tracker.observe_namespace(Namespace("default", {"tier": "shared"}, 1))
    engine.observe_pod(pod("x", asks(2)), 0.0)
    assert decide(engine).outcome is Outcome.REFUSED
    engine.policy_tracker.observe_namespace(Namespace("default", {"tier": "own"}, 2))
    assert decide(engine, 21.0).outcome is Outcome.PLACED


def test_reports_say_what_became_of_each_policy() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.policy_tracker.observe(policy("bad", {"nodes": {"policy": "sideways"}}, "default"))
    unknown = {"priority": 1, "devices": {"types": {"allow": ["t4"], "deny": ["H900"]}}, "nodes": {
        "scorers": [{"name": "binpack", "resources": {"example.com/x": 2}, "weight": 0}]}}  # fmt: skip
    engine.policy_tracker.observe(policy("odd", unknown))
    engine.policy_tracker.observe(policy("one", SPREAD))
    engine.policy_tracker.observe(policy("two", SPREAD))
    engine.observe_pod(pod("x", namespace="other"), 0.0)
    engine.observe_pod(pod("done", namespace="other", phase="Succeeded"), 0.0)
    engine.observe_pod(pod("theirs", namespace="other", scheduler="another"), 0.0)
    reports = {report.policy.name: report for report in engine.policy_tracker.report(engine.scheduler_names)}
    conditions = {
        name: {condition.type: (condition.status, condition.reason) for condition in report.conditions}
        for name, report in reports.items()
    }
    assert conditions["bad"]["Ready"] == (False, "Invalid")
    assert conditions["odd"]["Ready"] == (True, "Accepted")
    assert conditions["odd"]["Warnings"] == (True, "Several")
    message = next(c.message for c in reports["odd"].conditions if c.type == "Warnings")
    assert "no node offers example.com/x" in message
    assert "no node has H900" in message
    assert "t4" not in message
    assert "switches off binpack" in message
    assert conditions["one"]["Conflicted"] == conditions["two"]["Conflicted"] == (True, "SameRank")
    assert conditions["odd"]["Conflicted"] == (False, "NoConflict")
    assert (reports["odd"].pods, reports["one"].pods) == (1, 0)
    assert (reports["one"].nodes, reports["odd"].nodes) == ("spread", "binpack x0")


def test_pods_that_come_before_their_namespace_wait_for_its_labels() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    spec = {"namespaceSelector": {"matchLabels": {"tier": "shared"}}, "limits": {"devicesPerPod": 1}}
    with_policies(engine, spec)
    engine.observe_pod(pod("x", asks(2)), 0.0)
    assert "the labels of the namespace" in decide(engine).message
    engine.policy_tracker.observe_namespace(Namespace("default", {"tier": "shared"}, 1))
    assert "limits.devicesPerPod" in decide(engine, 20.0).message


def test_asking_for_no_cores_is_no_way_around_a_limit_of_compute() -> None:
    engine = with_policies(engine_with([node("a", cards("a", 2))]), {"limits": {"coresPerPod": 150}})
    engine.observe_pod(pod("one", asks(1, 100, 0)), 0.0)
    assert decide(engine).outcome is Outcome.PLACED
    engine.observe_pod(pod("two", asks(2, 100, 0)), 0.0)
    assert "pod counts as 200 percent of compute (it asks for no cores of 2 devices)" in decide(engine).message


def test_a_decision_is_restated_under_what_is_in_force_now() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(pod("x"), 0.0)
    decision = decide(engine)
    engine.policy_tracker.observe(policy("p", {"devices": {"exclusive": True}}))
    placement = engine.assumed.recheck("uid-x")
    assert placement is not None
    assert placement.containers[0][0].amounts == (1, 1000, 100)
    restated = engine.assumed.after_recheck(decision, placement)
    assert restated.placement == placement
    assert restated.sources["devices"] == ("settings", "ClusterVGPUPolicy p")


def test_many_changes_are_one_look_at_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(pod("x", asks(2)), 0.0)
    decide(engine)
    looks: list[ClusterEvent | None] = []
    monkeypatch.setattr(engine.queue, "unschedulable", lambda waits_for=None: looks.append(waits_for) or iter(()))
    for number in range(5):
        engine.policy_tracker.observe(policy(f"p{number}", SPREAD))
    assert engine.attempt(20.0) is None
    assert engine.attempt(21.0) is None
    assert looks == [None], "no policy says anything about evictions"
    engine.policy_tracker.observe(policy("p0", {"preemption": {"preemptible": False}}))
    assert engine.attempt(22.0) is None
    assert looks == [None, None, ClusterEvent.BUDGET], "of all, and of those that found nobody to preempt"


def test_what_no_node_has_any_more_is_not_known_any_more() -> None:
    engine = engine_with([node("a", cards("a", 1), allocatable={"example.com/x": "1"}), node("b")])
    spec = {"nodes": {"scorers": [{"name": "binpack", "resources": {"example.com/x": 2}}]},
            "devices": {"types": {"allow": ["T4"]}}}  # fmt: skip
    engine.policy_tracker.observe(policy("p", spec))

    def warned() -> bool:
        (report,) = engine.policy_tracker.report(engine.scheduler_names)
        return next(c.status for c in report.conditions if c.type == "Warnings")

    assert not warned()
    engine.remove_node("a")
    assert warned()

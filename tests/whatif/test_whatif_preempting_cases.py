"""Cases that expect pods to go for others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.whatif.cases import document, error, failures

SHARED = """
policies:
  - kind: ClusterVGPUPolicy
    metadata: {name: house}
    spec: {preemption: {mayPreempt: true, minRuntime: 1h, delay: 10m}}
nodes:
  - {name: a, cards: 1}
running:
  - {name: low, node: a, priority: 1, cards: {card: a-0, memory: 20Gi}}
  - {name: lower, namespace: team-a, node: a, cards: {card: a-0, memory: 20Gi}}
"""


def asks(memory: int, priority: int = 5, **more: Any) -> dict[str, Any]:
    return {"priority": priority, "resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}, **more}


def case(expect: dict[str, Any], **more: Any) -> dict[str, Any]:
    return document(SHARED, pod=asks(16384), expect=expect, **more)


@pytest.mark.parametrize(
    "expect",
    [
        {"preempts": "team-a/lower"},
        {
            "preempts": ["team-a/lower"],
            "node": "a",
            "cards": "a-0",
            "policy": {"preemption": "ClusterVGPUPolicy house"},
        },
        {"outcome": "placed"},
    ],
)
def test_who_goes_is_as_expected(expect: dict[str, Any]) -> None:
    assert failures(case(expect)) == []


def test_it_says_who_went_instead() -> None:
    assert failures(case({"preempts": "low"})) == ["preempts: expected default/low, found team-a/lower"]
    assert failures(case({"preempts": []})) == ["preempts: expected none, found team-a/lower"]
    assert failures(case({"preempts": "low"}, without=[], policies=[])) != []
    told = "reason: expected outcome unschedulable, but the pod goes to a once team-a/lower went"
    assert failures(case({"outcome": "unschedulable"})) == [told]


def test_without_a_policy_that_allows_it_nobody_goes() -> None:
    assert failures({**case({"reason": "CardInsufficientMemory"}), "policies": []}) == []
    (waits,) = failures({**case({"preempts": "low"}), "policies": []})
    assert waits.startswith("the pod waits: ")


def test_a_pod_of_an_earlier_step_goes_for_a_later_one() -> None:
    steps = [
        {"pod": asks(40960, 0, name="first"), "expect": {"node": "a", "preemptedBy": "second"}},
        {"pod": asks(40960, 5, name="second"), "expect": {"node": "a", "preempts": "first"}},
    ]
    shared = {**document(SHARED), "running": []}
    shared["policies"] = [{**shared["policies"][0], "spec": {"preemption": {"mayPreempt": True}}}]
    assert failures({**shared, "steps": steps}) == []
    steps[1]["pod"]["priority"] = 0
    waits, why = failures({**shared, "steps": steps})
    assert waits == "steps[0].preemptedBy: expected default/second, found none"
    assert why.startswith("steps[1].the pod waits: 0/1 nodes are available: 1 CardInsufficientMemory. preemption: ")


def test_a_pod_that_has_just_started_is_protected_by_its_run_time() -> None:
    young = {"metadata": {"name": "young"}, "spec": {"nodeName": "a", "schedulerName": "vgpu-scheduler"}}
    young["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": "a-0,NVIDIA,40960,0:;",
    }
    young["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    shared = {**document(SHARED), "running": [young], "pod": asks(16384)}
    assert failures({**shared, "expect": {"reason": "No preemption victims found"}}) == []
    young["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    assert failures({**shared, "expect": {"preempts": "young"}}) == []


def test_a_budget_that_allows_one_allows_no_second_one() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 1},
    }
    running = [
        {"name": f"r{n}", "labels": {"app": "x"}, "node": "a", "cards": {"card": "a-0", "memory": "20Gi"}}
        for n in range(2)
    ]
    steps = [
        {"pod": asks(20480, name="one"), "expect": {"preempts": "r1"}},
        {"pod": asks(20480, name="two"), "expect": {"reason": "PodDisruptionBudgets protect the victims"}},
    ]
    shared = {**document(SHARED), "running": running, "objects": [budget]}
    assert failures({**shared, "steps": steps}) == []


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ({"preempts": 3}, "expect.preempts: 3 is neither a string nor a list of strings"),
        ({"preempts": [""]}, "expect.preempts[0]: '' does not name a pod: write NAME, or NAMESPACE/NAME"),
        ({"preempts": ["a/b/c"]}, "expect.preempts[0]: 'a/b/c' does not name a pod: write NAME, or NAMESPACE/NAME"),
        ({"preempts": ["low", "low"]}, "expect.preempts: low is listed twice"),
        ({"preempts": None}, "expect: preempts is empty: leave it out, or set what is expected"),
        ({"preempts": "nobody"}, "expect.preempts: there is no pod default/nobody"),
        ({"preemptedBy": ["a", "b"]}, "expect.preemptedBy: "),
        ({"preemptedBy": "A"}, "expect.preemptedBy: 'A' does not name a pod: write NAME, or NAMESPACE/NAME"),
        ({"preemptedBy": "later"}, "expect.preemptedBy: no later step has a pod default/later"),
        ({"preempts": "low", "reason": "x"}, "expect: preempts: no pod is evicted for a pod that waits"),
        ({"preemptedBy": "low", "reason": "x"}, "expect: preemptedBy: a pod that waits cannot be evicted"),
        ({"preempt": "low"}, "expect: there is no field 'preempt': did you mean preempts?"),
    ],
)
def test_bad_values_are_named_with_their_field(expect: dict[str, Any], told: str) -> None:
    assert error(case(expect)).startswith(told)

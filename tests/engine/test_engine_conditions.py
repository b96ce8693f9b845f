"""The reason of a pod's condition: autoscalers add nodes for ``Unschedulable``, so it is kept for what that helps."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.model import CardReason, ConditionReason, Decision

ERROR, UNSCHEDULABLE = ConditionReason.SCHEDULER_ERROR, ConditionReason.UNSCHEDULABLE
SMALL_QUOTA = ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": "1500"})


def one_node() -> Engine:
    return engine_with([node("a", cards("a", 1))])


def decide(engine: Engine, **asked: object) -> Decision:
    engine.observe_pod(pod("p", **asked), 0.0)  # type: ignore[arg-type]
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.placement is None
    return decision


@pytest.mark.parametrize(
    "asked",
    [
        {"resources": asks(1, 9000)},
        {"nodeSelector": {"no": "where"}},
        {"resources": asks(0, cpu="100")},
        {"resources": asks(9, 1)},
    ],
)
def test_what_another_node_would_help_is_unschedulable(asked: dict[str, object]) -> None:
    assert decide(one_node(), **asked).condition_reason is UNSCHEDULABLE


@pytest.mark.parametrize(
    "asked",
    [
        {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "-1"}}},
        {"resourceClaims": [{"name": "c"}]},
    ],
    ids=["a claim that makes no sense", "a field that is not checked"],
)
def test_what_is_refused_is_an_error(asked: dict[str, object]) -> None:
    assert decide(one_node(), **asked).condition_reason is ERROR


@pytest.mark.parametrize("spec", [{"limits": {"devicesPerPod": 0}}, {"nodes": {"policy": "sideways"}}])
def test_what_a_policy_refuses_is_an_error(spec: dict[str, object]) -> None:
    engine = one_node()
    engine.policy_tracker.observe(policy("p", spec))
    assert decide(engine).condition_reason is ERROR


def test_a_quota_that_keeps_a_pod_from_all_nodes_that_fit_is_an_error() -> None:
    engine = engine_with([node("a", cards("a", 1)), node("b", cards("b", 1, memory=1000))])
    engine.quota_limits.observe(SMALL_QUOTA)
    decision = decide(engine, resources=asks(1, 2000))
    assert decision.reasons == {CardReason.ResourceQuotaNotFit: 2}  # HAMi looks at quotas before memory
    assert decision.condition_reason is ERROR


def test_a_quota_beside_nodes_that_are_full_hides_nothing() -> None:
    engine = one_node()
    engine.quota_limits.observe(SMALL_QUOTA)
    decision = decide(engine, resources=asks(1, 9000))
    assert decision.reasons == {CardReason.ResourceQuotaNotFit: 1}
    assert decision.condition_reason is UNSCHEDULABLE  # it would fit nowhere without the quota either


def test_a_closed_node_is_replaced_by_another() -> None:
    engine = engine_with([node("a", cards("a", 1), annotations={"hami.io/mutex.lock": "garbage"})])
    assert decide(engine).condition_reason is UNSCHEDULABLE

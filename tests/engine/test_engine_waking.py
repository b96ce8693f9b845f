"""Whom the changes between two attempts wake, against the rule said plainly."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.engine.builders import make_engine, pod

from vgpu_scheduler.engine import Engine, QueueEvent, QueueName
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.model import ClusterEvent, PendingEvents

NAMESPACES = ("limited", "free", "other")
EVENTS = (
    ClusterEvent.NODE_ADD,
    ClusterEvent.ASSIGNED_POD_CHANGE,
    ClusterEvent.STORAGE,
    ClusterEvent.QUOTA,
    ClusterEvent.POLICY,
    ClusterEvent.KUBELET_REJECTION,
    ClusterEvent.ASSIGNED_POD_DELETE,
)

events = st.sets(st.sampled_from(EVENTS)).map(lambda some: ClusterEvent(sum(some)))
namespaces = st.sets(st.sampled_from(NAMESPACES))
waiting = st.lists(st.tuples(st.sampled_from(NAMESPACES), events, st.booleans()), min_size=1, max_size=6)
changes = st.fixed_dictionaries(
    {
        "events": events.map(lambda some: some & ~(ClusterEvent.QUOTA | ClusterEvent.POLICY)),
        "quotas": namespaces,
        "quota_freed": namespaces,
        "policies": namespaces,
        "every_policy": st.booleans(),
        "pods": st.sets(st.integers(0, 5)),
    }
)


def engine_with_parked(pods: list[tuple[str, ClusterEvent, bool]]) -> Engine:
    """Return an engine where pods wait, each with its namespace, what helps it, and whether its policy is as before."""
    engine = make_engine()
    engine.quota_limits.observe(ResourceQuota("limited", "q", {"limits.nvidia.com/gpumem": "1000"}, "u", 1))
    engine.attempt(0.0)  # the limit has changed, and woken nobody
    for number, (namespace, waits_for, as_decided) in enumerate(pods):
        one = pod(f"p{number}", namespace=namespace)
        engine.observe_pod(one, 0.0)
        if as_decided:
            engine.policy_tracker.decided(one)
        assert engine.queue.pop(0.0) == one.uid
        engine.queue.add_unschedulable(one.uid, waits_for, 0.0)
    return engine


@settings(max_examples=300, deadline=None)
@given(waiting, changes)
def test_all_whom_a_change_may_help_are_woken_and_nobody_else(
    pods: list[tuple[str, ClusterEvent, bool]], changed: dict[str, object]
) -> None:
    engine = engine_with_parked(pods)
    named = changed["pods"]
    assert isinstance(named, set)
    found = PendingEvents(**{**changed, "pods": {f"uid-p{number}": QueueEvent.STORAGE_UPDATE for number in named}})  # type: ignore[arg-type]
    pending_events = engine.state.pending_events
    pending_events.events |= found.events
    pending_events.every_policy |= found.every_policy
    pending_events.quotas |= found.quotas
    pending_events.quota_freed |= found.quota_freed
    pending_events.policies |= found.policies
    pending_events.pods |= found.pods
    engine._requeuer.process_cluster_events(20.0)  # all back-offs are over
    expected = {
        f"uid-p{number}"
        for number, (namespace, waits_for, as_decided) in enumerate(pods)
        if waits_for & found.events
        or number in named
        or (waits_for & ClusterEvent.QUOTA and namespace in found.quotas)
        or (waits_for & ClusterEvent.QUOTA and namespace in found.quota_freed and namespace == "limited")
        or ((found.every_policy or namespace in found.policies) and not as_decided)
    }
    uids = {f"uid-p{number}" for number in range(len(pods))}
    assert {uid for uid in uids if engine.queue.place(uid) is QueueName.ACTIVE} == expected
    assert not pending_events, "they are taken out"


def test_what_is_returned_is_told_once() -> None:
    pending_events = PendingEvents()
    pending_events.quota_freed.add("a")
    pending_events.events |= ClusterEvent.NODE_ADD
    assert pending_events.take() == PendingEvents(ClusterEvent.NODE_ADD, quota_freed={"a"})
    assert pending_events.take() == PendingEvents()

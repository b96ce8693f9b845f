"""What the queue counts: who came where and why, and what rejected those that wait."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.engine.builders import asks, cards, engine_with, in_group, node, pod

from vgpu_scheduler.engine import QueueName, SchedulingQueue
from vgpu_scheduler.engine.queue import FLUSH_AFTER
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.model import ClusterEvent


def counted(queue: SchedulingQueue) -> dict[tuple[str, str], int]:
    return {(place.value, event.value): count for (place, event), count in queue.incoming.items()}


def test_every_way_into_a_place_is_counted_once() -> None:
    queue = SchedulingQueue()
    for uid in "ab":
        queue.add(uid, 0, 0.0)
        queue.pop(0.0)
        queue.add_unschedulable(uid, ClusterEvent.NODE_ADD, 0.0, "alike")
    queue.requeue(ClusterEvent.NODE_ADD, 0.5)  # a, after its back-off
    queue.flush_due(1.0)
    queue.pop(1.0)
    queue.placed("a", 1.0)  # b is next
    queue.remove("a")
    queue.pop(1.0)
    queue.back_off("b", 1.0)
    queue.flush_due(60.0)
    queue.pop(60.0)
    queue.add_unschedulable("b", ClusterEvent.NODE_ADD, 60.0)
    queue.flush_due(60.0 + FLUSH_AFTER)
    queue.add("b", 5, 400.0)
    assert counted(queue) == {
        ("active", "UnschedulablePodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 2,
        ("active", "ForceActivate"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "UnschedulableTimeout"): 1,
        ("active", "UnschedulablePodUpdate"): 1,
    }


@pytest.mark.parametrize(
    ("events", "event"),
    [
        (ClusterEvent.NODE_ADD, QueueEvent.NODE_ADD),
        (ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.NODE_LABELS, QueueEvent.NODE_ALLOCATABLE),
        (ClusterEvent.NODE_LABELS | ClusterEvent.NODE_TAINTS, QueueEvent.NODE_LABEL),
        (ClusterEvent.NODE_TAINTS, QueueEvent.NODE_TAINT),
        (ClusterEvent.NODE_FEATURES, QueueEvent.NODE_FEATURE),
        (ClusterEvent.DEVICE_ADD, QueueEvent.NODE_ANNOTATION),
        (
            ClusterEvent.ASSIGNED_POD_CHANGE | ClusterEvent.ASSIGNED_POD_DELETE | ClusterEvent.DEVICE_FREED,
            QueueEvent.ASSIGNED_POD_DELETE,
        ),
        (ClusterEvent.ASSIGNED_POD_CHANGE, QueueEvent.ASSIGNED_POD_UPDATE),
        (ClusterEvent.STORAGE, QueueEvent.STORAGE_UPDATE),
        (ClusterEvent.ATTACH_LIMIT, QueueEvent.STORAGE_UPDATE),
        (ClusterEvent.KUBELET_REJECTION, QueueEvent.REJECTION_OVER),
        (ClusterEvent.POLICY, QueueEvent.OTHER),
    ],
)
def test_changes_have_kube_schedulers_names(events: ClusterEvent, event: QueueEvent) -> None:
    queue = SchedulingQueue()
    queue.add("a", 0, 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", events, 0.0)
    queue.requeue(events, 20.0)
    assert queue.incoming[QueueName.ACTIVE, event] == 1


def test_what_rejected_a_pod_counts_until_it_is_tried_again() -> None:
    pods = [
        pod("large", asks(1, 9000)),
        pod("huge", asks(0, cpu="99", memory="999Gi")),
        pod("tainted", asks(1, 9000), nodeSelector={"pool": "x"}),
        pod("odd", asks(1, 10), resourceClaims=[{"name": "x"}]),
        pod("alone", annotations=in_group("unit", 2)),
    ]
    nodes = [node("a", cards("a", 1)), node("b", cards("b", 1), taints=[{"key": "k", "effect": "NoSchedule"}])]
    engine = engine_with(nodes, pods)
    while engine.attempt(0.0):
        pass
    rejected = Counter(engine.queue.rejected())
    assert rejected == Counter({
        ("uid-large", "CardInsufficientMemory"): 1, ("uid-large", "TaintToleration"): 1,
        ("uid-huge", "NodeResourcesFit"): 1, ("uid-huge", "TaintToleration"): 1,
        ("uid-tainted", "NodeAffinity"): 1, ("uid-tainted", "TaintToleration"): 1,
        ("uid-odd", "Refused"): 1, ("uid-alone", "PodGroup"): 1,
    })  # fmt: skip
    assert engine.queue.pop(1000.0) is not None
    assert sum(1 for _ in engine.queue.rejected()) < len(rejected)
    for name in ("large", "huge", "tainted", "odd", "alone"):
        engine.remove_pod(f"uid-{name}", 1000.0)
    assert list(engine.queue.rejected()) == []


def test_the_pods_of_a_group_that_is_placed_are_not_counted_as_activated_by_each_other() -> None:
    members = [pod(f"m{n}", asks(1, 6000), annotations=in_group("team", 3)) for n in range(3)]
    engine = engine_with([node("a", cards("a", 2))], members)
    assert not any(decision.placement for decision in iter(lambda: engine.attempt(0.0), None))
    engine.observe_node(node("b", cards("b", 4)), 100.0)
    (placed,) = iter(lambda: engine.schedule_next(100.0), ())
    assert len(placed) == 3
    assert engine.queue.incoming[QueueName.ACTIVE, QueueEvent.FORCE_ACTIVATE] == 0

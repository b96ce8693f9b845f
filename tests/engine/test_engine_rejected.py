"""Pods that their kubelet rejects: counted, told, and not replaced on the same node at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import OURS, asks, cards, engine_with, make_engine, node, pod_object

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import ClosureCause, Engine, EngineOptions, Problem, QueueName
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import ClusterEvent, Outcome
from vgpu_scheduler.policy import PolicyDefaults

TEXT = "node(s) rejected a pod like this one a moment ago"


def owned(name: str, owner: str = "set", *, version: int = 1, on: str = "", rejected: str = "", **more: Any) -> Pod:
    """Return a pod of a controller, rejected by its kubelet if a reason is given."""
    spec = {"nodeName": on} if on else {}
    body = pod_object(name, asks(1, 8000), version=version, phase="Failed" if rejected else "", **spec, **more)
    if owner:
        body["metadata"]["ownerReferences"] = [
            {"uid": "someone", "controller": False},
            {"uid": owner, "controller": True},
        ]
    if rejected:
        body["status"] |= {"reason": rejected, "message": f"Pod was rejected: {rejected}"}
    return decode_pod(body)


def place(engine: Engine, asking: Pod, now: float) -> str:
    """Have a pod decided; return its node, or the message if there is none."""
    engine.observe_pod(asking, now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.pod == asking.key
    return decision.placement.node if decision.placement else decision.message


def reject(engine: Engine, name: str, node_name: str, now: float, **more: Any) -> tuple[Problem, ...]:
    """Have a pod that was placed bound, and rejected by its kubelet."""
    engine.binding_succeeded(f"uid-{name}")
    engine.observe_pod(owned(name, on=node_name, version=10, **more), now)
    return engine.observe_pod(owned(name, on=node_name, version=11, rejected="OutOfcpu", **more), now)


def two_nodes() -> Engine:
    return engine_with([node("a", cards("a", 2)), node("b", cards("b", 1))])


@pytest.mark.parametrize("owner", ["set", ""])
def test_who_replaces_a_rejected_pod_goes_to_another_node_first(owner: str) -> None:
    engine = two_nodes()
    assert place(engine, owned("p", owner), 0.0) == "a"
    reject(engine, "p", "a", 1.0, owner=owner)
    assert place(engine, owned("q", owner), 2.0) == "b"
    assert place(engine, owned("r", owner), 3.0) == f"0/2 nodes are available: 1 CardInsufficientMemory, 1 {TEXT}."
    other = owned("other", "another") if owner else owned("other", "", namespace="elsewhere")
    assert place(engine, other, 4.0) == "a"  # it is nothing that others have to do with


def test_it_waits_until_the_time_is_over_and_is_woken_then() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    place(engine, owned("p"), 0.0)
    reject(engine, "p", "a", 10.0)
    assert place(engine, owned("q"), 11.0) == f"0/1 nodes are available: 1 {TEXT}."
    assert engine.attempt(69.9) is None
    assert engine.queue.place("uid-q") is QueueName.UNSCHEDULABLE
    decision = engine.attempt(70.0)
    assert decision is not None
    assert decision.placement is not None
    assert (decision.pod, decision.placement.node) == ("default/q", "a")
    assert not engine.closed_nodes


def test_a_second_rejection_starts_the_time_anew_and_is_told_of_the_node() -> None:
    engine = engine_with([node("a", cards("a", 4))])
    place(engine, owned("p"), 0.0)
    place(engine, owned("q"), 0.0)
    assert [problem.kind for problem in reject(engine, "p", "a", 10.0)] == ["Pod"]
    about_pod, about_node = reject(engine, "q", "a", 50.0)
    assert (about_pod.name, about_pod.reason) == ("q", "RejectedByKubelet")
    assert about_pod.message == (
        "the kubelet of node a rejected the pod: OutOfcpu; for 60 s pods like it go to other nodes"
    )
    assert (about_node.kind, about_node.name, about_node.reason) == ("Node", "a", "RejectsPods")
    assert about_node.each_time
    assert place(engine, owned("r"), 51.0).endswith(f"{TEXT}.")
    assert engine.attempt(70.0) is None
    assert engine.attempt(110.0) is not None
    assert engine.closed_nodes.kubelet_rejections.counts == {"OutOfcpu": 2}


def test_a_rejection_long_after_another_says_nothing_of_the_node() -> None:
    engine = engine_with([node("a", cards("a", 4))])
    for name, now in (("p", 0.0), ("q", 700.0)):
        place(engine, owned(name), now)
        assert len(reject(engine, name, "a", now)) == 1


def test_who_waits_for_a_rejecting_node_is_not_tried_for_others() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    assert place(engine, owned("p"), 0.0) == "a"
    reject(engine, "p", "a", 10.0)
    assert place(engine, owned("q"), 11.0).endswith(f"{TEXT}.")
    assert place(engine, owned("tenant", "another"), 11.0) == "a"
    assert place(engine, owned("r", "third"), 12.0) == "0/1 nodes are available: 1 CardInsufficientMemory."
    engine.observe_node(node("b", cards("b", 1, memory=10)), 20.0)  # wakes both
    engine.remove_pod("uid-tenant", 20.0)
    decisions = [engine.attempt(20.0) for _ in range(3)]
    assert [decision.pod for decision in decisions if decision and decision.placement] == ["default/r"]


def test_a_placement_that_waits_at_a_node_is_given_up_when_the_node_rejects_a_pod_like_it() -> None:
    engine = engine_with([node("a", cards("a", 4))])
    place(engine, owned("p"), 0.0)
    place(engine, owned("q"), 0.0)
    place(engine, owned("r", "another"), 0.0)
    assert engine.assumed.recheck("uid-q") is not None
    reject(engine, "p", "a", 1.0)
    assert engine.assumed.recheck("uid-q") is None
    assert engine.assumed.recheck("uid-r") is not None


def test_the_node_is_open_where_no_time_is_set() -> None:
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(), [OURS], rejected_node_wait=0.0))
    engine.observe_node(node("a", cards("a", 4)), 0.0)
    place(engine, owned("p"), 0.0)
    [told] = reject(engine, "p", "a", 1.0)
    assert told.message == "the kubelet of node a rejected the pod: OutOfcpu"
    assert place(engine, owned("q"), 1.0) == "a"


def test_what_happened_before_it_looked_closes_nothing() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    assert engine.observe_pod(owned("p", on="a", rejected="OutOfcpu"), 0.0) == ()
    assert place(engine, owned("q"), 0.0) == "a"
    assert not engine.closed_nodes.kubelet_rejections.counts


def test_a_rejection_is_counted_once_and_gives_everything_back() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    place(engine, owned("p"), 0.0)
    assert engine.state.ledger()
    reject(engine, "p", "a", 1.0)
    assert engine.observe_pod(owned("p", on="a", version=12, rejected="OutOfcpu", deleting=True), 2.0) == ()
    assert engine.closed_nodes.kubelet_rejections.counts == {"OutOfcpu": 1}
    assert engine.state.ledger() == {"a": {}} or not engine.state.ledger().get("a")
    assert list(engine.state.reservations("a")) == []
    assert not engine.state.drift()


def test_a_pod_of_another_scheduler_is_its_own_affair() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(owned("p", on="a", scheduler="another"), 0.0)
    assert engine.observe_pod(owned("p", on="a", version=2, rejected="OutOfcpu", scheduler="another"), 0.0) == ()
    assert place(engine, owned("q"), 0.0) == "a"


def test_an_explanation_and_the_counts_name_a_rejecting_node() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    place(engine, owned("p"), 0.0)
    reject(engine, "p", "a", 1.0)
    engine.observe_pod(owned("q"), 2.0)
    decision = engine.attempt(2.0, explain=True)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.verdicts["a"].text == TEXT
    assert decision.helped_by & ClusterEvent.KUBELET_REJECTION
    assert decision.another_node_helps
    assert engine.closed_nodes.counts()[ClosureCause.REJECTED_BY_KUBELET] == 1


def test_a_plain_pod_is_not_sent_there_either() -> None:
    engine = engine_with([node("a"), node("b")])
    plain = {"nodeName": ""}
    for name, expected in (("p", "a"), ("q", "b")):
        body = pod_object(name, {}, **plain)
        body["metadata"]["ownerReferences"] = [{"uid": "set", "controller": True}]
        assert place(engine, decode_pod(body), 1.0) == expected
        if name == "p":
            body["spec"]["nodeName"] = "a"
            body["metadata"]["resourceVersion"] = "11"
            engine.observe_pod(decode_pod(body), 2.0)
            body["status"] = {"phase": "Failed", "reason": "NodeAffinity"}
            body["metadata"]["resourceVersion"] = "12"
            engine.observe_pod(decode_pod(body), 3.0)


def test_a_node_that_is_gone_is_forgotten() -> None:
    engine = make_engine()
    engine.observe_node(node("a", cards("a", 4)), 0.0)
    for name in ("p", "q"):
        place(engine, owned(name), 0.0)
    reject(engine, "p", "a", 1.0)
    engine.remove_node("a")
    engine.observe_node(node("a", cards("a", 4), version=5, uid="new"), 2.0)
    assert len(reject(engine, "q", "a", 3.0)) == 1


def test_a_rejection_is_taken_in_whether_or_not_anybody_reads_what_is_told_of_it() -> None:
    nodes = KubeletRejections(wait=60.0)
    nodes.observe(owned("p", on="a"), owned("p", on="a", rejected="OutOfcpu"), None, 1.0)
    assert nodes.counts == {"OutOfcpu": 1}
    assert list(nodes.closed_to(owned("q"))) == ["a"]

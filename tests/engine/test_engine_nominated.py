"""Pods that are nominated to a node, and features that nodes declare, in decisions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import OURS, asks, cards, engine_with, node, node_object, pod_object
from tests.engine.test_engine_interpod import decide, placed
from tests.engine.test_engine_preemption_whole_groups import pod_group

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Node, Pod, decode_node, decode_pod
from vgpu_scheduler.model import Outcome

NONE = asks(0)


def nominated(name: str, to: str, resources: dict[str, Any] | None = None, **more: Any) -> Pod:
    """Return a pod that waits for its victims to leave a node."""
    scheduler = more.pop("scheduler", "somebody")
    obj = pod_object(name, resources or NONE, scheduler=scheduler, **{"priority": 10, **more})
    obj["status"]["nominatedNodeName"] = to
    return decode_pod(obj)


def one_card(*pods: Pod) -> Engine:
    engine = engine_with([node("a", cards("a", 1), allocatable={"pods": "2"}, labels={"zone": "a"})])
    for known in pods:
        engine.observe_pod(known, 0.0)
    return engine


def test_its_requests_count_for_pods_of_its_priority_and_lower() -> None:
    engine = one_card(nominated("first", "a", asks(0, cpu="12")))
    for priority, where in ((9, ""), (10, ""), (11, "a")):
        assert placed(engine, f"p{priority}", resources=asks(0, cpu="8"), priority=priority) == where, priority


def test_the_priority_of_its_group_counts_and_that_of_the_group_of_who_comes() -> None:
    """As in the queue: who goes first by its group would else wait for one that comes later."""
    team = {"schedulingGroup": {"podGroupName": "team"}}
    engine = one_card(nominated("first", "a", asks(0, cpu="12")))
    engine.groups.observe_object(pod_group("team", minimum=1, priority=11))
    assert placed(engine, "urgent", resources=asks(0, cpu="8"), priority=0, **team) == "a"
    engine = one_card(nominated("first", "a", asks(0, cpu="12"), **team))
    engine.groups.observe_object(pod_group("team", minimum=1, priority=-1))
    assert placed(engine, "p", resources=asks(0, cpu="8"), priority=0) == "a"


def test_its_cards_count() -> None:
    engine = one_card(nominated("first", "a", asks(gpumem=6000), scheduler=OURS))
    engine.queue.remove("uid-first")
    engine.observe_pod(decode_pod(pod_object("p", asks(gpumem=4000))), 0.0)
    waits = decide(engine)
    assert waits.outcome is Outcome.UNSCHEDULABLE
    assert waits.message == "0/1 nodes are available: 1 CardInsufficientMemory."
    assert placed(engine, "small", resources=asks(gpumem=2000)) == "a"
    assert placed(engine, "urgent", resources=asks(gpumem=4000), priority=11) == "a"


def test_who_waits_for_it_is_woken_when_it_is_nominated_no_more() -> None:
    engine = one_card(nominated("first", "a", asks(0, cpu="12")))
    engine.observe_pod(decode_pod(pod_object("p", asks(0, cpu="8"))), 0.0)
    assert decide(engine).outcome is Outcome.UNSCHEDULABLE
    engine.observe_pod(nominated("first", "", asks(0, cpu="12"), version=2), 1.0)
    assert decide(engine, 2.0).outcome is Outcome.PLACED


@pytest.mark.parametrize("how", ["bound", "gone"])
def test_who_waits_for_it_is_woken_when_it_needs_the_room_no_more(how: str) -> None:
    engine = one_card(nominated("first", "a", asks(0, cpu="12")))
    engine.observe_pod(decode_pod(pod_object("p", asks(0, cpu="8"))), 0.0)
    assert decide(engine).outcome is Outcome.UNSCHEDULABLE
    if how == "gone":
        engine.remove_pod("uid-first", 1.0)
    else:
        engine.observe_pod(nominated("first", "a", asks(0, cpu="12"), version=2, nodeName="b"), 1.0)
    assert decide(engine, 2.0).outcome is Outcome.PLACED


def test_that_it_may_come_is_not_enough_for_those_who_need_it_near() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    engine = one_card(nominated("first", "a", labels={"app": "web"}))
    assert placed(engine, "p", affinity=near) == ""


def test_a_question_leaves_nothing_behind() -> None:
    engine = one_card(nominated("first", "a", asks(gpumem=1000), scheduler=OURS, labels={"app": "web"}))
    engine.queue.remove("uid-first")
    asked = decode_pod(pod_object("p", asks(gpumem=3000)))
    engine.observe_pod(asked, 0.0)
    before = engine.algorithm.decide(asked, explain=True)
    assert before.outcome is Outcome.PLACED
    assert not engine.state.drift()
    assert engine.state.reservation("uid-first") is None
    assert not engine.state.in_flight("uid-first")
    assert engine.algorithm.decide(asked, explain=True) == before
    alone = one_card()
    alone.observe_pod(asked, 0.0)
    assert alone.algorithm.decide(asked, explain=True) == before, "what may come is no load yet"
    assert engine.state.nominations
    assert not engine.state.over_capacity()


def test_pods_wait_for_a_node_that_declares_what_they_need() -> None:
    engine = engine_with([node("a", (), labels={"zone": "a"})])
    needs = {"hostNetwork": True, "hostUsers": False}
    engine.observe_pod(decode_pod(pod_object("p", NONE, **needs)), 0.0)
    waits = decide(engine)
    assert waits.message == "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
    engine.observe_node(declaring("a", "GuaranteedQoSPodCPUResize", version=2), 1.0)
    assert decide(engine, 2.0).outcome is Outcome.UNSCHEDULABLE
    engine.observe_node(declaring("a", "UserNamespacesHostNetworkSupport", version=3), 3.0)
    assert decide(engine, 4.0).outcome is Outcome.PLACED


def declaring(name: str, *features: str, version: int) -> Node:
    obj = node_object(name, (), labels={"zone": "a"}, version=version)
    obj["status"]["declaredFeatures"] = list(features)
    return decode_node(obj)


def test_a_pod_is_not_kept_waiting_by_one_that_waits_for_what_is_kept_for_it() -> None:
    """Those who wait alike are tried by the first of them; the pod that room was made for gets another answer."""
    engine = one_card()
    engine.observe_pod(decode_pod(pod_object("tenant", asks(0, cpu="8"), nodeName="a", started=True)), 0.0)
    engine.observe_pod(decode_pod(pod_object("other", asks(0, cpu="12"), priority=10)), 0.0)
    assert decide(engine).outcome is Outcome.UNSCHEDULABLE
    engine.observe_pod(nominated("first", "a", asks(0, cpu="12"), scheduler=OURS), 1.0)
    assert decide(engine, 1.0).outcome is Outcome.UNSCHEDULABLE
    engine.remove_pod("uid-tenant", 2.0)
    tried = [decide(engine, 20.0), decide(engine, 20.0)]
    assert {decision.pod: decision.outcome for decision in tried} == {
        "default/other": Outcome.UNSCHEDULABLE,
        "default/first": Outcome.PLACED,
    }

"""Pods that share no card with the others of their group: on live books, after a restart, and when others go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import OURS
from tests.engine.dialect_worlds import (
    CORE,
    GPU,
    MEMORY,
    NUMBER,
    RATIO,
    VOLCANO,
    asking,
    decided,
    engine_of,
    mixed,
    under,
    volcano_node,
)
from tests.policy.resources import policy
from tests.seeds import seeds

from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.engine.card_verdicts import card_verdicts
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.model import CardReason, Decision, Outcome

Obj = dict[str, Any]
GROUP, POLICY = "scheduling.k8s.io/group-name", "volcano.sh/vgpu-podgroup-policy"
ONE = {NUMBER: 1, MEMORY: 1000}


def engine(**nodes: int) -> Engine:
    made = engine_of(VOLCANO)
    for name, cards in nodes.items():
        made.observe_node(decode_node(volcano_node(name, *(f"GPU-{name}{index}" for index in range(cards)))), 0.0)
    return made


def member(name: str, group: str = "g", policy: str | None = "spread", amounts: Obj = ONE, **more: Any) -> Pod:
    notes = {GROUP: group} if group else {}
    if policy is not None:
        notes[POLICY] = policy
    return asking(name, amounts, annotations={**notes, **more.pop("annotations", {})}, **more)


def card_of(decision: Decision) -> str:
    assert decision.placement is not None, decision.message
    return decision.placement.containers[0][0].uuid


def running(engine: Engine, decision: Decision, pod: Pod) -> Pod:
    """Return a pod as it is once it runs where it was placed."""
    assert decision.placement is not None
    served = {"volcano.sh/devices-to-allocate": "", "volcano.sh/vgpu-time": str(2**64 - 1)}
    written = engine.dialects.annotations(decision.placement, 0)
    more = {"annotations": {**pod.annotations, **written, **served}}
    amounts = dict(pod.spec.containers[0].limits)
    return asking(
        pod.name,
        amounts,
        version=2,
        started=True,
        nodeName=decision.placement.node,
        priority=pod.priority,
        **more,
    )


def test_no_two_pods_of_a_group_are_on_one_card() -> None:
    world = engine(v=2)
    assert {card_of(decided(world, member(name))) for name in "ab"} == {"GPU-v0", "GPU-v1"}
    third = decided(world, member("c"))
    assert third.outcome is Outcome.UNSCHEDULABLE
    assert third.message == "0/1 nodes are available: 1 CardHeldByPeer."
    assert card_of(decided(world, member("other", group="h")))
    assert card_of(decided(world, member("alone", group="")))
    assert card_of(decided(world, member("elsewhere", namespace="other")))
    assert card_of(decided(world, member("careless", policy=None)))
    assert card_of(decided(world, member("odd", policy="binpack")))


def test_who_does_not_ask_for_it_is_a_peer_of_those_who_do() -> None:
    world = engine(v=1)
    assert card_of(decided(world, member("careless", policy=None)))
    assert "CardHeldByPeer" in decided(world, member("a")).message


def test_a_restart_finds_the_same() -> None:
    world = engine(v=2)
    pods = [member(name) for name in "ab"]
    running_pods = [running(world, decided(world, pod), pod) for pod in pods]
    again = engine(v=2)
    for pod in running_pods:
        again.observe_pod(pod, 0.0)
    assert "CardHeldByPeer" in decided(again, member("c")).message
    assert not again.state.drift()


@pytest.mark.parametrize(
    ("amounts", "cards"),
    [
        ({GPU: 1, "nvidia.com/gpumem": 1000}, {"h-gpu-0", "h-gpu-1"}),
        (ONE, {"GPU-v0", "GPU-v1"}),
        ({CORE: 10, RATIO: 10}, {"GPU-k0", "GPU-k1"}),
    ],
    ids=["hami", "volcano", "koordinator"],
)
def test_a_policy_keeps_pods_of_the_same_labels_apart_in_every_dialect(amounts: Obj, cards: set[str]) -> None:
    world = under({"devices": {"apartFrom": {"matchLabelKeys": ["app", "tier"]}}}, mixed())
    labels = {"app": "a", "tier": "t"}
    found = {card_of(decided(world, asking(name, amounts, labels=labels))).removeprefix("0/") for name in "ab"}
    assert {name.rpartition("/")[2] for name in found} == cards
    assert "1 CardHeldByPeer" in decided(world, asking("c", amounts, labels=labels)).message
    for number, other in enumerate(({"app": "a"}, {"app": "b", "tier": "t"}, {})):
        assert card_of(decided(world, asking(f"other-{number}", amounts, labels=other)))
    assert not world.state.drift()


def test_a_policy_and_the_annotation_of_the_group_both_hold() -> None:
    world = under({"devices": {"apartFrom": {"matchLabelKeys": ["app"]}}}, engine(v=3))
    assert card_of(decided(world, member("a", labels={"app": "x"}))) == "GPU-v0"
    assert card_of(decided(world, member("b", group="h", labels={"app": "x"}))) == "GPU-v1"
    assert card_of(decided(world, member("c", group="h", labels={"app": "y"}))) == "GPU-v2"
    third = decided(world, member("d", group="g", labels={"app": "y"}))
    assert card_of(third) == "GPU-v1", "on the others are its group and its app"


def test_one_that_waits_is_tried_when_a_peer_goes() -> None:
    world = engine(v=2)
    pods = [member(name) for name in "ab"]
    first, _ = (running(world, decided(world, pod), pod) for pod in pods)
    assert "CardHeldByPeer" in decided(world, member("c")).message
    world.observe_pod(first, 1.0)
    world.attempt(1.0)
    world.remove_pod(first.uid, 60.0)
    decision = world.attempt(60.0)
    assert decision is not None
    assert decision.pod.endswith("/c")
    assert card_of(decision) == "GPU-v0"


def test_a_pod_that_leaves_its_group_makes_room() -> None:
    world = engine(v=1)
    first = member("a")
    bound = running(world, decided(world, first), first)
    world.observe_pod(bound, 1.0)
    assert "CardHeldByPeer" in decided(world, member("b"), 1.0).message
    notes = {**bound.annotations, GROUP: "h"}
    world.observe_pod(asking("a", ONE, annotations=notes, version=3, started=True, nodeName="v"), 2.0)
    decision = world.attempt(2.0)
    assert decision is not None
    assert card_of(decision) == "GPU-v0"


def test_an_assumed_pod_is_no_peer_of_itself() -> None:
    world = engine(v=1)
    pod = member("a")
    assert card_of(decided(world, pod))
    held = world.state.reservation(pod.uid)
    assert held is not None
    assert world.algorithm.node_fit.refit_assumed(pod, held) == held.placement


def test_the_verdict_of_a_card_names_the_reason() -> None:
    world = engine(v=2)
    assert card_of(decided(world, member("a"))) == "GPU-v0"
    waiting = member("b")
    world.observe_pod(waiting, 0.0)
    assert [each.reason for each in card_verdicts(world.algorithm, waiting, "v")] == [CardReason.CardHeldByPeer, None]


def test_a_peer_of_lower_priority_ends_for_one_of_higher_priority() -> None:
    world = Engine(EngineOptions([VOLCANO], scheduler_names=[OURS], preemption=True))
    world.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": True}}))
    world.observe_node(decode_node(volcano_node("v", "GPU-0", "GPU-1")), 0.0)
    low = member("low", priority=0)
    world.observe_pod(running(world, decided(world, low), low), 1.0)
    use = {"volcano.sh/vgpu-use-gpuuuid": "GPU-1"}
    full = member("full", group="", amounts={NUMBER: 1, MEMORY: 24000}, priority=9, annotations=use)
    world.observe_pod(running(world, decided(world, full), full), 1.0)
    decision = decided(world, member("high", priority=5), 2.0)
    assert "CardHeldByPeer" in decision.message
    assert decision.preemption is not None
    assert [victim.pod for victim in decision.preemption.victims] == ["default/low"]


def preempting(cards: int) -> Engine:
    world = Engine(EngineOptions([VOLCANO], scheduler_names=[OURS], preemption=True))
    world.policy_tracker.observe(policy("preempts", {"preemption": {"mayPreempt": True}}))
    world.observe_node(decode_node(volcano_node("v", *(f"GPU-{number}" for number in range(cards)))), 0.0)
    return world


@pytest.mark.parametrize("priority", [5, 3])
def test_a_card_that_is_kept_for_a_pod_goes_to_no_peer_of_the_same_or_a_lower_priority(priority: int) -> None:
    world = preempting(1)
    low = member("low", priority=0)
    world.observe_pod(running(world, decided(world, low), low), 1.0)
    assert decided(world, member("high", priority=5), 2.0).preemption is not None
    world.remove_pod(low.uid, 3.0)
    world.observe_pod(member("late", priority=priority), 3.0)
    placed = {each.pod: each.placement for each in iter(lambda: world.attempt(3.0), None)}
    assert placed["default/high"] is not None
    assert placed.get("default/late") is None
    assert not world.state.drift()


def test_a_card_that_is_kept_is_held_by_a_peer_once_those_that_leave_are_gone() -> None:
    world = preempting(1)
    low = member("low", priority=0)
    world.observe_pod(running(world, decided(world, low), low), 1.0)
    assert decided(world, member("high", priority=5), 2.0).preemption is not None
    world.remove_pod(low.uid, 3.0)
    assert "CardHeldByPeer" in world.algorithm.decide(member("late", priority=5)).message


def test_two_that_preempt_their_peers_name_one_each() -> None:
    world = preempting(2)
    for name in ("low0", "low1"):
        pod = member(name, priority=0)
        world.observe_pod(running(world, decided(world, pod), pod), 1.0)
    found = [decided(world, member(name, priority=5), 2.0).preemption for name in ("high0", "high1")]
    assert {victim.pod for each in found if each for victim in each.victims} == {"default/low0", "default/low1"}


def test_an_assumed_pod_is_no_peer_of_its_own_when_a_policy_comes() -> None:
    world = engine_of(VOLCANO)
    world.observe_node(decode_node(volcano_node("v", "GPU-0")), 0.0)
    pod = asking("a", ONE, labels={"app": "x"})
    assert card_of(decided(world, pod)) == "GPU-0"
    held = world.state.reservation(pod.uid)
    assert held is not None
    world.policy_tracker.observe(policy("p", {"devices": {"apartFrom": {"matchLabelKeys": ["app"]}}}))
    assert world.algorithm.node_fit.refit_assumed(pod, held) is not None


def test_a_card_that_the_pod_may_not_use_is_not_told_as_held_by_a_peer() -> None:
    """The card that a peer holds is of another model than the pod takes; the other one is denied by a policy."""
    world, node = engine_of(VOLCANO), volcano_node("v", "GPU-0", "GPU-1")
    registered = node["metadata"]["annotations"]["volcano.sh/node-vgpu-register"]
    assert registered.count("A10,") == 2
    node["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = registered.replace("A10,", "H100,", 1)
    world.observe_node(decode_node(node), 0.0)
    use, no_use = ({f"nvidia.com/{word}-gputype": "H100"} for word in ("use", "nouse"))
    assert card_of(decided(world, member("a", annotations=use))) == "GPU-0"
    world.policy_tracker.observe(policy("p", {"devices": {"types": {"deny": ["A10"]}}}))
    message = decided(world, member("b", annotations=no_use)).message
    assert message == "0/1 nodes are available: 1 CardDeniedByPolicy, 1 CardTypeMismatch."


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_what_is_kept_of_nodes_is_what_a_fresh_look_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = engine(**{name: int(rng.integers(1, 4)) for name in "uvw"})
    held: dict[str, Pod] = {}
    for number in range(60):
        if held and rng.random() < 0.35:
            gone = str(rng.choice(sorted(held)))
            world.remove_pod(held.pop(gone).uid, float(number))
            continue
        policy = "spread" if rng.random() < 0.8 else None
        pod = member(f"p{number}", group=str(rng.choice(["g", "h"])), policy=policy, amounts={NUMBER: 1, MEMORY: 6000})
        fresh = engine_of(VOLCANO)
        for node in world.state.all_nodes():
            fresh.observe_node(node, 0.0)
        for each in held.values():
            fresh.observe_pod(each, 0.0)
        expected, found = decided(fresh, pod), decided(world, pod, float(number))
        assert found.placement == expected.placement
        assert found.reasons == expected.reasons
        if found.placement is None:
            world.remove_pod(pod.uid, float(number))
            continue
        held[pod.name] = running(world, found, pod)
        world.observe_pod(held[pod.name], float(number))
        on_card = [
            (each.annotations[GROUP], each.annotations["volcano.sh/vgpu-ids-new"].partition(",")[0])
            for each in held.values()
            if POLICY in each.annotations
        ]
        assert len(set(on_card)) == len(on_card), "two that ask for it share a card"
    assert not world.state.drift()

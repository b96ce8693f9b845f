"""Plans of moves: whoever follows one frees the cards that it names, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import Plan, World, defrag, listed_cards, make_dialect, make_room, simulate
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.nodes import with_annotation

CORDON = "hami.io/device-cordon"
REPLICA_SET = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


def owned(obj: dict[str, Any], owner: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner or REPLICA_SET]}}


def world_of(*objects: dict[str, Any]) -> World:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(objects)
    return made


def idle(world: World) -> set[tuple[str, str]]:
    return {(card.node, card.card) for card in usage.cards(world) if card.idle}


def cordon(world: World, cards: Iterable[tuple[str, str]]) -> None:
    for name, card in cards:
        listed = [*listed_cards(world.nodes[name], CORDON), card]
        world.replace_node(with_annotation(world.nodes[name], CORDON, ",".join(listed)))


def follow(world: World, plan: Plan) -> None:
    """Do what a plan says: cordon, delete one pod after the other and have it made anew, uncordon."""
    before = dict(world.nodes)
    cordon(world, plan.cordoned)
    placed: dict[str, str] = {}
    for move in plan.moves:
        assert move.pod not in placed
        (moved,) = [pod for pod in world.bound.values() if pod.key == move.pod]
        assert moved.node_name == move.node
        world.remove_pod(moved.uid)
        (answer,) = simulate(world, [moved])
        assert (answer.node, answer.cards) == (move.to_node, move.to_cards)
        placed[move.pod] = answer.node
    for written in before.values():
        world.replace_node(written)


def test_the_card_with_the_least_on_it_is_freed() -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 2000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
    ]
    plan = defrag(world_of(*objects))
    assert plan.freed == (("a", "GPU-a-0"),)
    assert [(move.pod, move.to_cards) for move in plan.moves] == [("default/small", ("GPU-a-1",))]
    assert plan.cordoned == (("a", "GPU-a-0"),)
    assert plan.stay == {}


def test_idle_cards_are_no_place_to_move_to() -> None:
    objects = [node("a", cards=2), owned(running("only", "a", "GPU-a-0", 2000))]
    plan = defrag(world_of(*objects))
    assert (plan.freed, plan.moves) == ((), ())
    assert plan.stay == {"the pods fit nowhere else": 1}


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (None, "a pod on the card has no controller that would recreate it"),
        ({**REPLICA_SET, "kind": "DaemonSet"}, "a pod on the card would come back to its node"),
        (REPLICA_SET, "a pod on the card has a disruption budget that does not allow it"),
    ],
)
def test_pods_that_must_stay(owner: dict[str, Any] | None, why: str) -> None:
    small = running("small", "a", "GPU-a-0", 2000)
    small["metadata"]["labels"] = {"app": "x"}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    large = owned(running("large", "a", "GPU-a-1", 15000))
    plan = defrag(world_of(node("a"), owned(small, owner) if owner else small, large, budget))
    assert plan.freed == ()
    assert plan.stay[why] == 1
    budget["status"] = {"disruptionsAllowed": 1}
    freed = defrag(world_of(node("a"), owned(small), large, budget)).freed
    assert freed == ()  # 2000 beside 15000 do not fit
    large = owned(running("large", "a", "GPU-a-1", 9000))
    assert defrag(world_of(node("a"), owned(small), large, budget)).freed == (("a", "GPU-a-0"),)


def test_pods_of_other_schedulers_stay() -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 2000, schedulerName="default-scheduler")),
        owned(running("large", "a", "GPU-a-1", 9000)),
    ]
    stay = defrag(world_of(*objects), schedulers=["vgpu-scheduler"]).stay
    assert stay["a pod on the card is placed by another scheduler"] == 1
    both = defrag(world_of(*objects), schedulers=["vgpu-scheduler", "default-scheduler"])
    assert both.freed == (("a", "GPU-a-0"),)


def test_pods_that_are_ending_already_are_not_evicted() -> None:
    small = owned(running("small", "a", "GPU-a-0", 2000))
    objects = [node("a", cards=2), small, owned(running("large", "a", "GPU-a-1", 9000))]
    assert defrag(world_of(*objects)).freed == (("a", "GPU-a-0"),)
    small["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = defrag(world_of(*objects))
    assert "default/small" not in {move.pod for move in plan.moves}
    assert plan.stay["a pod on the card is ending already"] == 1
    asked = pod("asked", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler")
    world = world_of(*objects, asked)
    (waiting,) = world.pending.values()
    assert "default/small" not in {move.pod for move in make_room(world, waiting).moves}


def test_no_more_cards_are_freed_than_asked_for() -> None:
    objects = [node("a", cards=3), *(owned(running(f"p{n}", "a", f"GPU-a-{n}", 3000)) for n in range(3))]
    assert len(defrag(world_of(*objects)).freed) == 2
    assert len(defrag(world_of(*objects), most=1).freed) == 1


def test_pods_that_wait_and_would_take_what_is_freed_are_named() -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 2000)),
        owned(running("half", "a", "GPU-a-1", 9000)),
        pod("whole", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler"),
        pod("larger", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler"),
        pod("without", {}, schedulerName="vgpu-scheduler"),
        pod("foreign", {GPU: 1, MEMORY: 16384}, schedulerName="another", priority=9),
        pod("gated", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler", schedulingGates=[{"name": "g"}]),
    ]
    seen: list[tuple[int, int]] = []
    plan = defrag(world_of(*objects), on_card=lambda done, total: seen.append((done, total)))
    assert plan.freed == (("a", "GPU-a-0"),)
    assert plan.waiting == 3  # those of this scheduler that ask for cards
    assert plan.taken == {("a", "GPU-a-0"): ("default/whole",)}
    assert plan.as_json()["taken"] == [{"node": "a", "card": "GPU-a-0", "pods": ["default/whole"]}]
    assert seen == [(1, 2), (2, 2)]


def test_a_card_that_keeps_free_is_taken_by_nobody() -> None:
    small, half = (owned(running(f"p{n}", "a", f"GPU-a-{n}", 2000 + 7000 * n)) for n in range(2))
    plan = defrag(world_of(node("a", cards=2), small, half))
    assert (plan.waiting, plan.taken) == (0, {})


def _random(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    objects: list[dict[str, Any]] = []
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"n{number}", int(rng.integers(1, 5))
        spec = {"cordoned": (0,)} if rng.random() < 0.2 else {}
        objects.append(node(name, cards, **spec))
        for card in range(cards):
            for tenant in range(int(rng.integers(0, 4))):
                made = running(f"{name}-{card}-{tenant}", name, f"GPU-{name}-{card}", int(rng.integers(500, 5000)))
                objects.append(owned(made) if rng.random() < 0.85 else made)
        if cards > 1 and rng.random() < 0.5:
            limits = {GPU: 2, MEMORY: 1000}
            entry = f"GPU-{name}-0,NVIDIA,1000,0:GPU-{name}-1,NVIDIA,1000,0:;"
            annotations = {"hami.io/vgpu-node": name, "hami.io/vgpu-devices-allocated": entry}
            spec = {"nodeName": name, "schedulerName": "vgpu-scheduler"}
            objects.append(owned(pod(f"{name}-two", limits, metadata={"annotations": annotations}, **spec)))
    return objects


@pytest.mark.parametrize("seed", range(80))
def test_whoever_follows_a_plan_frees_the_cards_that_it_names(seed: int) -> None:
    objects = _random(seed)
    plan = defrag(world_of(*objects))
    world = world_of(*objects)
    before = idle(world)
    follow(world, plan)
    assert idle(world) - before == set(plan.freed)
    assert before <= idle(world), "a card that was idle is used now"
    assert bool(plan.moves) == bool(plan.freed)
    assert plan.idle == len({key for key in before if _is_ready(objects, *key)}), "who is out of service is not idle"
    for card in sorted(set(plan.cordoned) & before):
        world = world_of(*objects)
        with pytest.raises(AssertionError):  # a pod goes to that card
            follow(world, replace(plan, cordoned=tuple(other for other in plan.cordoned if other != card)))


@pytest.mark.parametrize("seed", range(80))
def test_only_pods_that_fit_nowhere_now_take_what_is_freed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waiting = [
        pod(f"w{n}", {GPU: 1, MEMORY: int(rng.integers(1000, 16384))}, schedulerName="vgpu-scheduler")
        for n in range(int(rng.integers(1, 4)))
    ]
    objects = [*_random(seed), *waiting]
    plan = defrag(world_of(*objects))
    world = world_of(*objects)
    fit = {answer.pod.key: answer for answer in simulate(world, list(world.pending.values())) if answer.node}
    assert not fit.keys() & {key for keys in plan.taken.values() for key in keys}
    assert not {(each.node, card) for each in fit.values() for card in each.cards} & set(plan.freed)
    assert plan.waiting == len(waiting) - len(fit)
    again = world_of(*objects)
    simulate(again, list(again.pending.values()), as_they_are=True)
    follow(again, plan)
    assert set(plan.freed) <= idle(again)


@pytest.mark.parametrize("seed", range(60))
def test_a_card_whose_pods_may_not_be_made_anew_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, other = (int(rng.integers(1000, 7000)) for _ in range(2))
    count = int(rng.integers(2, 5))
    objects = [
        node("a", cards=count + 1),
        *(owned(running(f"p{n}", "a", f"GPU-a-{n}", memory if n else other)) for n in range(count)),
    ]
    field, value = str(rng.choice(["memoryPerPod", "devicesPerPod", "quota"])), int(rng.integers(0, 900))
    if field == "quota":
        spec = {"hard": {f"limits.{MEMORY}": str(value)}}
        objects.append({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec})
    else:
        limits = {field: f"{value + 1}Mi" if field == "memoryPerPod" else 0}
        objects.append({"kind": "ClusterVGPUPolicy", "metadata": {"name": "late"}, "spec": {"limits": limits}})
    plan = defrag(world_of(*objects))
    assert (plan.freed, sum(plan.stay.values())) == ((), count)
    words = (
        "a quota of namespace default would keep" if field == "quota" else f"limits.{field} of ClusterVGPUPolicy late"
    )
    assert all(words in why for why in plan.stay), plan.stay


def test_idle_cards_that_no_pod_goes_to_stay_in_service() -> None:
    objects = [
        *(node(f"idle{number}", cards=8) for number in range(3)),
        node("a", cards=4),
        owned(running("small", "a", "GPU-a-0", 2000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
    ]
    plan = defrag(world_of(*objects))
    assert [(move.pod, move.to_cards) for move in plan.moves] == [("default/small", ("GPU-a-1",))]
    assert plan.cordoned == (("a", "GPU-a-0"), ("a", "GPU-a-2"), ("a", "GPU-a-3"))
    assert plan.as_json()["uncordon"] == plan.as_json()["cordon"]


def _with_a_full_quota(seed: int) -> list[dict[str, Any]]:
    """Return a cluster whose namespace may hold little more than it does, and in which pods wait for that."""
    rng, objects = np.random.default_rng(seed), _random(seed)
    held = [each for each in objects if "nodeName" in each["spec"]]
    limits = [each["spec"]["containers"][0]["resources"]["limits"] for each in held]
    used = sum(int(each[GPU]) * int(each[MEMORY]) for each in limits)
    spec = {"hard": {f"limits.{MEMORY}": str(used + int(rng.integers(0, 4000)))}}
    for each in held:
        each["spec"]["priority"] = int(rng.integers(0, 3))
    waiting = [
        pod(f"w{n}", {GPU: 1, MEMORY: int(rng.integers(500, 9000))}, schedulerName="vgpu-scheduler", priority=n)
        for n in range(int(rng.integers(1, 3)))
    ]
    return [
        *objects,
        {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec},
        *waiting,
    ]


@pytest.mark.parametrize("seed", range(60))
def test_pods_that_wait_take_nothing_that_a_moved_pod_needs_to_run_again(seed: int) -> None:
    objects = _with_a_full_quota(seed)
    plan = defrag(world_of(*objects))
    world = world_of(*objects)
    simulate(world, list(world.pending.values()), as_they_are=True)
    cordon(world, plan.cordoned)
    for move in plan.moves:
        (moved,) = [pod for pod in world.bound.values() if pod.key == move.pod]
        world.remove_pod(moved.uid)
        first = [pod for pod in world.pending.values() if pod.priority >= moved.priority]
        simulate(world, [pod for pod in first if world.engine.state.reservation(pod.uid) is None], as_they_are=True)
        (answer,) = simulate(world, [moved])
        assert (answer.node, answer.cards) == (move.to_node, move.to_cards)


def test_a_pod_that_waits_and_has_a_place_as_soon_as_another_leaves_takes_the_freed_card() -> None:
    few = node("n3", 2, 40960)
    few["status"]["allocatable"] = {**few["status"]["allocatable"], "pods": "1"}
    objects = [
        node("n2", 1),
        few,
        running("b", "n2", "GPU-n2-0", 2000),
        owned(running("c", "n3", "GPU-n3-1", 4000)),
        pod("asked", {GPU: 1, MEMORY: 27000}, schedulerName="vgpu-scheduler"),
    ]
    plan = defrag(world_of(*objects))
    freed = ("n3", "GPU-n3-1")
    assert (plan.freed, plan.taken) == ((freed,), {freed: ("default/asked",)})
    world = world_of(*objects)
    cordon(world, plan.cordoned)
    for move in plan.moves:
        (moved,) = [each for each in world.bound.values() if each.key == move.pod]
        world.remove_pod(moved.uid)
        simulate(world, [moved])
        (answer,) = simulate(world, list(world.pending.values()), as_they_are=True)
        assert not answer.node, "it would take the idle card beside"
    assert set(plan.cordoned) == {freed, ("n3", "GPU-n3-0")}


def test_cards_whose_quota_goes_to_a_pod_that_waits_keep_their_pods() -> None:
    spec = {"hard": {f"limits.{MEMORY}": "12000"}}
    objects = [
        *(node(name, cards=1) for name in "ab"),
        owned(running("small", "a", "GPU-a-0", 2000)),
        owned(running("large", "b", "GPU-b-0", 8000)),
        {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec},
    ]
    assert defrag(world_of(*objects)).freed == (("a", "GPU-a-0"),)
    waits = pod("w", {GPU: 1, MEMORY: 4000}, schedulerName="vgpu-scheduler")
    plan = defrag(world_of(*objects, waits))
    assert plan.freed == ()
    assert "a quota of namespace default would keep a pod on the card from being placed again" in plan.stay
    later = {**waits, "spec": {**waits["spec"], "priority": -1}}
    assert defrag(world_of(*objects, later)).freed == (("a", "GPU-a-0"),)


@pytest.mark.parametrize("seed", range(60))
def test_cards_of_nodes_that_take_no_pods_are_not_freed(seed: int) -> None:
    """Nobody could have them: moves that free them are for nothing."""
    rng = np.random.default_rng(seed)
    objects: list[dict[str, Any]] = []
    closed = set()
    for number in range(int(rng.integers(2, 6))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        spec: dict[str, Any] = {}
        match int(rng.integers(5)):
            case 0:
                spec = {"unschedulable": True}
            case 1:
                state = str(rng.choice(["unschedulable", "not-ready", "unreachable", "disk-pressure"]))
                spec = {"taints": [{"key": f"node.kubernetes.io/{state}", "effect": "NoSchedule"}]}
            case 2:
                spec = {"taints": [{"key": "example.com/soft", "effect": "PreferNoSchedule"}]}
        closed |= {name} if spec.get("unschedulable") or "kubernetes.io" in str(spec) else set()
        objects.append(node(name, cards, **spec))
        objects += [
            owned(running(f"p{number}{card}", name, f"GPU-{name}-{card}", int(rng.integers(500, 5000))))
            for card in range(cards)
            if rng.random() < 0.8
        ]
    plan = defrag(world_of(*objects), int(rng.integers(0, 3)))
    assert closed.isdisjoint(name for name, _ in (*plan.freed, *plan.cordoned))
    assert closed.isdisjoint(move.node for move in plan.moves)
    made = world_of(*objects)
    before = idle(made)
    assert plan.idle == len(before)
    follow(made, plan)
    assert idle(made) - before == set(plan.freed)
    without = [obj for obj in objects if obj["metadata"]["name"] not in closed and _node_of(obj) not in closed]
    assert len(plan.freed) >= (1 if defrag(world_of(*without), 1).freed else 0)


def _node_of(obj: dict[str, Any]) -> str:
    return str(obj["spec"].get("nodeName", ""))


def _is_ready(objects: list[dict[str, Any]], name: str, card: str) -> bool:
    (found,) = (each for each in objects if each["kind"] == "Node" and each["metadata"]["name"] == name)
    return card not in found["metadata"]["annotations"].get("hami.io/device-cordon", "")

"""Plans that make room for one pod: whoever follows one sees it placed, and no fewer moves do that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_defrag import owned, world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif import RoomPlan, StepType, World, ask, make_room, simulate
from vgpu_scheduler.whatif.moves import room_search
from vgpu_scheduler.whatif.moves.moves import PodMover
from vgpu_scheduler.whatif.world.queue_order import pods_before_and_after

CARD = 16384
NodeCards = tuple[tuple[str, str], ...]


def waiting(world: World, name: str = "new") -> Any:
    (found,) = [pod for pod in world.pending.values() if pod.name == name]
    return found


def new(memory: int, count: int = 1, **spec: Any) -> dict[str, Any]:
    return pod("new", {GPU: count, MEMORY: memory}, schedulerName="vgpu-scheduler", **spec)


def holding(name: str, on: str, cards: list[int], memory: int) -> dict[str, Any]:
    """A pod with a controller that has some cards of a node."""
    entry = ":".join(f"GPU-{on}-{card},NVIDIA,{memory},0" for card in cards) + ":;"
    annotations = {"hami.io/vgpu-node": on, "hami.io/vgpu-devices-allocated": entry}
    limits = {GPU: len(cards), MEMORY: memory}
    spec = {"nodeName": on, "schedulerName": "vgpu-scheduler"}
    return owned(pod(name, limits, metadata={"annotations": annotations}, **spec))


def follow(world: World, room: RoomPlan) -> None:
    """Do what a plan says, step by step; each pod that is moved goes where the plan says."""
    moves = PodMover(world, {"vgpu-scheduler"})
    for step in room.steps:
        if step.type is StepType.EVICT:
            assert step.move is not None
            assert moves.move(step.move.pod) == step.move
        else:
            assert step.node_card is not None
            (moves.cordon if step.type is StepType.CORDON else moves.uncordon)([step.node_card])
    for written in world.nodes.values():
        assert not written["metadata"].get("annotations", {}).get("hami.io/device-cordon"), "a card stays cordoned"


def test_one_move_is_enough() -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 4000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
        new(CARD),
    ]
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert [(step.type.value, step.node_card) for step in room.steps if step.move is None] == [
        ("cordon", ("a", "GPU-a-0")),
        ("uncordon", ("a", "GPU-a-0")),
    ]
    assert [(move.pod, move.cards, move.to_cards) for move in room.moves] == [
        ("default/small", ("GPU-a-0",), ("GPU-a-1",))
    ]
    assert (room.node, room.cards, room.fewest, room.taken_by) == ("a", ("GPU-a-0",), True, ())


def test_a_pod_that_fits_needs_no_move() -> None:
    world = world_of(node("a", cards=1), new(1000))
    room = make_room(world, waiting(world))
    assert (room.node, room.steps, room.fewest) == ("a", (), True)


def test_a_pod_that_no_move_helps_says_what_it_waits_for() -> None:
    world = world_of(node("a", cards=1), owned(running("p", "a", "GPU-a-0", 4000)), new(2 * CARD))
    room = make_room(world, waiting(world))
    assert (room.node, room.steps, room.fewest) == ("", (), True)
    assert "CardInsufficientMemory" in room.hopeless
    world = world_of(node("a", cards=1), owned(running("p", "a", "GPU-a-0", 4000)), new(CARD))
    assert make_room(world, waiting(world)) == RoomPlan("default/new", fewest=True)  # it has nowhere to go


def test_pods_that_must_stay_are_not_moved() -> None:
    stays = running("small", "a", "GPU-a-0", 4000)
    objects = [node("a", cards=2), stays, owned(running("large", "a", "GPU-a-1", 13000)), new(CARD)]
    world = world_of(*objects)
    stay = {"has no controller that would recreate it": 1}
    assert make_room(world, waiting(world)) == RoomPlan("default/new", fewest=True, stay=stay)


@pytest.mark.parametrize("seed", range(60))
def test_pods_that_a_quota_on_counts_lets_nobody_make_anew_are_not_moved(seed: int) -> None:
    """The API server would refuse what replaces them."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(["pods", "count/pods", f"requests.{GPU}", "requests.cpu", "count/jobs.batch"]))
    limit, used = int(rng.integers(0, 7)), int(rng.integers(0, 7)) if rng.random() < 0.5 else None
    metadata = {"name": "q", "namespace": str(rng.choice(["default", "default", "other"]))}
    quota: dict[str, Any] = {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {name: str(limit)}}}
    if used is not None:
        quota["status"] = {"used": {name: str(used)}}
    if scoped := bool(rng.random() < 0.2):
        quota["spec"]["scopes"] = ["Terminating"]
    small, large = (owned(running(n, "a", f"GPU-a-{i}", m)) for i, (n, m) in enumerate([("s", 4000), ("l", 9000)]))
    world = world_of(node("a", cards=2), small, large, quota, new(CARD))
    held = 0 if name in ("requests.cpu", "count/jobs.batch") or metadata["namespace"] == "other" or scoped else 3
    exceeded = held and (held if used is None else used) > limit
    room = make_room(world, waiting(world))
    assert [move.pod for move in room.moves] == ([] if exceeded else ["default/s"])
    why = f"would not be recreated: ResourceQuota default/q allows {limit} of {name}, and more are used"
    assert room.stay == ({why: 2} if exceeded else {})


def test_pods_move_in_a_row() -> None:
    """What makes room for the pod needs room itself."""
    objects = [
        *(node(name, cards=1) for name in "abc"),
        holding("large", "a", [0], 9000),
        holding("half", "b", [0], 7000),
        holding("other", "b", [0], 3000),
        holding("most", "c", [0], 13000),
        new(CARD),
    ]
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert [(move.pod, move.to_node) for move in room.moves] == [("default/other", "c"), ("default/large", "b")]
    assert (room.node, room.fewest) == ("a", True)


def test_pods_that_wait_and_would_take_the_room_are_named() -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 4000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
        new(CARD),
        pod("urgent", {GPU: 1, MEMORY: CARD}, schedulerName="vgpu-scheduler", priority=9),
    ]
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert (room.node, room.cards, room.taken_by) == ("a", ("GPU-a-0",), ("default/urgent",))


def test_nobody_else_who_waits_takes_the_room_before_all_is_done() -> None:
    """After the first of two moves there is room for a smaller pod."""
    full = [holding(f"{name}{number}", name, [0], 4400) for name in "bc" for number in range(3)]
    objects = [
        *(node(name, cards=1) for name in "abc"),
        holding("v1", "a", [0], 3000),
        holding("v2", "a", [0], 3000),
        *full,
        new(CARD, priority=10),
        pod("w", {GPU: 1, MEMORY: 12000}, schedulerName="vgpu-scheduler", priority=1),
    ]
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert (len(room.moves), room.node, room.taken_by) == (2, "a", ())
    world = world_of(*objects)
    moves, placed = PodMover(world, {"vgpu-scheduler"}), dict[str, str]()
    for step in room.steps:
        assert placed == {}
        if step.move is not None:
            assert moves.move(step.move.pod) == step.move
        elif step.node_card is not None:
            (moves.cordon if step.type is StepType.CORDON else moves.uncordon)([step.node_card])
        answers = simulate(world, world.pending.values(), as_they_are=True)
        placed = {answer.pod.name: answer.node for answer in answers if answer.node}
    assert placed == {"new": "a"}


def test_more_than_three_moves_are_made_where_fewer_do_not_do() -> None:
    objects = [
        node("a", cards=1),
        node("b", cards=4),
        *(holding(f"p{number}", "a", [0], 3000) for number in range(4)),
        *(holding(f"q{number}", "b", [number], CARD - 3500) for number in range(4)),
        new(CARD - 1000),
    ]
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    assert (len(room.moves), room.node, room.fewest) == (4, "a", True)
    fresh = world_of(*objects)
    follow(fresh, room)
    assert ask(fresh, waiting(fresh)).node == "a"


def test_a_port_of_the_node_is_room_too() -> None:
    def with_port(made: dict[str, Any]) -> dict[str, Any]:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
        return made

    home = node("a", cards=1, labels={"kubernetes.io/hostname": "a"})
    small, large, other = holding("x", "a", [0], 1000), holding("y", "a", [0], 5000), holding("w", "a", [0], 4000)
    asked = with_port(new(2000, nodeSelector={"kubernetes.io/hostname": "a"}))
    world = world_of(home, node("b", cards=1), with_port(small), large, other, asked)
    room = make_room(world, waiting(world))
    assert ([move.pod for move in room.moves], room.fewest) == (["default/x"], True)


@pytest.mark.parametrize("most", [1, 5, 20, 60, 200])
def test_a_search_that_takes_too_long_ends_and_says_so(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("vgpu_scheduler.whatif.moves.room_search._most_questions", lambda _: most)
    nodes = "abcdefgh"
    full = [holding(f"{name}{number}", name, [0], 2300) for name in nodes for number in range(7)]
    world = world_of(*(node(name, cards=1) for name in nodes), *full, new(CARD))
    room = make_room(world, waiting(world))
    assert not room.node
    assert not room.fewest or most > 5


# ------------------------------------------------------------------------------------------------- against all moves


class Cards:
    """Cards of some memory and pods on them, in plain numbers: who can go where."""

    def __init__(self) -> None:
        self.free: dict[tuple[str, str], int] = {}
        self.pods: dict[str, tuple[NodeCards, int]] = {}
        self.movable: set[str] = set()

    def places(self, count: int, memory: int) -> Iterator[NodeCards]:
        by_node: dict[str, list[tuple[str, str]]] = {}
        for node_card, free in self.free.items():
            if free >= memory:
                by_node.setdefault(node_card[0], []).append(node_card)
        for node_cards in by_node.values():
            yield from combinations(node_cards, count)

    def take(self, node_cards: NodeCards, memory: int) -> None:
        for node_card in node_cards:
            self.free[node_card] -= memory

    def fewest(self, count: int, memory: int, most: int) -> int | None:
        """Return how many pods have to move, each once, one after the other, until such a pod fits."""
        if any(True for _ in self.places(count, memory)):
            return 0
        if not most:
            return None
        found: int | None = None
        for name in sorted(self.movable):
            node_cards, held = self.pods[name]
            self.movable.discard(name)
            self.take(node_cards, -held)
            for place in list(self.places(len(node_cards), held)):
                if set(place) == set(node_cards):
                    continue
                self.take(place, held)
                more = self.fewest(count, memory, (most if found is None else found - 1) - 1)
                self.take(place, -held)
                if more is not None:
                    found = more + 1
                if found == 1:
                    break
            self.take(node_cards, held)
            self.movable.add(name)
            if found == 1:
                break
        return found


def _random(seed: int) -> tuple[list[dict[str, Any]], Cards, int, int]:
    """A full small cluster, and a pod that waits."""
    rng = np.random.default_rng(seed)
    objects: list[dict[str, Any]] = []
    known = Cards()
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        objects.append(node(name, cards))
        known.free |= {(name, f"GPU-{name}-{card}"): CARD for card in range(cards)}
        for tenant in range(int(rng.integers(2, 2 + 2 * cards))):
            count, memory = int(rng.integers(1, min(cards, 2) + 1)), 1024 * int(rng.integers(2, 13))
            there = [node_cards for node_cards in known.places(count, memory) if node_cards[0][0] == name]
            if not there:
                continue
            node_cards = there[int(rng.integers(len(there)))]
            known.take(node_cards, memory)
            made = holding(f"{name}-{tenant}", name, [int(card.rpartition("-")[2]) for _, card in node_cards], memory)
            known.pods[f"default/{name}-{tenant}"] = node_cards, memory
            if rng.random() < 0.85:
                known.movable.add(f"default/{name}-{tenant}")
            else:
                del made["metadata"]["ownerReferences"]
            objects.append(made)
    count, memory = int(rng.integers(1, 3)), 1024 * int(rng.integers(4, 17))
    return [*objects, new(memory, count)], known, count, memory


@pytest.mark.parametrize("seed", range(250))
def test_no_fewer_moves_do_and_whoever_follows_a_plan_sees_the_pod_placed(seed: int) -> None:
    objects, known, count, memory = _random(seed)
    world = world_of(*objects)
    before = {each.key: each.node_name for each in world.bound.values()}
    room = make_room(world, waiting(world))
    fewest = known.fewest(count, memory, 3)
    if fewest is None:
        assert (room.fewest and not room.node) or len(room.moves) > 3
    else:
        assert (len(room.moves), bool(room.node), room.fewest) == (fewest, True, True)
    if room.node:
        world = world_of(*objects)
        assert len({move.pod for move in room.moves}) == len(room.moves)
        assert {move.pod: move.node for move in room.moves}.items() <= before.items()
        follow(world, room)
        (answer,) = simulate(world, [waiting(world)], as_they_are=True)
        assert (answer.decision.outcome, answer.node, answer.cards) == (Outcome.PLACED, room.node, room.cards)


@pytest.mark.parametrize("seed", range(90))
def test_a_pod_that_is_served_first_takes_its_room_and_the_others_go_where_is_said(seed: int) -> None:
    """The pod does not wait for those that are moved: as soon as there is room it is placed."""
    objects, *_ = _random(seed)
    objects[-1]["spec"]["priority"] = 5
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    world = world_of(*objects)
    moves = PodMover(world, {"vgpu-scheduler"})
    for step in room.steps:
        if step.move is None:
            assert step.node_card is not None
            (moves.cordon if step.type is StepType.CORDON else moves.uncordon)([step.node_card])
            continue
        (moved,) = [each for each in world.bound.values() if each.key == step.move.pod]
        world.remove_pod(moved.uid)
        if world.engine.state.reservation(waiting(world).uid) is None:
            simulate(world, [waiting(world)], as_they_are=True)
        (answer,) = simulate(world, [moved])
        assert (answer.node, answer.cards) == (step.move.to_node, step.move.to_cards)


OF_SIX_CARDS = (("a", 0, 5000), ("a", 1, 8000), ("b", 0, 8000), ("b", 1, 8000), ("c", 0, 6000), ("c", 1, 8000))
"""Node, card, and how much a pod holds of it."""


def test_more_room_is_made_beside_that_which_others_take_first(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [
        *(node(name, cards=2) for name in "abc"),
        *(holding(f"{name}{card}", name, [card], memory) for name, card, memory in OF_SIX_CARDS),
        new(12000),
        pod("first", {GPU: 1, MEMORY: 14000}, schedulerName="vgpu-scheduler", priority=9),
    ]
    world = world_of(*objects)
    monkeypatch.setattr(room_search, "_TOLD_EVERY", 1)
    asked: list[int] = []
    room = make_room(world, waiting(world), on_question=asked.append)
    assert asked == list(range(1, len(asked) + 1)), "the questions of both searches are counted"
    assert (len(room.moves), bool(room.node), room.fewest, room.taken_by) == (2, True, False, ())
    assert room.served_first == ("default/first",)
    assert {"do": "wait", "pods": ["default/first"]} in room.as_json()["steps"]
    first = waiting(world, "first")
    assert world.engine.state.reservation(first.uid) is not None


@pytest.mark.parametrize("seed", range(90))
def test_whoever_makes_room_beside_those_that_are_served_first_sees_the_pod_placed(seed: int) -> None:
    """Where not, those that took the room before it are named."""
    objects, *_ = _random(seed)
    rng = np.random.default_rng(seed)
    firsts = [
        pod(f"first{n}", {GPU: 1, MEMORY: 1024 * int(rng.integers(4, 13))}, schedulerName="vgpu-scheduler", priority=9)
        for n in range(int(rng.integers(1, 4)))
    ]
    world = world_of(*objects, *firsts)
    room = make_room(world, waiting(world))
    if not room.node:
        return
    world = world_of(*objects, *firsts)
    moves = PodMover(world, {"vgpu-scheduler"})
    simulate(
        world, pods_before_and_after(world, waiting(world)).before, as_they_are=True
    )  # those that fit now are placed
    for step in room.steps:
        if step.type is StepType.WAIT:
            simulate(world, pods_before_and_after(world, waiting(world)).before, as_they_are=True)
            continue
        if step.move is None:
            assert step.node_card is not None
            (moves.cordon if step.type is StepType.CORDON else moves.uncordon)([step.node_card])
            continue
        assert moves.move(step.move.pod) == step.move
    simulate(world, pods_before_and_after(world, waiting(world)).before, as_they_are=True)
    (mine,) = simulate(world, [waiting(world)], as_they_are=True)
    assert (mine.decision.outcome is Outcome.PLACED) == (not room.taken_by)


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_pods_that_fit_now_are_named_where_the_room_is_theirs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = "abc"[: int(rng.integers(1, 4))]
    objects = [node(name, cards=2) for name in names]
    for name in names:
        objects += [
            holding(f"{name}{n}", name, [n], int(rng.integers(1, 9)) * 1000) for n in range(2) if rng.random() < 0.4
        ]
    asked = new(int(rng.choice([CARD, CARD // 2])), count=2)
    others = [
        pod(f"w{n}", {GPU: 1, MEMORY: int(rng.choice([1000, CARD]))}, schedulerName="vgpu-scheduler", priority=n % 2)
        for n in range(2)
    ]
    world = world_of(*objects, asked, *others)
    room = make_room(world, waiting(world))
    assert not (room.node and room.leaves)
    without = make_room(alone := world_of(*objects, asked), waiting(alone))
    if room.hopeless:
        assert bool(room.leaves) is not bool(without.hopeless)
        assert bool(room.leaves) is ("leaves" in room.as_json())

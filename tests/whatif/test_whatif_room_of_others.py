"""Room for a pod where others near by keep it away, and where others that wait would take what a move leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_making_room import CARD, follow, holding, new, waiting
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

from vgpu_scheduler.whatif import StepType, make_room, simulate
from vgpu_scheduler.whatif.moves.moves import PodMover
from vgpu_scheduler.whatif.world.queue_order import queue_of


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("may_move", [True, False])
def test_a_pod_near_by_that_anti_affinity_keeps_apart_is_moved(*, is_own: bool, may_move: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    guard = holding("guard", "n0", [0], CARD)
    guard["spec"] |= {} if is_own else apart
    asked = new(8000, nodeSelector={"name": "n1"}, **(apart if is_own else {}))
    for each in (guard, asked):
        each["metadata"]["labels"] = {"app": "a"}
    if not may_move:
        del guard["metadata"]["ownerReferences"]
    nodes = [node(f"n{n}", 1, labels={"name": f"n{n}", "zone": "c" if n == 2 else "b"}) for n in range(3)]
    world = world_of(*nodes, guard, asked)
    room = make_room(world, waiting(world))
    assert [(move.pod, move.to_node) for move in room.moves] == ([("default/guard", "n2")] if may_move else [])
    assert bool(room.hopeless) is not may_move
    if may_move:
        assert room.node == "n1"
        world = world_of(*nodes, guard, asked)
        follow(world, room)
        (answer,) = simulate(world, [waiting(world)], as_they_are=True)
        assert answer.node == "n1"


def _of_few_places(seed: int) -> list[dict[str, Any]]:
    """A pod waits for a card of n0, whose pod fits on n2 only once one of the few that run there has left for n1."""
    rng = np.random.default_rng(seed)

    def amount(least: int, most: int) -> int:
        return 1024 * int(rng.integers(least, most))

    places, cards = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    nodes = [node(f"n{n}", 1 if n < 2 else cards, labels={"name": f"n{n}"}) for n in range(3)]
    nodes[2]["status"]["allocatable"] = {**nodes[2]["status"]["allocatable"], "pods": str(places)}
    held = [holding("b", "n0", [0], amount(4, 9)), holding("full", "n1", [0], amount(8, 14))]
    held += [holding(f"c{n}", "n2", [int(rng.integers(cards))], amount(1, 4)) for n in range(places)]
    waits = [
        pod(f"w{n}", {GPU: 1, MEMORY: amount(8, 15)}, schedulerName="vgpu-scheduler", priority=-1)
        for n in range(int(rng.integers(1, 3)))
    ]
    return [*nodes, *held, *waits, new(amount(12, 17), priority=3, nodeSelector={"name": "n0"})]


@pytest.mark.parametrize("seed", range(150))
def test_nobody_who_waits_takes_what_a_move_leaves_on_cards_beside(seed: int) -> None:
    objects = _of_few_places(seed)
    world = world_of(*objects)
    room = make_room(world, waiting(world))
    if not room.node or room.taken_by:
        return
    world = world_of(*objects)
    moves = PodMover(world, {"vgpu-scheduler"}, waiting(world).uid)

    def serve() -> dict[str, tuple[str, tuple[str, ...]]]:
        left = [each for each in queue_of(world) if world.engine.state.reservation(each.uid) is None]
        answers = simulate(world, left, as_they_are=True, explained=False)
        return {answer.pod.name: (answer.node, answer.cards) for answer in answers if answer.node}

    there = serve()
    for step in room.steps:
        if step.move is not None:
            assert moves.move(step.move.pod) == step.move
        else:
            assert step.node_card is not None
            (moves.cordon if step.type is StepType.CORDON else moves.uncordon)([step.node_card])
        there |= serve()
    assert there["new"] == (room.node, room.cards)

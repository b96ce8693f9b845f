"""The search for room ends after so many questions, and says that what it found is not known to be the fewest moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_defrag import owned, world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.whatif import make_room
from vgpu_scheduler.whatif.moves.room_search import _most_questions

Object = dict[str, Any]


def dense(rng: np.random.Generator, nodes: int, cards: int) -> list[Object]:
    """Return nodes whose cards have two pods each that go nowhere else, and a pod that wants more than is left."""
    objects: list[Object] = []
    for number in range(nodes):
        name = f"n{number:02}"
        objects.append(node(name, cards))
        for card in range(cards):
            sizes = (8000 - 100 * int(rng.integers(0, 3)) for _ in range(2))
            held = (running(f"p{number}-{card}-{n}", name, f"GPU-{name}-{card}", m) for n, m in enumerate(sizes))
            objects += map(owned, held)
    return [*objects, pod("asked", {GPU: int(rng.integers(1, 3)), MEMORY: 9000}, schedulerName="vgpu-scheduler")]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("most", [30, 100, 300])
def test_no_more_is_asked_however_many_nodes_could_be_cleared(
    most: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.whatif.moves.room_search._TOLD_EVERY", 1)
    monkeypatch.setattr("vgpu_scheduler.whatif.moves.room_search._most_questions", lambda _: most)
    rng = np.random.default_rng(seed)
    world = world_of(*dense(rng, int(rng.integers(4, 9)), 2))
    (waiting,) = world.pending.values()
    asked: list[int] = []
    room = make_room(world, waiting, on_question=asked.append)
    assert not room.node
    assert not room.fewest or most == 300  # where all that may help was tried
    assert len(asked) <= 3 * (most + 1)  # up to three moves, which nodes could be cleared, and how


def test_fewer_questions_are_asked_of_larger_clusters_where_each_takes_longer() -> None:
    found = [_most_questions(nodes) for nodes in (1, 40, 80, 200, 5000)]
    assert found == [30_000, 30_000, 15_000, 6_000, 6_000]

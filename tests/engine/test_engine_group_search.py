"""Groups against a twin that tries out everything: what fits at all is found, as far as it is promised."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from tests.engine.builders import asks, card, engine_with, in_group, node, pod

from vgpu_scheduler.model import Outcome

CARD = 8000
SLOTS = 3


@dataclass(frozen=True)
class Asked:
    """A pod of a group: so many cards, so much of each, on nodes of some pool or on any."""

    cards: int
    memory: int
    pool: str


@dataclass(frozen=True)
class World:
    """How many cards each node has, with its pool; and the group."""

    nodes: tuple[tuple[int, str], ...]
    pods: tuple[Asked, ...]


def any_world(rng: random.Random, *, uniform: bool) -> World:
    nodes = tuple((rng.randint(1, 2), rng.choice("xy")) for _ in range(rng.randint(1, 3)))
    sizes = [1500, 2500, 3000, 3500, 4000, 4500, 5500, 6500]
    shapes = [
        Asked(1 if uniform else rng.randint(1, 2), rng.choice(sizes), rng.choice(["", "", "x", "y"]))
        for _ in range(1 if uniform else 3)
    ]
    return World(nodes, tuple(rng.choice(shapes) for _ in range(rng.randint(2, 7))))


def fits_somehow(world: World) -> bool:
    """Tell whether the whole group can be placed, by trying everything."""
    free = [[(CARD, SLOTS)] * number for number, _ in world.nodes]

    def place(number: int) -> bool:
        if number == len(world.pods):
            return True
        asked = world.pods[number]
        for at, (_, pool) in enumerate(world.nodes):
            if asked.pool in ("", pool):
                for chosen in subsets(len(free[at]), asked.cards):
                    if all(free[at][c][0] >= asked.memory and free[at][c][1] for c in chosen):
                        before = list(free[at])
                        for c in chosen:
                            free[at][c] = (before[c][0] - asked.memory, before[c][1] - 1)
                        if place(number + 1):
                            return True
                        free[at] = before
        return False

    return place(0)


def subsets(cards: int, size: int) -> list[tuple[int, ...]]:
    if size == 1:
        return [(number,) for number in range(cards)]
    return [(0, 1)] if cards == 2 else []


def is_placed(world: World) -> bool:
    engine = engine_with(
        [
            node(f"n{at}", [card(f"n{at}-{c}", memory=CARD, count=SLOTS) for c in range(number)], labels={"pool": pool})
            for at, (number, pool) in enumerate(world.nodes)
        ]
    )
    for number, asked in enumerate(world.pods):
        more = {"nodeSelector": {"pool": asked.pool}} if asked.pool else {}
        notes = in_group("team", len(world.pods))
        engine.observe_pod(pod(f"p{number}", asks(asked.cards, asked.memory), annotations=notes, **more), 0.0)
    while (decisions := engine.schedule_next(0.0))[0].message.startswith("waits for other pods"):
        pass
    placed = decisions[0].outcome is Outcome.PLACED
    assert all((decision.outcome is Outcome.PLACED) is placed for decision in decisions)
    assert not engine.state.over_capacity()
    assert len(list(engine.state.reservations())) == (len(world.pods) if placed else 0)
    return placed


def worlds(seed: int, number: int, *, uniform: bool) -> tuple[list[World], list[World]]:
    """Return worlds whose groups fit somehow, and worlds whose groups do not."""
    rng = random.Random(seed)
    made = [any_world(rng, uniform=uniform) for _ in range(number)]
    return [world for world in made if fits_somehow(world)], [world for world in made if not fits_somehow(world)]


def test_groups_of_equal_slices_are_never_missed() -> None:
    fit, others = worlds(1, 300, uniform=True)
    assert len(fit) > 50
    assert all(map(is_placed, fit))
    assert not any(map(is_placed, others))


@pytest.mark.long
def test_nearly_all_mixed_groups_that_fit_are_found_and_other_orders_find_some(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, others = worlds(5, 1200, uniform=False)
    assert len(fit) > 200
    assert not any(map(is_placed, others[:200]))
    found = sum(map(is_placed, fit))
    assert found / len(fit) >= 0.98, f"{found} of {len(fit)}"
    monkeypatch.setattr("vgpu_scheduler.engine.group_attempts._MOST_ORDERS", 1)
    assert sum(map(is_placed, fit)) < found

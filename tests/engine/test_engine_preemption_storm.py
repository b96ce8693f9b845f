"""A storm: 200 pods of three priorities come to a full fleet, and controllers make all victims anew. It settles.

How many are evicted is bounded, for only a lower priority ends for a higher one. Of the H pods of the highest one each
that was placed stays: there are no more than H preemptions for them, of at most V victims each. Of the M pods of the
middle one each is placed once, and once more each time that it was evicted, which is H x V times at most. So no more
than H x V + (M + H x V) x V pods are evicted; where all ask for the same, one makes room for one (V = 1), and it is
2 H + M. A preemption that is given up for a higher one adds nothing: the room that its victims left is there for its
pod.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, node
from tests.engine.preemption_fleet import Fleet

NODES, CARDS, SLOTS = 4, 4, 4
PODS = 200
PRIORITIES = (0, 10, 20)


class Storm:
    """A fleet, and controllers that want as many pods as there ever were."""

    def __init__(self, seed: int, sizes: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(seed)
        self.sizes = sizes
        self.fleet = Fleet([node(f"n{number}", cards(f"n{number}", CARDS, count=SLOTS)) for number in range(NODES)])
        self.number = 0
        self.came = dict.fromkeys(PRIORITIES, 0)
        self.evicted = 0
        self.most = 0

    def come(self, priority: int, resources: dict[str, Any] | None = None) -> None:
        """Have a pod come."""
        self.number += 1
        wanted = asks(gpumem=int(self.rng.choice(self.sizes)), cpu="100m")
        self.fleet.come(f"p{self.number:05}", priority, resources or wanted)

    def leaving(self) -> list[str]:
        """Return the victims that are still there."""
        found = self.fleet.victims_of.values()
        self.most = max([self.most, *(len(preemption.victims) for preemption in found)])
        return sorted({victim.uid for preemption in found for victim in preemption.victims} & self.fleet.objects.keys())

    def some_end(self, share: float) -> None:
        """Have some of the victims end, each made anew at once."""
        for uid in self.leaving():
            if self.rng.random() < share:
                obj = self.fleet.objects[uid]
                self.fleet.end(uid)
                self.evicted += 1
                self.come(obj["spec"]["priority"], obj["spec"]["containers"][0]["resources"])

    def step(self, share: float) -> None:
        """Let some time pass."""
        self.fleet.decide()
        self.some_end(share)
        self.fleet.now += float(self.rng.choice([0.5, 11.0]))
        self.fleet.decide()
        assert not self.fleet.engine.state.over_capacity()
        assert not self.fleet.engine.state.drift()

    def placed(self) -> dict[int, int]:
        """Return how many of each priority are placed."""
        found = dict.fromkeys(PRIORITIES, 0)
        for uid, obj in self.fleet.objects.items():
            found[obj["spec"]["priority"]] += self.fleet.engine.state.reservation(uid) is not None
        return found


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("sizes", [(2000,), (1000, 2000, 4000, 8000)], ids=["all alike", "of four sizes"])
def test_a_storm_settles_with_as_many_evictions_as_are_needed(sizes: tuple[int, ...], seed: int) -> None:
    storm = Storm(seed, sizes)
    fleet = storm.fleet
    for _ in range(NODES * CARDS * SLOTS):
        storm.come(PRIORITIES[0])
    fleet.decide()
    for _ in range(PODS):
        priority = int(storm.rng.choice(PRIORITIES))
        storm.came[priority] += 1
        storm.come(priority)
        if storm.rng.random() < 0.3:
            storm.step(0.3)
    for _ in range(400):
        if not storm.leaving() and not fleet.engine.state.holds:
            break
        storm.step(0.7)
        fleet.now += 30.0
    assert not storm.leaving(), "it does not settle"
    assert not fleet.engine.state.holds
    middle, high = storm.came[PRIORITIES[1]], storm.came[PRIORITIES[2]]
    most = 1 if len(sizes) == 1 else SLOTS
    assert storm.most <= most
    assert 0 < storm.evicted <= high * most + (middle + high * most) * most
    placed = storm.placed()
    if len(sizes) == 1:
        room = NODES * CARDS * SLOTS
        assert placed[PRIORITIES[2]] == min(high, room)
        assert placed[PRIORITIES[1]] == min(middle, room - placed[PRIORITIES[2]])
        assert storm.evicted >= min(room, high + middle), "the fleet was full"
    before = storm.evicted
    for _ in range(20):  # nothing more happens
        storm.step(1.0)
        fleet.now += 400.0
    assert storm.evicted == before

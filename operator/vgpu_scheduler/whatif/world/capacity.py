"""How many more of a pod fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.world.simulation import PodResult, simulate
from vgpu_scheduler.whatif.world.world import World

MOST_COPIES: Final = 100_000
"""Copies that are tried at most."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many copies of a pod found a place, one after the other.

    Attributes
    ----------
    nodes
        How many are on each node, by name.
    next
        What became of the first one that found none; None if all that were asked for did.
    """

    pod: str
    count: int
    nodes: dict[str, int] = field(default_factory=dict)
    next: PodResult | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        message, quotas = (self.next.decision.message, self.next.quotas) if self.next else ("", "")
        more = {"message": message, **({"quotas": quotas} if quotas else {})}
        return {"pod": self.pod, "count": self.count, "nodes": self.nodes, **more}


def capacity_of(
    world: World, pod: Pod, most: int = MOST_COPIES, on_placed: Callable[[int], None] = lambda _: None
) -> Capacity:
    """Place copies of a pod until one finds no place; afterwards the world is as it was.

    Parameters
    ----------
    most
        So many at most.
    on_placed
        Is called with how many have found a place so far.
    """
    found, placed = place_copies(world, pod, most, on_placed)
    for answer in placed:
        world.engine.remove_pod(answer.pod.uid, 0.0)
    return found


def place_copies(
    world: World, pod: Pod, most: int, on_placed: Callable[[int], None] = lambda _: None
) -> tuple[Capacity, list[PodResult]]:
    """Place copies of a pod as :func:`capacity_of` does, and leave them there; return what became of each, too."""
    placed: list[PodResult] = []
    refused: PodResult | None = None
    while refused is None and len(placed) < most:
        (answer,) = simulate(world, [pod], explained=False, each_alone=True)
        if answer.node:
            placed.append(answer)
            on_placed(len(placed))
        else:
            refused = answer
    nodes = Counter(answer.node for answer in placed)
    return Capacity(pod.key, len(placed), dict(sorted(nodes.items())), refused), placed

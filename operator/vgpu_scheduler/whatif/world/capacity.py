"""How many copies of a pod fit in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.world.simulation import PodResult, simulate
from vgpu_scheduler.whatif.world.world import World

MOST_COPIES: Final = 100_000
"""The most copies that are tried."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many copies of a pod can be placed, one after the other.

    Attributes
    ----------
    nodes
        Number of copies on each node, by node name.
    next
        The result of the first copy that could not be placed; None if all requested copies were placed.
    """

    pod: str
    count: int
    nodes: dict[str, int] = field(default_factory=dict)
    next: PodResult | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the capacity as plain values."""
        message, quotas = (self.next.decision.message, self.next.quotas) if self.next else ("", "")
        more = {"message": message, **({"quotas": quotas} if quotas else {})}
        return {"pod": self.pod, "count": self.count, "nodes": self.nodes, **more}


def capacity_of(
    world: World, pod: Pod, most: int = MOST_COPIES, on_placed: Callable[[int], None] = lambda _: None
) -> Capacity:
    """Place copies of a pod until one cannot be placed, then remove them from the world again.

    Parameters
    ----------
    most
        The most copies to try.
    on_placed
        Called with the number of copies placed so far.
    """
    with world.engine.attempts.rolled_back():  # copies of a high priority may take room that is kept for others
        found, placed = place_copies(world, pod, most, on_placed)
        for answer in placed:
            world.engine.remove_pod(answer.pod.uid, 0.0)
    return found


def place_copies(
    world: World, pod: Pod, most: int, on_placed: Callable[[int], None] = lambda _: None
) -> tuple[Capacity, list[PodResult]]:
    """Place copies of a pod as :func:`capacity_of` does, but leave them in the world; also return their results."""
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

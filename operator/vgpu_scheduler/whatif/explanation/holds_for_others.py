"""Room that is reserved for other pods on the nodes of an answer: it counts as used, though no pod uses it yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.engine import holds_for_others
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.world.simulation import PodResult
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_MOST: Final = 3
"""The most pods that are named."""


@dataclass(frozen=True, slots=True)
class HoldForOther:
    """Room on nodes that is reserved for another pod, which is served first.

    Attributes
    ----------
    pod
        The pod, as namespace and name.
    nodes
        The nodes with the reserved room.
    is_named
        Whether the reader may see the pod's name.
    """

    pod: str
    nodes: Sequence[str]
    is_named: bool = True

    @property
    def text(self) -> str:
        """A sentence for people."""
        whom = f"pod {self.pod}" if self.is_named else "another pod"
        return (
            f"Room on {few(list(self.nodes), 'nodes')} is kept for {whom}, which is served first and waits until others"
            " have left it; it counts as used."
        )

    def without_names(self, namespaces: Collection[str]) -> HoldForOther:
        """Hide the pod's name unless its namespace is one of these."""
        return replace(self, is_named=self.pod.partition("/")[0] in namespaces)


def room_for_others(world: World, answer: PodResult) -> tuple[HoldForOther, ...]:
    """Return the room reserved for other pods on the infeasible nodes of an answer; none if the pod is placed."""
    if answer.node:
        return ()
    nodes: dict[str, list[str]] = {}
    for node in filter(answer.decision.verdicts.__contains__, world.engine.state.holds.nodes()):
        for hold in holds_for_others(world.engine.algorithm, answer.pod, node):
            nodes.setdefault(hold.reservation.pod, []).append(node)
    return tuple(HoldForOther(pod, names) for pod, names in nodes.items())


def describe_holds(holds: Sequence[HoldForOther]) -> tuple[str, ...]:
    """Return a sentence for each of the first reservations, and one with the number of further ones."""
    more = len(holds) - _MOST
    last = (f"Room is kept for {counted(more, 'more pod')}.",) if more > 0 else ()
    return (*(each.text for each in holds[:_MOST]), *last)

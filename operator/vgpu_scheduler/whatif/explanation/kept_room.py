"""Room that is kept for waiting pods: for others on the nodes of an answer, where it counts as used, and its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.engine import holds_for_others
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.world.queue_order import own_turn, placing
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


def own_room(world: World, answer: PodResult) -> str:
    """Say where room is kept for a pod that fits nowhere and has waited for long; empty if none is."""
    pod, attempts = answer.pod, world.engine.attempts
    if answer.node or world.engine.policies.resolve(pod).groups.hold_after is None:
        return ""
    with placing(world, own_turn(world, pod)):
        said = attempts.waiting_holds.describe(pod.uid)
    return said[:1].upper() + said[1:]


def describe_holds(holds: Sequence[HoldForOther]) -> tuple[str, ...]:
    """Return a sentence for each of the first reservations, and one with the number of further ones."""
    more = len(holds) - _MOST
    last = (f"Room is kept for {counted(more, 'more pod')}.",) if more > 0 else ()
    return (*(each.text for each in holds[:_MOST]), *last)

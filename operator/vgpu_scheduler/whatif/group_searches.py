"""What of the cluster would have to be otherwise so that a whole group of pods fits, which is placed at once or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif.policy_remedies import lift_restrictions
from vgpu_scheduler.whatif.quota_remedies import raise_quotas
from vgpu_scheduler.whatif.remedies import add_nodes
from vgpu_scheduler.whatif.remedy import Remedy, WaitingPod
from vgpu_scheduler.whatif.repairs import repair_nodes
from vgpu_scheduler.whatif.turns import placed, turns_around
from vgpu_scheduler.whatif.uncordoning import uncordon_cards, uncordon_each_node
from vgpu_scheduler.whatif.world import World

__all__ = ["changes_for_group"]

_MOST_OF_A_KIND: Final = 3


class _WaitingInGroup(WaitingPod):
    """A pod that goes where it goes when all pods of its group have places."""

    together = True

    def closed_by_cards(self) -> list[str]:
        """Return all nodes: what one of its pods fits on may have too little for all of them."""
        return sorted(self.world.nodes)

    def _decided(self, ours: Pod) -> str:
        decision = self.world.engine.attempts.ask(ours)
        return decision.placement.node if decision.outcome is Outcome.PLACED and decision.placement else ""


def changes_for_group(world: World, pod: Pod) -> list[Remedy]:
    """Return changes of nodes, quotas and policies, each alone, after which a pod is placed with its group.

    What its pods ask is not searched: they would have to be made anew, all of them.
    """
    before, _ = turns_around(world, pod)
    with placed(world, before) as going:
        there = {each.uid for each in going}
        waiting = _WaitingInGroup(world, pod, [each for each in before if each.uid not in there])
        return [remedy for search in _SEARCHES for remedy in islice(search(waiting), _MOST_OF_A_KIND)]


_SEARCHES: Final[tuple[Callable[[WaitingPod], Iterator[Remedy]], ...]] = (
    uncordon_each_node,
    uncordon_cards,
    repair_nodes,
    raise_quotas,
    lift_restrictions,
    add_nodes,
)

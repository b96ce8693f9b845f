"""Which nodes a pod could get by having pods of lower priority end there, and which of these costs least."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine.nominated import NominatedPods, rejection_of
from vgpu_scheduler.engine.preemption.cards import CardSearch
from vgpu_scheduler.engine.preemption.victims import Asked, Victims, reprieve
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import CardReason, Hint
from vgpu_scheduler.predicates import Reason, Rejection, Rejections
from vgpu_scheduler.state import State

__all__ = ["BY_PREEMPTION", "NOT_HELPFUL", "NO_VICTIMS", "PROTECTED", "Candidates", "VictimSearch", "ineligible"]

_PLUGIN: Final = ""
NO_VICTIMS: Final = Reason(_PLUGIN, "No preemption victims found for incoming pod", Hint.NONE, resolvable=False)
PROTECTED: Final = Reason(_PLUGIN, "PodDisruptionBudgets protect the victims", Hint.NONE, resolvable=False)
NOT_HELPFUL: Final = Reason(_PLUGIN, "Preemption is not helpful for scheduling", Hint.NONE, resolvable=False)

_RESOLVABLE: Final = [int(reason) for reason in CardReason if reason.resolvable]
BY_PREEMPTION: Final = frozenset(("PreemptionByScheduler", "EvictionByEvictionAPI"))
"""Why pods end that were chosen as victims."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a search found.

    Attributes
    ----------
    victims
        By the name of each node that the pod could get.
    rejections
        Why it could not get other nodes that were tried, by name.
    """

    victims: Mapping[str, Victims]
    rejections: Mapping[str, Rejection]

    @property
    def best(self) -> list[Victims]:
        """The candidates that cost least, by name of the node; empty if there are none."""
        if not self.victims:
            return []
        least = min(found.cost for found in self.victims.values())
        return [found for _, found in sorted(self.victims.items()) if found.cost == least]


def ineligible(pod: Pod, state: State, rejections: Mapping[str, Rejection]) -> str:
    """Return why a pod may not have others end for it now; empty if it may.

    Parameters
    ----------
    rejections
        What rejects it on each node, by name.
    """
    if pod.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    node = pod.nominated_node_name
    rejection = rejections.get(node)
    if not node or (rejection is not None and not rejection.resolvable):
        return ""
    there = (state.pod(held.uid) for held in state.reservations(node))
    lower = (each for each in there if each and each.priority < pod.priority)
    if any(each.deleting and each.disruption in BY_PREEMPTION for each in lower):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


class VictimSearch:
    """Searches the pods that would have to end for others.

    Parameters
    ----------
    state
        What is known.
    nominated
        Filters nodes beside the pods that are nominated to them.
    budgets
        Returns the disruption budgets.
    may_end
        Tells whether a pod of lower priority may be a victim.
    """

    def __init__(
        self,
        state: State,
        nominated: NominatedPods,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        may_end: Callable[[Pod], bool],
    ) -> None:
        self._state = state
        self._nominated = nominated
        self._budgets = budgets
        self._may_end = may_end

    def helpful(self, asked: Asked, found: Filtered) -> list[str]:
        """Return the nodes on which the end of pods might help, by name.

        Parameters
        ----------
        found
            What the filters of the pod say; the columns of its node part are up to date.
        """
        nodes, counts = self._state.nodes, asked.node.fit.counts
        rejections = found.rejections()
        rows = [row for row, rejection in rejections.items() if rejection.resolvable]
        rows += [row for row in found.passing.tolist() if row not in rejections and counts[row, _RESOLVABLE].any()]
        return sorted(map(nodes.name, rows))

    def candidates(self, asked: Asked, nodes: Iterable[str]) -> Candidates:
        """Search each of some nodes.

        Parameters
        ----------
        nodes
            Nodes on which the end of pods could help.
        """
        victims: dict[str, Victims] = {}
        rejections: dict[str, Rejection] = {}
        budgets = self._budgets()
        for node in nodes:
            found = self.on_node(asked, node, budgets)
            if isinstance(found, Victims):
                victims[node] = found
            elif found is not None:
                rejections[node] = found
        return Candidates(victims, rejections)

    def on_node(self, asked: Asked, node: str, budgets: Sequence[DisruptionBudget]) -> Victims | Rejection | None:
        """Return the victims on a node, why there are none, or None if the pod fits there as it is."""
        lower = self._lower(asked.pod, node)
        if not lower:
            return Rejection((NO_VICTIMS,), resolvable=False)
        on_cards = self._on_cards(asked, node, lower, budgets)
        if on_cards is not None and self.rejection(asked, node, on_cards.pods) is None:
            return on_cards
        rejection = self.rejection(asked, node, lower)
        if rejection is not None:
            return rejection
        return reprieve(node, lower, budgets, lambda gone: self.rejection(asked, node, gone) is None)

    def rejection(self, asked: Asked, node: str, gone: Collection[Pod]) -> Rejection | None:
        """Return why a node does not let a pod pass once some pods there are gone; None if it does."""
        state, row = self._state, self._state.nodes.row(node)
        assert row is not None
        held = [there for pod in gone if (there := state.reservation(pod.uid)) is not None]
        without, beside = state.supposing(node, held, asked.pod.uid, asked.pod.priority)
        with state.counting(without, beside):
            nominated = self._nominated.rejection_on(node, asked.pod, asked.node, asked.cluster, without, beside)
            if nominated is not None:
                return nominated
            alone = asked.node.ask(state, row, state.trial.on(row, without, beside))
            return rejection_of(asked.pod, row, alone, asked.cluster)

    def _on_cards(
        self, asked: Asked, node: str, lower: Sequence[Pod], budgets: Sequence[DisruptionBudget]
    ) -> Victims | None:
        """Return the victims of least cost where the cards of a node alone keep a pod away that takes one of them."""
        state, row, allocator = self._state, self._state.nodes.row(node), asked.node.allocator
        assert row is not None
        if allocator is None or not allocator.takes_one_card:
            return None
        without, _ = state.supposing(node, (), asked.pod.uid, asked.pod.priority)
        now = asked.node.ask(state, row, state.trial.on(row, without))
        if now.feasible[row] or now.rejected[row] != Rejections.PASSES:
            return None
        return CardSearch(state, asked, node).cheapest(lower, budgets)

    def _lower(self, pod: Pod, node: str) -> list[Pod]:
        there = (self._state.pod(held.uid) for held in self._state.reservations(node))
        return [each for each in there if each and each.priority < pod.priority and self._may_end(each)]

"""Which nodes a pod could get by having pods of lower priority end there, and which of these costs least."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.nominated import NominatedPods, rejection_of
from vgpu_scheduler.engine.preemption.cards import CardSearch
from vgpu_scheduler.engine.preemption.order import SearchOrder
from vgpu_scheduler.engine.preemption.victims import Asked, Cost, Victims, reprieve
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.model import CardReason, Hint
from vgpu_scheduler.predicates import Reason, Rejection, Rejections
from vgpu_scheduler.state import State

__all__ = ["BY_PREEMPTION", "NOT_HELPFUL", "NO_VICTIMS", "PROTECTED", "Candidates", "VictimSearch", "ineligible"]

_PLUGIN: Final = ""
NO_VICTIMS: Final = Reason(_PLUGIN, "No preemption victims found for incoming pod", Hint.NONE, resolvable=False)
PROTECTED: Final = Reason(_PLUGIN, "PodDisruptionBudgets protect the victims", Hint.NONE, resolvable=False)
NOT_HELPFUL: Final = Reason(_PLUGIN, "Preemption is not helpful for scheduling", Hint.NONE, resolvable=False)

_PROTECTED_NODE: Final = Rejection((PROTECTED,), resolvable=False)
_RESOLVABLE: Final = [int(reason) for reason in CardReason if reason.resolvable]
_MOST_LOOKED_AT: Final = 128
"""Nodes that are asked about one by one, at most, however many of them turn out to have protected pods."""
_MOST_CANDIDATES: Final = 32
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


def ineligible(pod: Pod, state: State, found: Filtered | None) -> str:
    """Return why a pod may not have others end for it now; empty if it may.

    Parameters
    ----------
    found
        What the filters say of the nodes; None if nothing is known of that.
    """
    if pod.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    node = pod.nominated_node_name
    row = state.nodes.row(node)
    rejection = None if found is None or row is None else found.rejection(row)
    if not node or (rejection is not None and not rejection.resolvable):
        return ""
    there = (state.pod(held.uid) for held in state.reservations(node))
    lower = (each for each in there if each and each.priority < pod.priority)
    if any(each.deleting and each.disruption in BY_PREEMPTION for each in lower):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


class Best(NamedTuple):
    """What a search for the cheapest victims found.

    Attributes
    ----------
    victims
        None if nobody's end helps.
    searched
        On how many nodes the end of pods might have helped.
    protected
        On how many of them only the violation of a budget would.
    compared
        What was found on the nodes that were looked at: none of the others costs less.
    over_limit
        The cheapest of those that are more pods than may be evicted now.
    """

    victims: Victims | None
    searched: int
    protected: int
    compared: Candidates
    over_limit: Victims | None = None


class _Seen:
    """The cheapest victims so far."""

    def __init__(
        self,
        budgets: Sequence[DisruptionBudget],
        within_limits: Callable[[Victims], bool],
        *,
        exceed: bool,
        searched: int,
    ) -> None:
        self._budgets = budgets
        self._within_limits = within_limits
        self._exceed = exceed
        self._over_limit: Victims | None = None
        self._searched = searched
        self._cheapest: Victims | None = None
        self._victims: dict[str, Victims] = {}
        self._rejections: dict[str, Rejection] = {}

    def is_beaten(self, least: Cost, node: str) -> bool:
        """Tell whether victims on a node that cost at least so much are no better than what was found."""
        return self._cheapest is not None and (least, node) >= (self._cheapest.cost, self._cheapest.node)

    def take(self, node: str, found: Victims | Rejection | None) -> None:
        """Take in what was found on a node."""
        if not isinstance(found, Victims):
            if found is not None:
                self._rejections[node] = found
            return
        if found.violations and not self._exceed:
            # The number is that of kube-scheduler, which counts those who stay, too. The API server counts who ends.
            if violating_budgets(found.pods, self._budgets):
                self._rejections[node] = _PROTECTED_NODE
                return
            found = replace(found, violations=0)
        if not self._within_limits(found):
            if self._over_limit is None or found.cost < self._over_limit.cost:
                self._over_limit = found
            return
        self._victims[node] = found
        if not self.is_beaten(found.cost, node):
            self._cheapest = found

    @property
    def enough(self) -> bool:
        """Whether as many candidates were found as are compared."""
        return len(self._victims) >= _MOST_CANDIDATES

    def best(self) -> Best:
        """Return the cheapest victims."""
        protected = sum(rejection is _PROTECTED_NODE for rejection in self._rejections.values())
        compared = Candidates(self._victims, self._rejections)
        return Best(self._cheapest, self._searched, protected, compared, self._over_limit)


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
    exceed
        Whether victims may end against their disruption budgets.
    within_limits
        Tells whether so many pods may be evicted now.
    """

    def __init__(
        self,
        state: State,
        nominated: NominatedPods,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        may_end: Callable[[Pod], bool],
        *,
        exceed: bool = True,
        within_limits: Callable[[Victims], bool] = lambda _: True,
    ) -> None:
        self._by_namespace: dict[str, list[DisruptionBudget]] | None = None
        self._within_limits = within_limits
        self._exceed = exceed
        self._state = state
        self._nominated = nominated
        self._budgets = budgets
        self._may_end = may_end

    def helpful(self, asked: Asked, found: Filtered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows on which the end of pods might help.

        Parameters
        ----------
        found
            What the filters of the pod say; the columns of its node part are up to date.

        Returns
        -------
        tuple
            Those that a filter rejects, and those that pass all filters and are short of cards.
        """
        rejected, passing = found.resolvable()
        short: NDArray[np.int64] = passing[asked.node.fit.counts[passing][:, _RESOLVABLE].any(axis=1)]
        return rejected, short

    def best(self, asked: Asked, found: Filtered, closed: Collection[str], order: SearchOrder) -> Best:
        """Search the victims that cost least; nodes on which none can cost less are left out.

        Where more is short than a card, at most :data:`_MOST_CANDIDATES` nodes are compared, those first where the
        lowest priorities are enough, then by name. kube-scheduler compares a hundred, or a tenth of all.

        Parameters
        ----------
        closed
            Nodes where the pod would not be served.
        order
            Says in which order nodes are looked at.
        """
        (rejected, short), budgets = self.helpful(asked, found), self._budgets()
        seen = _Seen(budgets, self._within_limits, exceed=self._exceed, searched=int(rejected.size + short.size))
        unbound = self._unbound_victims(asked, np.concatenate([rejected, short]), closed)
        if unbound is not None:
            seen.take(unbound.node, unbound)
            return seen.best()
        if asked.node.allocator is not None and asked.node.allocator.takes_one_card:
            for least, node in islice(order.by_cards(asked, short), _MOST_LOOKED_AT):
                if seen.is_beaten(least, node):
                    break
                if node not in closed:
                    seen.take(node, self.on_node(asked, node, budgets))
            short = short[:0]
        for least, node in islice(order.by_level(asked, np.concatenate([rejected, short])), _MOST_LOOKED_AT):
            if seen.is_beaten(least, node) or seen.enough:
                break
            if node not in closed:
                seen.take(node, self.on_node(asked, node, budgets, up_to=least[1]))
        return seen.best()

    def _unbound_victims(self, asked: Asked, rows: NDArray[np.int64], closed: Collection[str]) -> Victims | None:
        """Return pods that only wait to be bound and whose room would do: nobody has to be evicted for it."""
        state, waiting = self._state, {held.uid: held.node for held in self._state.assumed()}
        assumed = set(waiting.values())
        helpful = set(rows.tolist()) if assumed else set[int]()
        assumed = {node for node in assumed if state.nodes.row(node) in helpful}
        candidates = []
        for node in sorted(assumed.difference(closed))[:_MOST_CANDIDATES]:
            lower = [pod for pod in self._lower(asked.pod, node) if pod.uid in waiting and not pod.node_name]
            found = self._reprieved(asked, node, lower, ()) if lower else None
            if isinstance(found, Victims):
                candidates.append(found)
        return min(candidates, key=lambda victims: victims.cost, default=None)

    def on_node(
        self, asked: Asked, node: str, budgets: Sequence[DisruptionBudget], up_to: int | None = None
    ) -> Victims | Rejection | None:
        """Return the victims on a node, why there are none, or None if the pod fits there as it is.

        Parameters
        ----------
        up_to
            The priority up to which the end of all pods is known to be enough, budgets and policies aside: none above
            it has to end then, and there is less to ask.
        """
        lower = self._lower(asked.pod, node)
        if up_to is not None:
            lowest = [each for each in lower if each.priority <= up_to]
            found = self._reprieved(asked, node, lowest, budgets) if lowest else None
            if isinstance(found, Victims) and not found.violations:
                return found
        if not lower:
            return Rejection((NO_VICTIMS,), resolvable=False)
        on_cards = self._on_cards(asked, node, lower, budgets)
        if on_cards is not None and self.rejection(asked, node, on_cards.pods) is None:
            return on_cards
        return self._reprieved(asked, node, lower, budgets)

    def reprieved(self, asked: Asked, node: str, ending: Sequence[Pod]) -> Victims | Rejection | None:
        """Return which of some pods of a node that end already a pod needs the room of."""
        return self._reprieved(asked, node, ending, ())

    def _reprieved(
        self, asked: Asked, node: str, lower: Sequence[Pod], budgets: Sequence[DisruptionBudget]
    ) -> Victims | Rejection | None:
        """Return whom of some pods of a node nobody can reprieve."""
        rejection = self.rejection(asked, node, lower)
        if rejection is not None:
            return rejection
        alone = self._depends_on_node_alone(asked, node)
        room = _NodeAlone(self._state, asked, node, lower) if alone else _NodeAmongOthers(self, asked, node, lower)
        return reprieve(node, lower, budgets, room)

    def _depends_on_node_alone(self, asked: Asked, node: str) -> bool:
        """Tell whether nothing but what is in use of a node has a say about a pod there."""
        state = self._state
        return (
            asked.cluster is None and not asked.limited and not state.holds.on(node) and not state.nominations.on(node)
        )

    def rejection(self, asked: Asked, node: str, gone: Collection[Pod]) -> Rejection | None:
        """Return why a node does not let a pod pass once some pods there are gone; None if it does."""
        state, row = self._state, self._state.nodes.row(node)
        assert row is not None
        held = [there for pod in gone if (there := state.reservation(pod.uid)) is not None]
        without, beside = state.supposing(node, held, self._open_to(asked, node))
        if self._depends_on_node_alone(asked, node):
            return rejection_of(asked.pod, row, asked.node.ask(state, row, state.trial.on(row, without, beside)), None)
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
        room = self._open_to(asked, node)
        kept = {uid for hold in state.holds.on(node) if hold.uid not in room for uid in hold.leaving}
        without, beside = state.supposing(node, (), room)
        if beside or not kept.isdisjoint(pod.uid for pod in lower):
            return None  # others count on some of these: what the end of one frees depends on who ends with it
        now = asked.node.ask(state, row, state.trial.on(row, without))
        if now.feasible[row] or now.rejected[row] != Rejections.PASSES:
            return None
        return CardSearch(state, asked, node).cheapest(lower, budgets)

    def _open_to(self, asked: Asked, node: str) -> list[str]:
        return self._state.holds.open_to(node, asked.pod.uid, asked.pod.priority)

    def _lower(self, pod: Pod, node: str) -> list[Pod]:
        there = (self._state.pod(held.uid) for held in self._state.reservations(node))
        lower = [each for each in there if each and each.priority < pod.priority and self._may_end(each)]
        return lower if self._exceed else [each for each in lower if not self._has_several_budgets(each)]

    def _has_several_budgets(self, pod: Pod) -> bool:
        """Tell whether the API server would refuse to evict a pod, for more than one budget selects it."""
        if self._by_namespace is None:
            self._by_namespace = {}
            for budget in self._budgets():
                self._by_namespace.setdefault(budget.namespace, []).append(budget)
        return sum(budget.covers(pod) for budget in self._by_namespace.get(pod.namespace, ())) > 1


class _NodeAlone:
    """A node from which pods are gone, of which nothing but what is in use of it has a say."""

    def __init__(self, state: State, asked: Asked, node: str, gone: Sequence[Pod]) -> None:
        row = state.nodes.row(node)
        assert row is not None
        self._state = state
        self._node = asked.node
        self._row = row
        self._held = {pod.uid: held for pod in gone if (held := state.reservation(pod.uid)) is not None}
        self._in_use = state.trial.on(row, list(self._held.values()))

    def put_back(self, pod: Pod) -> bool:
        """Put a pod back, unless the other one would not fit then; see :class:`Room`."""
        state, held = self._state, self._held[pod.uid]
        state.trial.charge(self._in_use, self._row, held, 1)
        fits = bool(self._node.ask(state, self._row, self._in_use).feasible[self._row])
        if not fits:
            state.trial.charge(self._in_use, self._row, held, -1)
        return fits


class _NodeAmongOthers:
    """A node from which pods are gone; who is on others has a say, too."""

    def __init__(self, search: VictimSearch, asked: Asked, node: str, gone: Sequence[Pod]) -> None:
        self._search = search
        self._asked = asked
        self._node = node
        self._gone = list(gone)

    def put_back(self, pod: Pod) -> bool:
        """Put a pod back, unless the other one would not fit then; see :class:`Room`."""
        left = [other for other in self._gone if other is not pod]
        fits = self._search.rejection(self._asked, self._node, left) is None
        if fits:
            self._gone = left
        return fits

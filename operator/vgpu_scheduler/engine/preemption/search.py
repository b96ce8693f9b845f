"""On which nodes a pod would fit if pods of lower priority were evicted, and which of these nodes costs least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.nominated import NominatedPods, rejection_of
from vgpu_scheduler.engine.preemption.candidates import (
    NO_VICTIMS_THERE,
    NOT_HELPFUL,
    CandidateComparison,
    CheapestVictims,
)
from vgpu_scheduler.engine.preemption.cards import CardSearch
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.order import SearchOrder
from vgpu_scheduler.engine.preemption.possible import PossibleVictims
from vgpu_scheduler.engine.preemption.victims import (
    Preemptor,
    ReprieveTarget,
    Unit,
    Victims,
    ends_by_preemption,
    pods_of,
    reprieve,
    without_start,
)
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import RejectionReason
from vgpu_scheduler.predicates import Rejection, RejectionCodes
from vgpu_scheduler.state import Reservation, State

_MOST_LOOKED_AT: Final = 128
"""Maximum number of nodes that are tried one by one, however many of them turn out to have protected pods."""
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
"""kube-scheduler's message about a pod whose victims are still terminating."""


def ineligible(pod: Pod, state: State, found: Filtered | None, counted: Callable[[Pod], Pod] = lambda pod: pod) -> str:
    """Return why a pod may not preempt others now; empty if it may.

    Parameters
    ----------
    found
        The pod's filter results; None if unknown.
    counted
        Returns a pod with the priority that counts, which may be its group's.
    """
    if pod.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    node = pod.nominated_node_name
    row = state.nodes.row(node)
    if row is None:  # not nominated, or to a node that is gone: terminating pods there do not matter
        return ""
    rejection = None if found is None else found.rejection(row)
    if rejection is not None and not rejection.resolvable:
        return ""
    there = (state.pod(reservation.uid) for reservation in state.reservations(node))
    ending = (each for each in there if each is not None and ends_by_preemption(each))
    return TERMINATING if any(counted(each).priority < counted(pod).priority for each in ending) else ""


class VictimSearch:
    """Searches for victims for pods.

    Parameters
    ----------
    state
        The cluster's state.
    nominated
        Filters nodes beside the pods that are nominated to them.
    budgets
        Returns the disruption budgets.
    may_end
        Tells whether a pod of lower priority may be a victim.
    exceed
        Whether victims may violate their disruption budgets; then terminating pods count as victims, as with
        kube-scheduler.
    within_limits
        Tells whether so many pods may be evicted now.
    disruption
        Tells which pods end together, and by which priority; without it each pod ends alone and by its own.
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
        disruption: GroupDisruption | None = None,
    ) -> None:
        self._within_limits = within_limits
        self._exceed = exceed
        self._state = state
        self._nominated = nominated
        self._budgets = budgets
        self._possible = PossibleVictims(state, budgets, may_end, disruption or GroupDisruption(state), exceed=exceed)

    def helpful_rows(self, preemptor: Preemptor, found: Filtered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows on which preemption might help.

        Parameters
        ----------
        found
            The filter results of the pod; the columns of its node part are up to date.

        Returns
        -------
        tuple
            The rows that a filter rejects, and the rows that pass all filters and are short of cards.
        """
        rejected, passing = found.resolvable()
        return rejected, passing[preemptor.node.short_of_cards()[passing]]

    def best(
        self, preemptor: Preemptor, found: Filtered, closed: Collection[str], order: SearchOrder
    ) -> CheapestVictims:
        """Search the victims of least cost; nodes that cannot cost less than the best so far are skipped.

        Where more than one card is short, the number of compared nodes is limited (:class:`.CandidateComparison`): the
        nodes where the lowest priorities suffice come first, and of these the nodes with the fewest such pods.
        kube-scheduler compares a hundred, or a tenth of all nodes. The same limit applies where no pod has to be
        evicted.

        Parameters
        ----------
        closed
            Nodes that are closed to the pod.
        order
            The order in which nodes are searched.
        """
        (rejected, short), budgets = self.helpful_rows(preemptor, found), self._budgets()
        seen = CandidateComparison(budgets, self._within_limits, exceed=self._exceed)
        if preemptor.node.allocator is not None and preemptor.node.allocator.takes_one_card:
            for number, (least, node) in enumerate(order.by_cards(preemptor, short)):
                if seen.is_beaten(least, node) or (seen.enough and seen.cost_nothing):
                    break
                if number == _MOST_LOOKED_AT:
                    seen.is_complete = False
                    break
                if node not in closed:
                    seen.take(node, self.on_node(preemptor, node, budgets))
            short = short[:0]
        looked_at = 0
        for least, node in order.by_level(preemptor, np.concatenate([rejected, short])):
            if seen.is_beaten(without_start(least), node):
                break
            if node in closed or seen.is_beaten(least, node):
                continue
            if seen.enough or looked_at == _MOST_LOOKED_AT:
                seen.is_complete = False
                break
            looked_at += 1
            seen.take(node, self.on_node(preemptor, node, budgets, up_to=least[1]))
        return seen.best()

    def on_node(
        self, preemptor: Preemptor, node: str, budgets: Sequence[DisruptionBudget], up_to: int | None = None
    ) -> Victims | Rejection | None:
        """Return the victims on a node, or why there are none; None if the pod fits there without victims.

        Parameters
        ----------
        up_to
            The priority up to which evicting all pods is known to suffice (budgets and policies aside): no pod above it
            has to be evicted, which shortens the search.
        """
        lower = self._possible.on_node(preemptor.pod, node)
        free = self._possible.costing_nothing(lower)
        found = self._reprieved(preemptor, node, [*free.values()], ()) if free else None
        if isinstance(found, Victims):
            return found
        if up_to is not None:
            lowest = [unit for unit in lower if unit[0].priority <= up_to or unit[0].uid in free]
            found = self._reprieved(preemptor, node, lowest, budgets) if lowest else None
            if isinstance(found, Victims) and not found.violations:
                return found
        if not lower:
            return NO_VICTIMS_THERE
        on_cards = self._on_cards(preemptor, node, lower, budgets)
        if on_cards is not None and self.rejection(preemptor, node, on_cards.pods) is None:
            return on_cards
        return self._reprieved(preemptor, node, lower, budgets)

    def rejections(
        self, preemptor: Preemptor, found: Filtered, best: CheapestVictims, order: SearchOrder
    ) -> Mapping[RejectionReason, int]:
        """Count the nodes by the reason why preemption does not help there, in kube-scheduler's words.

        Nodes are evaluated one by one if the search tried them, or if nominated pods or host ports matter there; of the
        latter at most as many as a search tries.

        Parameters
        ----------
        best
            The result of a search that found no victims.
        """
        nodes, rows = self._state.nodes, np.concatenate(self.helpful_rows(preemptor, found))
        said = dict(best.compared.rejections)
        said.update(
            (node, self._refusal(preemptor, node)) for node in self._with_nominated_pods_or_ports(preemptor, rows, said)
        )
        asked = [row for name in said if (row := nodes.row(name)) is not None]
        counts: Counter[RejectionReason] = Counter(order.rejections.count(preemptor, rows[~np.isin(rows, asked)]))
        counts.update(reason for rejection in said.values() for reason in rejection.reasons)
        counts[NOT_HELPFUL] = len(nodes) - int(rows.size)
        return counts

    def _with_nominated_pods_or_ports(
        self, preemptor: Preemptor, rows: NDArray[np.int64], asked: Collection[str]
    ) -> list[str]:
        """Return nodes that were not evaluated and where nominated pods or host ports matter."""
        nodes, nominations = self._state.nodes, self._state.nominations
        if preemptor.pod.spec.host_ports:
            names: Iterable[str] = map(nodes.name, rows.tolist())
        else:
            helpful = set(rows.tolist()) if nominations else ()
            names = (name for name in nominations if nodes.row(name) in helpful)
        return list(islice((name for name in names if name not in asked), _MOST_LOOKED_AT))

    def _refusal(self, preemptor: Preemptor, node: str) -> Rejection:
        """Return why evicting all possible victims on a node does not help."""
        lower = self._possible.on_node(preemptor.pod, node)
        return (self.rejection(preemptor, node, pods_of(lower)) if lower else None) or NO_VICTIMS_THERE

    def best_with_terminating_pods(
        self, preemptor: Preemptor, node: str, ending: Sequence[Pod]
    ) -> Victims | Rejection | None:
        """Return the victims on a node where some pods are terminating already; only these if they are enough.

        Otherwise other pods on the same cards are preferred to pods on other cards, so that the freed room is used.
        """
        end: list[Unit] = [(pod,) for pod in ending]
        found = self._reprieved(preemptor, node, end, ())
        if isinstance(found, Victims):
            return found
        ends, cards = dict.fromkeys((pod.uid for pod in ending), 3), set().union(*map(self._cards_of, ending))
        others = [unit for unit in self._possible.on_node(preemptor.pod, node) if unit[0].uid not in ends]
        beside = {unit[0].uid: 1 for unit in others if any(not cards.isdisjoint(self._cards_of(pod)) for pod in unit)}
        free = dict.fromkeys(self._possible.costing_nothing(others), 2)
        return self._reprieved(preemptor, node, [*end, *others], self._budgets(), {**ends, **beside, **free})

    def left_behind(self, preemptor: Preemptor, ending: Iterable[Pod]) -> list[Pod]:
        """Return the other pods of groups that are disrupted as a whole and of which some pods end already."""
        return self._possible.left_behind(preemptor.pod, ending)

    def _cards_of(self, pod: Pod) -> set[str]:
        reservation = self._state.reservation(pod.uid)
        return set() if reservation is None else {uuid for usage in reservation.uses.values() for uuid in usage.charges}

    def _reprieved(
        self,
        preemptor: Preemptor,
        node: str,
        lower: Sequence[Unit],
        budgets: Sequence[DisruptionBudget],
        rounds: Mapping[str, int] | None = None,
    ) -> Victims | Rejection | None:
        """Return the victims of a node that remain after reprieving as many of the given pods as possible."""
        rejection = self.rejection(preemptor, node, pods_of(lower))
        if rejection is not None:
            return rejection
        room: ReprieveTarget = (
            _NodeAlone(self._state, preemptor, node, lower)
            if self._depends_on_node_alone(preemptor, node)
            else _NodeAmongOthers(self, preemptor, node, lower)
        )
        unbound = self._possible.assumed_only(lower)
        return reprieve(node, lower, budgets, room, rounds, unbound, counts_terminating=self._exceed)

    def _depends_on_node_alone(self, preemptor: Preemptor, node: str) -> bool:
        """Tell whether only the usage of a node itself decides whether a pod fits there."""
        state = self._state
        return (
            preemptor.pod_class.cluster is None
            and not preemptor.pod_class.limited
            and not state.holds.on(node)
            and not state.nominations.on(node)
        )

    def rejection(self, preemptor: Preemptor, node: str, gone: Collection[Pod]) -> Rejection | None:
        """Return why a node rejects a pod once the given pods are gone; None if it does not."""
        state, row = self._state, self._state.nodes.row(node)
        assert row is not None
        reservations = [there for pod in gone if (there := state.reservation(pod.uid)) is not None]
        here = [there for there in reservations if there.node == node]
        elsewhere = [there for there in reservations if there.node != node]
        without, added = state.adjustment_if_gone(node, here, self._usable_holds(preemptor, node))
        if self._depends_on_node_alone(preemptor, node):
            return rejection_of(
                preemptor.pod,
                row,
                preemptor.node.if_in_use(state, row, state.node_usage_if.on(row, without, added)),
                None,
            )
        with state.counting_across_nodes([*without, *elsewhere], added):
            nominated = self._nominated.rejection_on(
                node, preemptor.pod, preemptor.node, preemptor.pod_class.cluster, without, added
            )
            if nominated is not None:
                return nominated
            alone = preemptor.node.if_in_use(state, row, state.node_usage_if.on(row, without, added))
            return rejection_of(preemptor.pod, row, alone, preemptor.pod_class.cluster)

    def _on_cards(
        self, preemptor: Preemptor, node: str, lower: Sequence[Unit], budgets: Sequence[DisruptionBudget]
    ) -> Victims | None:
        """Return the cheapest victims where only the cards of a node reject a pod that takes one card."""
        state, row, allocator = self._state, self._state.nodes.row(node), preemptor.node.allocator
        assert row is not None
        if allocator is None or not allocator.takes_one_card:
            return None
        usable_holds = self._usable_holds(preemptor, node)
        credited = {uid for hold in state.holds.on(node) if hold.uid not in usable_holds for uid in hold.leaving}
        free = self._possible.costing_nothing(lower)
        reservations = (state.reservation(pod.uid) for pod in pods_of(free.values()))
        gone = [there for there in reservations if there is not None and there.node == node]
        without, added = state.adjustment_if_gone(node, gone, usable_holds)
        if added or not credited.isdisjoint(pod.uid for pod in pods_of(lower)):
            return None  # holds count on some of these pods: what one frees depends on which others end with it
        now = preemptor.node.if_in_use(state, row, state.node_usage_if.on(row, without))
        if now.feasible[row] or now.rejected[row] != RejectionCodes.PASSES:
            return None
        evicted = [unit for unit in lower if unit[0].uid not in free]
        found = CardSearch(state, preemptor, node, gone, counts_terminating=self._exceed).cheapest(evicted, budgets)
        if found is None or not free:
            return found
        chosen = [unit for unit in evicted if unit[0] in found.pods]
        cheapest = self._reprieved(preemptor, node, [*chosen, *free.values()], budgets)
        return cheapest if isinstance(cheapest, Victims) else None

    def _usable_holds(self, preemptor: Preemptor, node: str) -> list[str]:
        return self._state.holds.usable_by(node, preemptor.pod.uid, preemptor.pod.priority)


class _NodeAlone:
    """A node without some pods, where only the usage of the node itself matters."""

    def __init__(self, state: State, preemptor: Preemptor, node: str, gone: Sequence[Unit]) -> None:
        row = state.nodes.row(node)
        assert row is not None
        self._state = state
        self._node = preemptor.node
        self._row = row
        known = (state.reservation(pod.uid) for pod in pods_of(gone))
        self._held = {
            reservation.uid: reservation
            for reservation in known
            if reservation is not None and reservation.node == node
        }
        self._in_use = state.node_usage_if.on(row, list(self._held.values()))

    def put_back(self, unit: Unit) -> bool:
        """Put pods back, unless the preemptor would not fit then; see :class:`.ReprieveTarget`."""
        there = [self._held[pod.uid] for pod in unit if pod.uid in self._held]
        self._charge(there, 1)
        fits = bool(self._node.if_in_use(self._state, self._row, self._in_use).feasible[self._row])
        if not fits:
            self._charge(there, -1)
        return fits

    def _charge(self, there: Iterable[Reservation], sign: int) -> None:
        for reservation in there:
            self._state.node_usage_if.charge(self._in_use, self._row, reservation, sign)


class _NodeAmongOthers:
    """A node without some pods, where pods on other nodes matter, too."""

    def __init__(self, search: VictimSearch, preemptor: Preemptor, node: str, gone: Sequence[Unit]) -> None:
        self._search = search
        self._preemptor = preemptor
        self._node = node
        self._gone = list(gone)

    def put_back(self, unit: Unit) -> bool:
        """Put pods back, unless the preemptor would not fit then; see :class:`.ReprieveTarget`."""
        left = [other for other in self._gone if other is not unit]
        fits = self._search.rejection(self._preemptor, self._node, pods_of(left)) is None
        if fits:
            self._gone = left
        return fits

"""Finds the cheapest set of victims on one card for a pod that takes one card.

All subsets of the pods on a card are tried if there are up to :data:`MOST_SETS` pods; with more, pods are reprieved one
by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.victims import (
    Preemptor,
    Unit,
    Victims,
    assumed_only,
    pods_of,
    reprieve,
    started,
    units_by_importance,
)
from vgpu_scheduler.kernels import LOWEST_PRIORITY, MOST_SETS
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.state import Reservation, State


class CardSearch:
    """Searches the cards of a node for room for a pod that takes one card.

    Parameters
    ----------
    state
        The cluster's state.
    preemptor
        The pod; its allocator takes one card.
    node
        The name of the node.
    gone
        Reservations there that do not count, as their pods end anyway.
    counts_terminating
        Whether terminating pods cost as much as others.
    """

    def __init__(
        self,
        state: State,
        preemptor: Preemptor,
        node: str,
        gone: Sequence[Reservation] = (),
        *,
        counts_terminating: bool = False,
    ) -> None:
        row, allocator = state.nodes.row(node), preemptor.node.allocator
        assert row is not None
        assert allocator is not None
        self.state = state
        self.counts_terminating = counts_terminating
        self._allocator = allocator
        self._dialect = preemptor.node.dialect
        self._matrix = state.matrix(self._dialect)
        self._node = node
        self._row = row
        pod = preemptor.pod
        without, _ = state.adjustment_if_gone(node, gone, state.holds.usable_by(node, pod.uid, pod.priority))
        self._first = int(self._matrix.columns.first[row])
        self._cards = slice(self._first, int(self._matrix.columns.last[row]))
        self._used = state.node_usage_if.on(row, without).devices[self._dialect].used[self._cards].copy()

    def cheapest(self, lower: Iterable[Unit], budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return the cheapest victims on one card of the node that let the pod fit.

        Parameters
        ----------
        lower
            The units that may be evicted. At least one pod of each would have to be evicted: the caller leaves out
            units that cost nothing. Units that hold no card are ignored.

        Returns
        -------
        Victims or None
            None if the pod fits on no card of the node, whichever units end. Constraints on more than one card are not
            checked.
        """
        may_use, by_count = self._allocator.may_use(self._matrix, self._cards), dict[int, list[_Card]]()
        for number, occupants in self._by_card(lower).items():
            if may_use[number - self._first]:
                card = _Card(self, number, occupants, self._used[number - self._first])
                by_count.setdefault(len(occupants), []).append(card)
        found = []
        for count, cards in by_count.items():
            if count <= MOST_SETS:
                found.append(self._of_few(cards, budgets))
            else:
                found += [card.reprieved(self._node, budgets) for card in cards]
        cheapest = min(filter(None, found), key=lambda each: (each.victims.cost, each.card), default=None)
        return None if cheapest is None else cheapest.victims

    def _of_few(self, cards: Sequence[_Card], budgets: Sequence[DisruptionBudget]) -> _OnCard | None:
        """Return the cheapest set of units on cards with equally few units; all sets are tried at once."""
        sets = _all_sets(len(cards[0].units))
        used = np.stack([card.used for card in cards])[:, None] - sets @ np.stack([card.amounts for card in cards])
        numbers = np.repeat([card.number for card in cards], sets.shape[0])
        fits = self.fits(numbers, used.reshape(numbers.shape[0], -1)).reshape(len(cards), -1)
        on, gone = np.nonzero(fits)
        if not on.size:
            return None
        priorities = np.array([[unit[0].priority for unit in card.units] for card in cards])
        start = np.array([[started(unit[0]) for unit in card.units] for card in cards])
        total = np.array([[card.total(unit) for unit in card.units] for card in cards])
        number = np.array([[len(card.ending(unit)) for unit in card.units] for card in cards])
        first = sets.argmax(axis=1)  # the most important one: of the highest priority, and the oldest of these
        violations = np.zeros(on.shape[0], dtype=np.int64)
        for of_card, card in enumerate(cards if budgets else ()):
            here = on == of_card
            violations[here] = card.violations(sets[gone[here]], budgets)
        by_cost: tuple[NDArray[Any], ...] = (  # as in Victims.cost; of equals the less important pods end
            violations,
            priorities[on, first[gone]],
            (total @ sets.T)[on, gone],
            (number @ sets.T)[on, gone],
            -start[on, first[gone]],
            np.array([card.number for card in cards])[on],
            *sets[gone].T,
        )
        left = np.arange(on.shape[0])
        for column in by_cost:
            left = left[column[left] == column[left].min()]
        card, best = cards[on[left[0]]], sets[gone[left[0]]]
        pods = pods_of(card.gone(best.tolist()))
        waiting = assumed_only(self.state, pods)
        violating = violating_budgets((pod for pod in pods if pod.uid not in waiting), budgets)
        return _OnCard(Victims(self._node, pods, len(violating), waiting, self.counts_terminating), card.number)

    def fits(self, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which cards the pod fits with the given amounts in use, shape (n, dimensions)."""
        return self._allocator.fit_alone(self._matrix, cards, used)

    def _by_card(self, units: Iterable[Unit]) -> dict[int, _Occupants]:
        """Return the units that hold something of each device, the most important first, with their amounts."""
        on_card: dict[int, _Occupants] = {}
        for unit in units_by_importance(units):
            for pod in unit:
                for card, amounts in self._charges(pod):
                    occupants = on_card.setdefault(card, [])
                    if not occupants or occupants[-1][0] is not unit:
                        occupants.append((unit, np.zeros(self._matrix.dimensions, dtype=np.int64)))
                    occupants[-1][1][: len(amounts)] += amounts
        return on_card

    def _charges(self, pod: Pod) -> Sequence[tuple[int, Sequence[int]]]:
        """Return what a pod holds of each device of the node, by device number."""
        reservation = self.state.reservation(pod.uid)
        if reservation is None or reservation.node != self._node:
            return ()
        return reservation.charges_on(self._dialect, self._matrix, self._row)


_Occupants = list[tuple[Unit, NDArray[np.int64]]]
"""The units on a card with the amounts that each holds, the most important first."""


class _OnCard(NamedTuple):
    """Victims on one card, with its number."""

    victims: Victims
    card: int


class _Card:
    """One card, with the units on it that may be evicted."""

    def __init__(self, search: CardSearch, number: int, occupants: _Occupants, used: NDArray[np.int64]) -> None:
        self.number = number
        self.units = [unit for unit, _ in occupants]
        self.used = used
        self.amounts = np.stack([amounts for _, amounts in occupants])
        self._search = search
        self._unbound = assumed_only(search.state, pods_of(unit for unit in self.units if len(unit) > 1))
        self._gone = np.ones(len(occupants), dtype=np.int64)

    def ending(self, unit: Unit) -> Unit:
        """Return which pods of a unit have to end; the others are not bound yet and only give their places back."""
        return tuple(pod for pod in unit if pod.uid not in self._unbound) if self._unbound else unit

    def total(self, unit: Unit) -> int:
        """Return the sum of the priorities of the pods of a unit that have to end."""
        return sum(pod.priority - LOWEST_PRIORITY for pod in self.ending(unit))

    def gone(self, of_set: Sequence[int]) -> list[Unit]:
        """Return the units of a set."""
        return [unit for unit, is_gone in zip(self.units, of_set, strict=True) if is_gone]

    def reprieved(self, node: str, budgets: Sequence[DisruptionBudget]) -> _OnCard | None:
        """Return the units left after reprieving one by one; None if the pod does not fit even without all of them."""
        if not self._does():
            return None
        counts = self._search.counts_terminating
        victims = reprieve(node, self.units, budgets, self, unbound=self._unbound, counts_terminating=counts)
        return None if victims is None else _OnCard(victims, self.number)

    def put_back(self, unit: Unit) -> bool:
        """Put a unit back, unless the pod would not fit then; see :class:`.ReprieveTarget`."""
        number = self.units.index(unit)
        self._gone[number] = 0
        does = self._does()
        self._gone[number] = not does
        return does

    def _does(self) -> bool:
        used = self.used - self._gone @ self.amounts
        return bool(self._search.fits(np.array([self.number]), used[None])[0])

    def violations(self, sets: NDArray[np.int64], budgets: Sequence[DisruptionBudget]) -> NDArray[np.int64]:
        """Return how many pods of each set (one per row) violate a budget."""
        concerned = [budget for budget in budgets if any(map(budget.covers, pods_of(self.units)))]
        if not concerned:
            return np.zeros(sets.shape[0], dtype=np.int64)
        gone = (pods_of(map(self.ending, self.gone(row))) for row in sets.tolist())
        return np.array([len(violating_budgets(pods, concerned)) for pods in gone], dtype=np.int64)


@lru_cache(maxsize=MOST_SETS)
def _all_sets(count: int) -> NDArray[np.int64]:
    """Return all non-empty subsets of ``count`` elements, one per row, with ones for their elements.

    Its shape is (2**count - 1, count).
    """
    numbers = np.arange(1, 2**count, dtype=np.int64)
    sets: NDArray[np.int64] = (numbers[:, None] >> np.arange(count)) & 1
    sets.setflags(write=False)
    return sets

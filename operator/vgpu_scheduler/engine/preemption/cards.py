"""Which pods on one card would have to end for a pod that takes one card: the set of them that costs least.

Every set of the pods on a card is asked about, for up to :data:`MOST_TENANTS` of them; more are reprieved one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.victims import MIN_PRIORITY, Preemptor, Victims, by_importance, reprieve, started
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.state import Reservation, State

__all__ = ["MOST_TENANTS", "CardSearch"]

MOST_TENANTS: Final = 12
"""Of how many pods on a card all sets are asked about: 4,095."""


class CardSearch:
    """Looks on the cards of a node for room for a pod that takes one of them.

    Parameters
    ----------
    state
        What is known.
    preemptor
        The pod; its allocator takes one card.
    node
        The name of the node.
    gone
        What pods hold there that are gone anyway.
    """

    def __init__(self, state: State, preemptor: Preemptor, node: str, gone: Sequence[Reservation] = ()) -> None:
        row, allocator = state.nodes.row(node), preemptor.node.allocator
        assert row is not None
        assert allocator is not None
        self._state = state
        self._allocator = allocator
        self._dialect = preemptor.node.dialect
        self._matrix = state.matrix(self._dialect)
        self._node = node
        self._row = row
        pod = preemptor.pod
        without, _ = state.supposing(node, gone, state.holds.open_to(node, pod.uid, pod.priority))
        self._first = int(self._matrix.columns.first[row])
        self._cards = slice(self._first, int(self._matrix.columns.last[row]))
        self._used = state.trial.on(row, without).devices[self._dialect].used[self._cards].copy()

    def cheapest(self, lower: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return the pods of one card that cost least of all that would let the pod fit on a card of the node.

        Parameters
        ----------
        lower
            The pods of the node that may end; those without cards make no difference.

        Returns
        -------
        Victims or None
            None if the pod fits on no card of the node, whichever of them end. What depends on more than one card has
            not been asked.
        """
        may_use, by_count = self._allocator.may_use(self._matrix, self._cards), dict[int, list[_Card]]()
        for number, tenants in self._by_card(lower).items():
            if may_use[number - self._first]:
                card = _Card(self, number, tenants, self._used[number - self._first])
                by_count.setdefault(len(tenants), []).append(card)
        found = []
        for count, cards in by_count.items():
            if count <= MOST_TENANTS:
                found.append(self._of_few(cards, budgets))
            else:
                found += [card.reprieved(self._node, budgets) for card in cards]
        cheapest = min(filter(None, found), key=lambda each: (each.victims.cost, each.card), default=None)
        return None if cheapest is None else cheapest.victims

    def _of_few(self, cards: Sequence[_Card], budgets: Sequence[DisruptionBudget]) -> _OnCard | None:
        """Return the cheapest set of pods of cards that have equally few of them; all sets are asked about at once."""
        sets = _all_sets(len(cards[0].pods))
        used = np.stack([card.used for card in cards])[:, None] - sets @ np.stack([card.amounts for card in cards])
        numbers = np.repeat([card.number for card in cards], sets.shape[0])
        fits = self.fits(numbers, used.reshape(numbers.shape[0], -1)).reshape(len(cards), -1)
        on, gone = np.nonzero(fits)
        if not on.size:
            return None
        priorities = np.array([[pod.priority for pod in card.pods] for card in cards])
        start = np.array([[started(pod) for pod in card.pods] for card in cards])
        first = sets.argmax(axis=1)  # the most important one: of the highest priority, and the oldest of these
        violations = np.zeros(on.shape[0], dtype=np.int64)
        for number, card in enumerate(cards):
            here = on == number
            violations[here] = card.violations(sets[gone[here]], budgets)
        by_cost: tuple[NDArray[Any], ...] = (  # as in Victims.cost; of equals the less important pods end
            violations,
            priorities[on, first[gone]],
            ((priorities - MIN_PRIORITY) @ sets.T)[on, gone],
            sets.sum(axis=1)[gone],
            -start[on, first[gone]],
            np.array([card.number for card in cards])[on],
            *sets[gone].T,
        )
        left = np.arange(on.shape[0])
        for column in by_cost:
            left = left[column[left] == column[left].min()]
        card, best = cards[on[left[0]]], sets[gone[left[0]]]
        pods = tuple(pod for pod, is_gone in zip(card.pods, best.tolist(), strict=True) if is_gone)
        return _OnCard(Victims(self._node, pods, len(violating_budgets(pods, budgets))), card.number)

    def fits(self, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which cards the pod fits with so much in use of each, shape (n, dimensions)."""
        return self._allocator.fit_alone(self._matrix, cards, used)

    def _by_card(self, pods: Iterable[Pod]) -> dict[int, _Tenants]:
        """Return which of some pods hold something of each device, the most important first, and how much."""
        matrix, row, on_card = self._matrix, self._row, dict[int, _Tenants]()
        devices = matrix.devices(row)
        for pod in by_importance(pods):
            held = self._state.reservation(pod.uid)
            for uuid, amounts in held.device_charges(self._dialect, devices).items() if held is not None else ():
                card = matrix.position(row, uuid)
                assert card is not None
                on_card.setdefault(card, []).append((pod, amounts))
        return on_card


_Tenants = list[tuple[Pod, Sequence[int]]]
"""Pods on a card with what each holds of it, the most important first."""


class _OnCard(NamedTuple):
    """Victims on one card, by its number."""

    victims: Victims
    card: int


class _Card:
    """One card, with the pods on it that may end."""

    def __init__(self, search: CardSearch, number: int, tenants: _Tenants, used: NDArray[np.int64]) -> None:
        self.number = number
        self.pods = [pod for pod, _ in tenants]
        self.used = used
        self.amounts = np.zeros((len(tenants), used.shape[0]), dtype=np.int64)
        for mine, (_, amounts) in zip(self.amounts, tenants, strict=True):
            mine[: len(amounts)] = amounts
        self._search = search
        self._gone = np.ones(len(tenants), dtype=np.int64)

    def reprieved(self, node: str, budgets: Sequence[DisruptionBudget]) -> _OnCard | None:
        """Return the pods that nobody can reprieve one by one; None if the card does not do without all of them."""
        victims = reprieve(node, self.pods, budgets, self) if self._does() else None
        return None if victims is None else _OnCard(victims, self.number)

    def put_back(self, pod: Pod) -> bool:
        """Put a pod back, unless the card would not do then; see :class:`Room`."""
        number = self.pods.index(pod)
        self._gone[number] = 0
        does = self._does()
        self._gone[number] = not does
        return does

    def _does(self) -> bool:
        used = self.used - self._gone @ self.amounts
        return bool(self._search.fits(np.array([self.number]), used[None])[0])

    def violations(self, sets: NDArray[np.int64], budgets: Sequence[DisruptionBudget]) -> NDArray[np.int64]:
        """Return how many of each set of the pods, a row each, end against a budget."""
        concerned = [budget for budget in budgets if any(map(budget.covers, self.pods))]
        if not concerned:
            return np.zeros(sets.shape[0], dtype=np.int64)
        gone = ([pod for pod, is_gone in zip(self.pods, row, strict=True) if is_gone] for row in sets.tolist())
        return np.array([len(violating_budgets(pods, concerned)) for pods in gone], dtype=np.int64)


@lru_cache(maxsize=MOST_TENANTS)
def _all_sets(count: int) -> NDArray[np.int64]:
    """Return all sets of so many things but the empty one, a row each, with ones for what is in it.

    Its shape is (2**count - 1, count).
    """
    numbers = np.arange(1, 2**count, dtype=np.int64)
    sets: NDArray[np.int64] = (numbers[:, None] >> np.arange(count)) & 1
    sets.setflags(write=False)
    return sets

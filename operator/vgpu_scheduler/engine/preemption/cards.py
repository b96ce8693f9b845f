"""Which pods on one card would have to end for a pod that takes one card: the set of them that costs least.

Every set of the pods on a card is asked about, for up to :data:`MOST_TENANTS` of them; more are reprieved one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.victims import MIN_PRIORITY, Asked, Victims, by_importance, reprieve, started
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
    asked
        The pod; its allocator takes one card.
    node
        The name of the node.
    """

    def __init__(self, state: State, asked: Asked, node: str) -> None:
        row, allocator = state.nodes.row(node), asked.node.allocator
        assert row is not None
        assert allocator is not None
        self._state = state
        self._allocator = allocator
        self._dialect = asked.node.dialect
        self._matrix = state.matrix(self._dialect)
        self._node = node
        self._row = row
        pod = asked.pod
        without, _ = state.supposing(node, (), state.holds.open_to(node, pod.uid, pod.priority))
        self._first = int(self._matrix.columns.first[row])
        cards = slice(self._first, int(self._matrix.columns.last[row]))
        self._used = state.trial.on(row, without).devices[self._dialect].used[cards].copy()

    def cheapest(self, lower: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return the pods of one card that cost least of all that would let the pod fit on a card of the node.

        Parameters
        ----------
        lower
            The pods of the node that may end; those without cards make no difference.

        Returns
        -------
        Victims or None
            None if the pod fits on no card of the node, whoever of them ends. What depends on more than one card has
            not been asked.
        """
        may_use = self._allocator.may_use(self._matrix)
        cards = [
            _Card(self, card, tenants, self._used[card - self._first])
            for card, tenants in sorted(self._by_card(lower).items())
            if may_use[card]
        ]
        found = [*self._of_few(cards, budgets)]
        found += [card.reprieved(self._node, budgets) for card in cards if len(card.pods) > MOST_TENANTS]
        return min(filter(None, found), key=lambda victims: victims.cost, default=None)

    def _of_few(self, cards: Iterable[_Card], budgets: Sequence[DisruptionBudget]) -> Iterator[Victims | None]:
        """Yield the cheapest set of pods of each card with few of them; all sets are asked about at once."""
        few = [card for card in cards if len(card.pods) <= MOST_TENANTS]
        sets = [_all_sets(len(card.pods)) for card in few]
        if not few:
            return
        numbers = np.repeat([card.number for card in few], [gone.shape[0] for gone in sets])
        used = np.concatenate([card.used_without(gone) for card, gone in zip(few, sets, strict=True)])
        fits, begin = self.fits(numbers, used), 0
        for card, gone in zip(few, sets, strict=True):
            end = begin + gone.shape[0]
            yield card.cheapest(gone[fits[begin:end]], self._node, budgets)
            begin = end

    def fits(self, cards: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which cards the pod fits with so much in use of each, shape (n, dimensions)."""
        return self._allocator.fit_alone(self._matrix, cards, used)

    def _by_card(self, pods: Iterable[Pod]) -> dict[int, _Tenants]:
        """Return which of some pods hold something of each device, the most important first, and how much."""
        on_card: dict[int, _Tenants] = {}
        for pod in by_importance(pods):
            held = self._state.reservation(pod.uid)
            for card, amounts in self._charges(held).items() if held is not None else ():
                on_card.setdefault(card, []).append((pod, amounts))
        return on_card

    def _charges(self, held: Reservation) -> dict[int, NDArray[np.int64]]:
        """Return what is charged of each device of the node, by its number; shape (dimensions,)."""
        charged = {}
        for uuid, amounts in held.device_charges(self._dialect, self._matrix.devices(self._row)).items():
            card = self._matrix.position(self._row, uuid)
            assert card is not None
            wide = np.zeros(self._matrix.dimensions, dtype=np.int64)
            wide[: len(amounts)] = amounts
            charged[card] = wide
        return charged


_Tenants = list[tuple[Pod, NDArray[np.int64]]]
"""Pods on a card with what each holds of it, the most important first."""


class _Card:
    """One card, with the pods on it that may end."""

    def __init__(self, search: CardSearch, number: int, tenants: _Tenants, used: NDArray[np.int64]) -> None:
        self.number = number
        self.pods = [pod for pod, _ in tenants]
        self._search = search
        self._amounts = np.array([amounts for _, amounts in tenants])
        self._used = used
        self._gone = np.ones((1, len(tenants)), dtype=np.bool_)

    def cheapest(self, gone: NDArray[np.bool_], node: str, budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return which of some sets of the pods, a row each, costs least; None if there is none."""
        if not gone.shape[0]:
            return None
        best = gone[self._cheapest_first(gone, self._violations(gone, budgets))[0]]
        pods = tuple(pod for pod, is_gone in zip(self.pods, best.tolist(), strict=True) if is_gone)
        return Victims(node, pods, len(violating_budgets(pods, budgets)))

    def reprieved(self, node: str, budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return the pods that nobody can reprieve one by one; None if the card does not do without all of them."""
        return reprieve(node, self.pods, budgets, self) if self._does() else None

    def put_back(self, pod: Pod) -> bool:
        """Put a pod back, unless the card would not do then; see :class:`Room`."""
        number = self.pods.index(pod)
        self._gone[0, number] = False
        does = self._does()
        self._gone[0, number] = not does
        return does

    def _does(self) -> bool:
        return bool(self._search.fits(np.array([self.number]), self.used_without(self._gone))[0])

    def used_without(self, gone: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return what is in use without each set of pods, a row each; shape (sets, dimensions)."""
        used: NDArray[np.int64] = self._used - gone.astype(np.int64) @ self._amounts
        return used

    def _violations(self, gone: NDArray[np.bool_], budgets: Sequence[DisruptionBudget]) -> NDArray[np.int64]:
        """Return how many of each set end against a budget."""
        concerned = [budget for budget in budgets if any(map(budget.covers, self.pods))]
        if not concerned:
            return np.zeros(gone.shape[0], dtype=np.int64)
        sets = ([pod for pod, is_gone in zip(self.pods, row, strict=True) if is_gone] for row in gone.tolist())
        return np.array([len(violating_budgets(pods, concerned)) for pods in sets], dtype=np.int64)

    def _cheapest_first(self, gone: NDArray[np.bool_], violations: NDArray[np.int64]) -> NDArray[np.int64]:
        """Order sets of pods by what they cost, as :attr:`Victims.cost`; of equals the less important pods end."""
        priorities = np.array([pod.priority for pod in self.pods], dtype=np.int64)
        start = np.array([started(pod) for pod in self.pods])
        first = gone.argmax(axis=1)  # the most important one: of the highest priority, and the oldest of these
        total = gone.astype(np.int64) @ (priorities - MIN_PRIORITY)
        by_cost: tuple[NDArray[Any], ...] = (
            *gone.T[::-1],  # the last key counts most
            -start[first],
            gone.sum(axis=1),
            total,
            priorities[first],
            violations,
        )
        return np.lexsort(by_cost)


def _all_sets(count: int) -> NDArray[np.bool_]:
    """Return all sets of so many things but the empty one, a row each; shape (2**count - 1, count)."""
    numbers = np.arange(1, 2**count, dtype=np.int64)
    sets: NDArray[np.bool_] = (numbers[:, None] >> np.arange(count)) & 1 == 1
    return sets

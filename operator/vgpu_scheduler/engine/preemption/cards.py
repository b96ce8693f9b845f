"""Which pods on one card would have to end for a pod that takes one card: the set of them that costs least.

Every set of the pods on a card is asked about, for up to :data:`MOST_TENANTS` of them; more are reprieved one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator
from vgpu_scheduler.engine.preemption.victims import MIN_PRIORITY, Victims, by_importance, reprieve, started
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.state import DeviceMatrix, Reservation, State

__all__ = ["MOST_TENANTS", "victims_on_cards"]

MOST_TENANTS: Final = 12
"""Of how many pods on a card all sets are asked about: 4,095."""


def victims_on_cards(
    state: State,
    allocator: Allocator,
    dialect: str,
    node: str,
    lower: Iterable[Pod],
    budgets: Sequence[DisruptionBudget],
    without: Sequence[Reservation] = (),
) -> Victims | None:
    """Return the pods of one card of a node that cost least of all that would let a pod fit on a card there.

    Parameters
    ----------
    allocator
        Of a pod that takes one card.
    dialect
        Whose devices it chooses from.
    lower
        The pods of the node that may end; those without cards make no difference.
    without
        What is charged on the node and does not keep the pod away.

    Returns
    -------
    Victims or None
        None if the pod fits on no card of the node, whoever of them ends. What depends on more than one card has not
        been asked.
    """
    matrix, row = state.matrix(dialect), state.nodes.row(node)
    assert row is not None
    used = state.trial.on(row, without).devices[dialect].used
    may_use, on_card = allocator.may_use(matrix), _pods_by_card(state, matrix, dialect, row, lower)
    cards = [
        _Card(allocator, matrix, card, pods, used[card].copy())
        for card, pods in sorted(on_card.items())
        if may_use[card]
    ]
    found = [victims for card in cards if (victims := card.cheapest(node, budgets)) is not None]
    return min(found, key=lambda victims: victims.cost, default=None)


_Charged = list[tuple[Pod, NDArray[np.int64]]]


def _pods_by_card(
    state: State, matrix: DeviceMatrix, dialect: str, row: int, pods: Iterable[Pod]
) -> dict[int, _Charged]:
    """Return which of some pods hold something of each device of a node, the most important first, and how much."""
    on_card: dict[int, _Charged] = {}
    for pod in by_importance(pods):
        held = state.reservation(pod.uid)
        for uuid, amounts in held.device_charges(dialect, matrix.devices(row)).items() if held else ():
            device = matrix.position(row, uuid)
            assert device is not None
            charged = np.zeros(matrix.dimensions, dtype=np.int64)
            charged[: len(amounts)] = amounts
            on_card.setdefault(device, []).append((pod, charged))
    return on_card


class _Card:
    """One card, with the pods on it that may end."""

    def __init__(
        self, allocator: Allocator, matrix: DeviceMatrix, card: int, charged: _Charged, used: NDArray[np.int64]
    ) -> None:
        self._allocator = allocator
        self._matrix = matrix
        self._card = card
        self._pods = [pod for pod, _ in charged]
        self._amounts = np.array([amounts for _, amounts in charged])
        self._used = used

    def cheapest(self, node: str, budgets: Sequence[DisruptionBudget]) -> Victims | None:
        """Return which of the pods cost least of those without which the card would do; None if it never does."""
        if len(self._pods) > MOST_TENANTS:
            if not self._does_without(self._pods):
                return None
            return reprieve(node, self._pods, budgets, self._does_without)
        gone = _all_sets(len(self._pods))
        gone = gone[self._does(gone)]
        if not gone.shape[0]:
            return None
        violations = self._violations(gone, budgets)
        best = gone[self._cheapest_first(gone, violations)[0]]
        pods = tuple(pod for pod, is_gone in zip(self._pods, best.tolist(), strict=True) if is_gone)
        return Victims(node, pods, len(violating_budgets(pods, budgets)))

    def _does_without(self, gone: Sequence[Pod]) -> bool:
        uids = {pod.uid for pod in gone}
        return bool(self._does(np.array([[pod.uid in uids for pod in self._pods]]))[0])

    def _does(self, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell for each set of pods, a row each, whether the pod would fit on the card without them."""
        used = self._used - gone.astype(np.int64) @ self._amounts
        return self._allocator.fit_alone(self._matrix, np.full(gone.shape[0], self._card), used)

    def _violations(self, gone: NDArray[np.bool_], budgets: Sequence[DisruptionBudget]) -> NDArray[np.int64]:
        """Return how many of each set end against a budget."""
        concerned = [budget for budget in budgets if any(map(budget.covers, self._pods))]
        if not concerned:
            return np.zeros(gone.shape[0], dtype=np.int64)
        sets = ([pod for pod, is_gone in zip(self._pods, row, strict=True) if is_gone] for row in gone.tolist())
        return np.array([len(violating_budgets(pods, concerned)) for pods in sets], dtype=np.int64)

    def _cheapest_first(self, gone: NDArray[np.bool_], violations: NDArray[np.int64]) -> NDArray[np.int64]:
        """Order sets of pods by what they cost, as :attr:`Victims.cost`; of equals the less important pods end."""
        priorities = np.array([pod.priority for pod in self._pods], dtype=np.int64)
        start = np.array([started(pod) for pod in self._pods])
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

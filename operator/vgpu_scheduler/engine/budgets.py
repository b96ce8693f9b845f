"""The known PodDisruptionBudgets, and whether a change of one allows more or fewer disruptions."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.kube import DisruptionBudget, VersionedStore
from vgpu_scheduler.model import ClusterEvent


class DisruptionBudgets:
    """The disruption budgets of all namespaces."""

    def __init__(self) -> None:
        self._store: VersionedStore[str, DisruptionBudget] = VersionedStore()
        self._all: tuple[DisruptionBudget, ...] | None = ()

    def observe(self, budget: DisruptionBudget) -> ClusterEvent:
        """Take in a budget; an older version than the one known is ignored.

        Returns
        -------
        ClusterEvent
            Whether the change allows disruptions that were not allowed before, forbids others, or both.
        """
        before = self._store.get(budget.key)
        if not self._store.put(budget.key, budget):
            return ClusterEvent.NONE
        self._all = None
        if before is None:
            return ClusterEvent.BUDGET_TIGHTENED
        tightened = ClusterEvent.BUDGET_TIGHTENED if _forbids_more(budget, before) else ClusterEvent.NONE
        return tightened | ClusterEvent.BUDGET if _forbids_more(before, budget) else tightened

    def remove(self, budget: DisruptionBudget, version: int | None = None) -> ClusterEvent:
        """Note that a budget is gone, as of a version (by default its own).

        Returns
        -------
        ClusterEvent
            Whether that allows disruptions that were not allowed before.
        """
        gone_at = budget.resource_version if version is None else version
        if not self._store.remove(budget.key, budget.uid, gone_at):
            return ClusterEvent.NONE
        self._all = None
        return ClusterEvent.BUDGET

    @property
    def store(self) -> VersionedStore[str, DisruptionBudget]:
        """The known budgets, by ``namespace/name``."""
        return self._store

    def all(self) -> Sequence[DisruptionBudget]:
        """Return all known budgets, by namespace and name."""
        if self._all is None:
            self._all = tuple(sorted(self._store, key=lambda budget: (budget.namespace, budget.name)))
        return self._all


def _forbids_more(budget: DisruptionBudget, other: DisruptionBudget) -> bool:
    """Tell whether a budget forbids a disruption that another state of it allows."""
    covers_others = budget.selector != other.selector
    return covers_others or budget.allowed < other.allowed or not other.disrupted <= budget.disrupted

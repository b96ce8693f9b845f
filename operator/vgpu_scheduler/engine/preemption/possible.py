"""The possible victims on a node: pods of lower priority, each with the pods that end together with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.victims import Unit, assumed_only, costs_nothing, pods_of, waits_to_be_bound
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.state import State


class PossibleVictims:
    """Tells which pods may be evicted for another one.

    Parameters
    ----------
    state
        The cluster's state.
    budgets
        Returns the disruption budgets.
    may_end
        Tells whether a pod of lower priority may be a victim.
    exceed
        Whether victims may violate their disruption budgets; then terminating pods count as victims, as with
        kube-scheduler.
    disruption
        Tells which pods end together, and by which priority.
    """

    def __init__(
        self,
        state: State,
        budgets: Callable[[], Sequence[DisruptionBudget]],
        may_end: Callable[[Pod], bool],
        disruption: GroupDisruption,
        *,
        exceed: bool,
    ) -> None:
        self._state = state
        self._budgets = budgets
        self._may_end = may_end
        self._disruption = disruption
        self._exceed = exceed
        self._by_namespace: dict[str, list[DisruptionBudget]] | None = None

    def on_node(self, pod: Pod, node: str) -> list[Unit]:
        """Return the pods of a node that may be evicted for another one, each with the pods that end with it."""
        lower, seen = list[Unit](), set[str]()
        for reservation in self._state.reservations(node):
            each = None if reservation.uid in seen else self._state.pod(reservation.uid)
            unit = None if each is None else self._allowed(pod, self._disruption.unit(each))
            if unit is not None:
                lower.append(unit)
                seen.update(one.uid for one in unit)
        return lower

    def left_behind(self, pod: Pod, ending: Iterable[Pod]) -> list[Pod]:
        """Return the other pods of groups that are disrupted as a whole and of which some pods end already."""
        units = (self._allowed(pod, unit) for unit in self._disruption.left_behind(ending))
        return list(pods_of(unit for unit in units if unit is not None))

    def assumed_only(self, units: Iterable[Unit]) -> frozenset[str]:
        """Return the UIDs of those of the pods that are assumed and not bound yet."""
        return assumed_only(self._state, pods_of(units))

    def costing_nothing(self, units: Iterable[Unit]) -> dict[str, Unit]:
        """Return the units that cost nothing, by the UID of the first pod of each.

        Their pods are not bound yet, or are terminating and do not count as victims.
        """
        reservations = ((unit, self._state.reservation(unit[0].uid)) for unit in units)
        is_free = waits_to_be_bound if self._exceed else costs_nothing
        return {unit[0].uid: unit for unit, there in reservations if there is not None and is_free(unit[0], there)}

    def _allowed(self, pod: Pod, unit: Unit) -> Unit | None:
        """Return a unit if each of its pods may be evicted and has lower priority than the given pod; else None."""
        may = all(each.priority < pod.priority and self._may_end(each) for each in unit)
        if not may or self._disruption.is_needed(pod, unit):
            return None
        if self._exceed:
            return unit
        kept = {each.uid for each in unit if not each.deleting and self._has_several_budgets(each)}
        return None if kept and kept - self.assumed_only([unit]) else unit  # assumed pods need no eviction

    def _has_several_budgets(self, pod: Pod) -> bool:
        """Tell whether the API server would refuse to evict a pod because more than one budget selects it."""
        if self._by_namespace is None:
            self._by_namespace = {}
            for budget in self._budgets():
                self._by_namespace.setdefault(budget.namespace, []).append(budget)
        return sum(budget.covers(pod) for budget in self._by_namespace.get(pod.namespace, ())) > 1

"""The pods of one node that would have to end for another one, and what that costs: kube-scheduler's rules.

All of lower priority are taken off first. If the pod fits then, as many as possible are *reprieved*: given their place
back, those whose end would violate a disruption budget first, each of them by importance. Pods of a group that ends
whole are reprieved together, or not at all; what their end costs counts on whichever nodes they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from vgpu_scheduler.engine.equivalence import NodePart, SchedulableClass
from vgpu_scheduler.kernels import LOWEST_PRIORITY
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.policy import EffectivePolicy
from vgpu_scheduler.state import Phase, Reservation, State

__all__ = [
    "GIVEN_UP_AFTER",
    "NOTHING",
    "OVERDUE_AFTER",
    "Cost",
    "Preemptor",
    "ReprieveTarget",
    "Unit",
    "Victims",
    "assumed_only",
    "by_importance",
    "costs_nothing",
    "importance",
    "pods_of",
    "reprieve",
    "started",
    "units_by_importance",
    "waits_to_be_bound",
]

OVERDUE_AFTER: Final = 30.0
"""Seconds after its grace period from which on a victim is overdue."""
GIVEN_UP_AFTER: Final = 120.0
"""Seconds after its grace period from which on nobody waits for a victim any more."""

Cost = tuple[int, int, int, int, float]
"""What victims cost; see :attr:`Victims.cost`."""
NOTHING: Final[Cost] = (0, LOWEST_PRIORITY, 0, 0, -math.inf)
"""What victims cost of which none has to be evicted."""
Unit = tuple[Pod, ...]
"""Pods that end together: one, or all of a group that ends whole.

The most important one is the first; those that only wait to be bound come after all others.
"""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pod that fits nowhere and may have others end.

    Attributes
    ----------
    pod
        The pod, with the priority that counts.
    pod_class
        Its class.
    """

    pod: Pod
    pod_class: SchedulableClass

    @property
    def node(self) -> NodePart:
        """What it asks of single nodes."""
        return self.pod_class.node

    @property
    def policy(self) -> EffectivePolicy:
        """The policy in effect for it."""
        return self.pod_class.claimed.policy


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would have to end so that another one gets a node.

    Attributes
    ----------
    pods
        At least one, the most important first, but that those of a group which ends whole follow each other; these may
        be on other nodes, too.
    violations
        How many of them end against a disruption budget.
    unbound
        The UIDs of those that only wait to be bound: they give their places back, and cost nothing.
    counts_terminating
        Whether those that end already cost what others do, as with kube-scheduler; else they cost nothing.
    """

    node: str
    pods: tuple[Pod, ...]
    violations: int
    unbound: frozenset[str] = frozenset()
    counts_terminating: bool = False

    @property
    def evicted(self) -> list[Pod]:
        """Those that have to be evicted, the most important first."""
        return [pod for pod in self.pods if pod.uid not in self.unbound and not pod.deleting]

    @property
    def counted(self) -> list[Pod]:
        """Those that cost something, the most important first."""
        return [pod for pod in self.pods if pod.uid not in self.unbound] if self.counts_terminating else self.evicted

    @property
    def cost(self) -> Cost:
        """What is compared among nodes, the smallest first.

        Fewest violations; the lowest highest priority; the smallest sum of priorities; fewest pods; the latest start of
        the pods of the highest priority.
        """
        counted = self.counted
        if not counted:
            return NOTHING
        highest = counted[0].priority
        earliest = min(started(pod) for pod in counted if pod.priority == highest)
        total = sum(pod.priority - LOWEST_PRIORITY for pod in counted)
        return self.violations, highest, total, len(counted), -earliest

    @property
    def given_back(self) -> tuple[int, ...]:
        """What is compared where costs are equal: whose places are given back; empty, the least, if nobody's are."""
        priorities = [pod.priority for pod in self.pods if pod.uid in self.unbound]
        if not priorities:
            return ()
        return max(priorities), sum(priority - LOWEST_PRIORITY for priority in priorities), len(priorities)


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by priority, of the same by the time for which they run, the most important first."""
    return sorted(pods, key=importance)


def importance(pod: Pod, priority: int | None = None) -> tuple[int, float, str]:
    """Return what pods are ordered by of which some may have to end, the most important first; all orders agree in it.

    Parameters
    ----------
    priority
        Another priority that counts than its own.
    """
    return -(pod.priority if priority is None else priority), started(pod), pod.key


def units_by_importance(units: Iterable[Unit]) -> list[Unit]:
    """Return what ends together by the most important pod of each, the most important first."""
    return sorted(units, key=lambda unit: importance(unit[0]))


def pods_of(units: Iterable[Unit]) -> tuple[Pod, ...]:
    """Return the pods of what ends together, in the same order."""
    return tuple(chain.from_iterable(units))


class ReprieveTarget(Protocol):
    """A node, or a card, from which some pods are gone, for a pod that is to fit there."""

    def put_back(self, unit: Unit) -> bool:
        """Put one, or several, back; tell whether the other pod fits still. If it does not, these are gone again."""


def reprieve(
    node: str,
    lower: Iterable[Unit],
    budgets: Sequence[DisruptionBudget],
    room: ReprieveTarget,
    rounds: Mapping[str, int] | None = None,
    unbound: Collection[str] = (),
    *,
    counts_terminating: bool = False,
) -> Victims | None:
    """Return the victims of a node on which a pod fits once all of lower priority are gone; None if none need go.

    Parameters
    ----------
    lower
        The pods that may end.
    room
        The node without all of them.
    rounds
        In which round pods are given back, by the UID of the first that ends with each, those first that are not named;
        in each as is said above.
    unbound
        The UIDs of those that only wait to be bound: they are the last in their round, and violate no budget.
    counts_terminating
        Whether those that end already are treated as all others, as by kube-scheduler; else they are the last before
        those that wait to be bound, and violate no budget.
    """
    gone, rounds = units_by_importance(lower), rounds or {}
    ending = {pod.uid for pod in pods_of(gone) if pod.deleting and not counts_terminating}
    counted = (pod for pod in pods_of(gone) if pod.uid not in unbound and pod.uid not in ending)
    violating = {pod.uid for pod in violating_budgets(counted, budgets)}
    in_order = sorted(
        gone,
        key=lambda unit: (
            rounds.get(unit[0].uid, 0),
            unit[0].uid in unbound,
            unit[0].uid in ending,
            all(pod.uid not in violating for pod in unit),
        ),
    )
    left = [unit for unit in in_order if not room.put_back(unit)]
    if not left:
        return None
    victims = pods_of(units_by_importance(left))
    violations = sum(pod.uid in violating for pod in victims)
    waiting = frozenset(pod.uid for pod in victims if pod.uid in unbound)
    return Victims(node, victims, violations, waiting, counts_terminating)


def waits_to_be_bound(pod: Pod, held: Reservation) -> bool:
    """Tell whether a pod that holds something was placed here and is not bound yet, as far as is known."""
    return held.phase is Phase.ASSUMED and not pod.node_name


def assumed_only(state: State, pods: Iterable[Pod]) -> frozenset[str]:
    """Return which of some pods only wait to be bound, by UID."""
    there = ((pod, state.reservation(pod.uid)) for pod in pods)
    return frozenset(pod.uid for pod, held in there if held is not None and waits_to_be_bound(pod, held))


def costs_nothing(pod: Pod, held: Reservation) -> bool:
    """Tell whether nobody has to evict a pod so that it leaves: it ends already, or only waits to be bound."""
    return pod.deleting or waits_to_be_bound(pod, held)


def started(pod: Pod) -> float:
    """Return when a pod was started; one that was not is younger than all that were."""
    return math.inf if pod.start_time is None else pod.start_time

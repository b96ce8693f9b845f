"""The victims on one node that make room for a pod, and what they cost, by kube-scheduler's rules.

First all pods of lower priority are removed. If the pod then fits, as many of them as possible are *reprieved* (put
back): those whose eviction would violate a disruption budget first, then by importance. Pods of a group that is
disrupted as a whole are reprieved together or not at all; their cost counts whichever nodes they are on.
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

OVERDUE_AFTER: Final = 30.0
"""A victim is overdue when it has not ended so many seconds after its grace period."""
GIVEN_UP_AFTER: Final = 120.0
"""A victim is not waited for any more when it has not ended so many seconds after its grace period."""

_BY_PREEMPTION: Final = frozenset(("PreemptionByScheduler", "EvictionByEvictionAPI"))
"""The reasons in the disruption condition of pods that were chosen as victims."""

Cost = tuple[int, int, int, int, float]
"""The cost of victims; see :attr:`Victims.cost`."""
NOTHING: Final[Cost] = (0, LOWEST_PRIORITY, 0, 0, -math.inf)
"""The cost of victims none of which has to be evicted."""
Unit = tuple[Pod, ...]
"""Pods that end together: one pod, or all pods of a group that is disrupted as a whole.

The most important pod is the first; assumed pods that are not bound yet come after all others.
"""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pod that fits nowhere and may preempt others.

    Attributes
    ----------
    pod
        The pod, with the priority that counts for preemption.
    pod_class
        Its class.
    """

    pod: Pod
    pod_class: SchedulableClass

    @property
    def node(self) -> NodePart:
        """The node part of its class."""
        return self.pod_class.node

    @property
    def policy(self) -> EffectivePolicy:
        """The policy in effect for it."""
        return self.pod_class.claimed.policy


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would have to end so that another pod gets a node.

    Attributes
    ----------
    pods
        At least one, the most important first; pods of one unit follow each other, and may be on other nodes, too.
    violations
        How many of them violate a disruption budget.
    unbound
        The UIDs of assumed pods that are not bound yet: they give their places back, and cost nothing.
    counts_terminating
        Whether terminating pods cost as much as others, as with kube-scheduler; else they cost nothing.
    """

    node: str
    pods: tuple[Pod, ...]
    violations: int
    unbound: frozenset[str] = frozenset()
    counts_terminating: bool = False

    @property
    def evicted(self) -> list[Pod]:
        """The pods that have to be evicted, the most important first."""
        return [pod for pod in self.pods if pod.uid not in self.unbound and not pod.deleting]

    @property
    def counted(self) -> list[Pod]:
        """The pods that cost something, the most important first."""
        return [pod for pod in self.pods if pod.uid not in self.unbound] if self.counts_terminating else self.evicted

    @property
    def cost(self) -> Cost:
        """The cost by which nodes are compared; the smallest wins.

        Fewest violations; the lowest highest priority; the smallest sum of priorities; fewest pods; the latest start
        among the pods of the highest priority.
        """
        counted = self.counted
        if not counted:
            return NOTHING
        highest = counted[0].priority
        earliest = min(started(pod) for pod in counted if pod.priority == highest)
        total = sum(pod.priority - LOWEST_PRIORITY for pod in counted)
        return self.violations, highest, total, len(counted), -earliest

    @property
    def unbound_cost(self) -> tuple[int, ...]:
        """The tie-breaker for equal costs: highest priority, sum and number of unbound pods; empty if none."""
        priorities = [pod.priority for pod in self.pods if pod.uid in self.unbound]
        if not priorities:
            return ()
        return max(priorities), sum(priority - LOWEST_PRIORITY for priority in priorities), len(priorities)


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by importance, the most important first: by priority, then by how long they have run."""
    return sorted(pods, key=importance)


def importance(pod: Pod, priority: int | None = None) -> tuple[int, float, str]:
    """Return the sort key of a pod's importance, the most important first. All orders of possible victims use it.

    Parameters
    ----------
    priority
        A priority to use instead of the pod's own.
    """
    return -(pod.priority if priority is None else priority), started(pod), pod.key


def units_by_importance(units: Iterable[Unit]) -> list[Unit]:
    """Return units by the importance of their most important pods, the most important first."""
    return sorted(units, key=lambda unit: importance(unit[0]))


def pods_of(units: Iterable[Unit]) -> tuple[Pod, ...]:
    """Return the pods of units, in the same order."""
    return tuple(chain.from_iterable(units))


class ReprieveTarget(Protocol):
    """A node, or a card, without some pods; another pod is to fit there."""

    def put_back(self, unit: Unit) -> bool:
        """Put the pods of a unit back if the other pod still fits; return whether it does."""


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
    """Return the victims on a node where a pod fits without all ``lower`` pods; None if all can be reprieved.

    Parameters
    ----------
    lower
        The units that may be evicted.
    room
        The node without all of them.
    rounds
        In which round a unit is reprieved, by the UID of its first pod; 0 by default, and low rounds come first. Within
        a round, the order is that of the module's description.
    unbound
        The UIDs of assumed pods that are not bound yet: they come last in their round, and violate no budget.
    counts_terminating
        Whether terminating pods are treated as all others, as by kube-scheduler; else they come last but for unbound
        pods, and violate no budget.
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


def waits_to_be_bound(pod: Pod, reservation: Reservation) -> bool:
    """Tell whether a pod with a reservation was assumed and is not known to be bound."""
    return reservation.phase is Phase.ASSUMED and not pod.node_name


def assumed_only(state: State, pods: Iterable[Pod]) -> frozenset[str]:
    """Return the UIDs of those of the pods that are assumed and not bound yet."""
    there = ((pod, state.reservation(pod.uid)) for pod in pods)
    return frozenset(
        pod.uid for pod, reservation in there if reservation is not None and waits_to_be_bound(pod, reservation)
    )


def costs_nothing(pod: Pod, reservation: Reservation) -> bool:
    """Tell whether a pod leaves without eviction: it is terminating, or assumed and not bound yet."""
    return pod.deleting or waits_to_be_bound(pod, reservation)


def without_start(cost: Cost) -> Cost:
    """Return a lower bound of all costs that differ from one in the start of the youngest victim alone."""
    return (*cost[:4], -math.inf)


def has_to_be_evicted(pod: Pod | None, reservation: Reservation | None) -> bool:
    """Tell whether a victim leaves only if it is evicted; not if it is gone."""
    return pod is not None and reservation is not None and not costs_nothing(pod, reservation)


def ends_by_preemption(pod: Pod) -> bool:
    """Tell whether a pod is terminating as a victim of preemption; evictions by drains look the same."""
    return pod.deleting and pod.disruption in _BY_PREEMPTION


def started(pod: Pod) -> float:
    """Return when a pod was started; infinity, as the youngest, for a pod that was not."""
    return math.inf if pod.start_time is None else pod.start_time

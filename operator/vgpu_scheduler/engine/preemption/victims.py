"""The pods of one node that would have to end for another one, and what that costs: kube-scheduler's rules.

All of lower priority are taken off first. If the pod fits then, as many as possible are *reprieved*: given their place
back, those whose end would violate a disruption budget first, each of them by importance.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart
from vgpu_scheduler.kube import DisruptionBudget, Pod, violating_budgets
from vgpu_scheduler.state import Phase, Reservation

__all__ = [
    "MIN_PRIORITY",
    "NOTHING",
    "Cost",
    "Preemptor",
    "Room",
    "Victims",
    "by_importance",
    "reprieve",
    "started",
    "waits_to_be_bound",
]

MIN_PRIORITY: Final = -(2**31)
"""The lowest priority that there is; sums of priorities count from it, so that fewer victims cost less."""


Cost = tuple[int, int, int, int, float]
"""What victims cost; see :attr:`Victims.cost`."""
NOTHING: Final[Cost] = (0, MIN_PRIORITY, 0, 0, -math.inf)
"""What victims cost that only wait to be bound."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pod that fits nowhere and may have others end, with the filters of its class.

    Attributes
    ----------
    pod
        The pod.
    node, cluster
        What it asks of single nodes, and of more than one.
    limited
        Whether quotas of its namespace may keep it from some card.
    """

    pod: Pod
    node: NodePart
    cluster: ClusterPart | None
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods of a node that would have to end.

    Attributes
    ----------
    pods
        At least one, the most important first.
    violations
        How many of them end against a disruption budget.
    unbound
        The UIDs of those that only wait to be bound: they give their places back, and cost nothing.
    """

    node: str
    pods: tuple[Pod, ...]
    violations: int
    unbound: frozenset[str] = frozenset()

    @property
    def ending(self) -> list[Pod]:
        """Those that have to end, the most important first; the others only wait to be bound."""
        return [pod for pod in self.pods if pod.uid not in self.unbound]

    @property
    def cost(self) -> Cost:
        """What is compared among nodes, the smallest first.

        Fewest violations; the lowest highest priority; the smallest sum of priorities; fewest pods; the latest start of
        the pods of the highest priority.
        """
        ending = self.ending
        if not ending:
            return NOTHING
        highest = ending[0].priority
        earliest = min(started(pod) for pod in ending if pod.priority == highest)
        total = sum(pod.priority - MIN_PRIORITY for pod in ending)
        return self.violations, highest, total, len(ending), -earliest

    @property
    def given_back(self) -> tuple[int, ...]:
        """What is compared where costs are equal: whose places are given back; empty, the least, if nobody's are."""
        priorities = [pod.priority for pod in self.pods if pod.uid in self.unbound]
        if not priorities:
            return ()
        return priorities[0], sum(priority - MIN_PRIORITY for priority in priorities), len(priorities)


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by priority, of the same by the time for which they run, the most important first."""
    return sorted(pods, key=lambda pod: (-pod.priority, started(pod), pod.key))


class Room(Protocol):
    """A node, or a card, from which some pods are gone, for a pod that is to fit there."""

    def put_back(self, pod: Pod) -> bool:
        """Put one of them back; tell whether the other pod fits still. If it does not, the one is gone again."""


def reprieve(
    node: str,
    lower: Iterable[Pod],
    budgets: Sequence[DisruptionBudget],
    room: Room,
    turns: Mapping[str, int] | None = None,
    unbound: Collection[str] = (),
) -> Victims | None:
    """Return the victims of a node on which a pod fits once all of lower priority are gone; None if none need go.

    Parameters
    ----------
    lower
        The pods that may end.
    room
        The node without all of them.
    turns
        In which turn pods are given back, by UID, those first that are not named; in each as is said above.
    unbound
        The UIDs of those that only wait to be bound: they are the last in their turn, and violate no budget.
    """
    gone = by_importance(lower)
    violating = {pod.uid for pod in violating_budgets((pod for pod in gone if pod.uid not in unbound), budgets)}
    in_turn = sorted(
        gone, key=lambda pod: ((turns or {}).get(pod.uid, 0), pod.uid in unbound, pod.uid not in violating)
    )
    victims = [pod for pod in in_turn if not room.put_back(pod)]
    if not victims:
        return None
    violations = sum(pod.uid in violating for pod in victims)
    waiting = frozenset(pod.uid for pod in victims if pod.uid in unbound)
    return Victims(node, tuple(by_importance(victims)), violations, waiting)


def waits_to_be_bound(pod: Pod, held: Reservation) -> bool:
    """Tell whether a pod that holds something was placed here and is not bound yet, as far as is known."""
    return held.phase is Phase.ASSUMED and not pod.node_name


def started(pod: Pod) -> float:
    """Return when a pod was started; one that was not is younger than all that were."""
    return math.inf if pod.start_time is None else pod.start_time

"""The nodes that a pod could get by having others end, and which of them costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from vgpu_scheduler.engine.preemption.victims import NOTHING, Cost, Victims
from vgpu_scheduler.kube import DisruptionBudget, violating_budgets
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.predicates import Reason, Rejection

__all__ = ["MOST_CANDIDATES", "NOT_HELPFUL", "NO_VICTIMS_THERE", "CandidateComparison", "Candidates", "CheapestVictims"]

_PLUGIN: Final = ""
_NO_VICTIMS: Final = Reason(
    _PLUGIN, "No preemption victims found for incoming pod", ClusterEvent.NONE, resolvable=False
)
_PROTECTED: Final = Reason(_PLUGIN, "PodDisruptionBudgets protect the victims", ClusterEvent.NONE, resolvable=False)
NOT_HELPFUL: Final = Reason(_PLUGIN, "Preemption is not helpful for scheduling", ClusterEvent.NONE, resolvable=False)

NO_VICTIMS_THERE: Final = Rejection((_NO_VICTIMS,), resolvable=False)
_PROTECTED_NODE: Final = Rejection((_PROTECTED,), resolvable=False)
MOST_CANDIDATES: Final = 16
"""How many candidates are compared at most, once there is one among them that violates no budget."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a search found.

    Attributes
    ----------
    victims
        By the name of each node that the pod could get.
    rejections
        Why it could not get other nodes that were tried, by name.
    """

    victims: Mapping[str, Victims]
    rejections: Mapping[str, Rejection]

    @property
    def best(self) -> list[Victims]:
        """The candidates that cost least, by name of the node; empty if there are none."""
        if not self.victims:
            return []
        least = min(found.cost for found in self.victims.values())
        return [found for _, found in sorted(self.victims.items()) if found.cost == least]


class CheapestVictims(NamedTuple):
    """What a search for the cheapest victims found.

    Attributes
    ----------
    victims
        None if nobody's end helps.
    compared
        What was found on the nodes that were looked at: none of the others costs less.
    over_limit
        The cheapest of those that are more pods than may be evicted now.
    """

    victims: Victims | None
    compared: Candidates
    over_limit: Victims | None = None


class CandidateComparison:
    """The cheapest victims so far."""

    def __init__(
        self,
        budgets: Sequence[DisruptionBudget],
        within_limits: Callable[[Victims], bool],
        *,
        exceed: bool,
    ) -> None:
        self._budgets = budgets
        self._within_limits = within_limits
        self._exceed = exceed
        self._over_limit: Victims | None = None
        self._cheapest: Victims | None = None
        self._victims: dict[str, Victims] = {}
        self._rejections: dict[str, Rejection] = {}

    def is_beaten(self, least: Cost, node: str) -> bool:
        """Tell whether victims on a node that cost at least so much are no better than what was found."""
        return self._cheapest is not None and (least, (), node) >= _rank(self._cheapest)

    def take(self, node: str, found: Victims | Rejection | None) -> None:
        """Take in what was found on a node."""
        if not isinstance(found, Victims):
            if found is not None:
                self._rejections[node] = found
            return
        if found.violations and not self._exceed:
            # The number is that of kube-scheduler, which counts those who stay, too. The API server counts who ends.
            if violating_budgets(found.evicted, self._budgets):
                self._rejections[node] = _PROTECTED_NODE
                return
            found = replace(found, violations=0)
        if not self._within_limits(found):
            if self._over_limit is None or found.cost < self._over_limit.cost:
                self._over_limit = found
            return
        self._victims[node] = found
        if self._cheapest is None or _rank(found) < _rank(self._cheapest):
            self._cheapest = found

    @property
    def cost_nothing(self) -> bool:
        """Whether the cheapest victims cost nothing."""
        return self._cheapest is not None and self._cheapest.cost == NOTHING

    @property
    def enough(self) -> bool:
        """Whether as many candidates were found as are compared; as long as each violates a budget, none are enough."""
        keeps_budgets = self._cheapest is not None and not self._cheapest.violations
        return keeps_budgets and len(self._victims) >= MOST_CANDIDATES

    def best(self) -> CheapestVictims:
        """Return the cheapest victims."""
        return CheapestVictims(self._cheapest, Candidates(self._victims, self._rejections), self._over_limit)


def _rank(found: Victims) -> tuple[Cost, tuple[int, ...], str]:
    """Return by what victims on different nodes are compared."""
    return found.cost, found.given_back, found.node

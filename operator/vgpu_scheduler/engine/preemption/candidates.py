"""The nodes that a pod could get by preemption, and which of them costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from vgpu_scheduler.engine.preemption.victims import NOTHING, Cost, Victims
from vgpu_scheduler.kube import DisruptionBudget, violating_budgets
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.predicates import Reason, Rejection

_PLUGIN: Final = ""
_NO_VICTIMS: Final = Reason(
    _PLUGIN, "No preemption victims found for incoming pod", ClusterEvent.NONE, resolvable=False
)
_PROTECTED: Final = Reason(_PLUGIN, "PodDisruptionBudgets protect the victims", ClusterEvent.NONE, resolvable=False)
NOT_HELPFUL: Final = Reason(_PLUGIN, "Preemption is not helpful for scheduling", ClusterEvent.NONE, resolvable=False)

NO_VICTIMS_THERE: Final = Rejection((_NO_VICTIMS,), resolvable=False)
_PROTECTED_NODE: Final = Rejection((_PROTECTED,), resolvable=False)
MOST_CANDIDATES: Final = 16
"""Maximum number of candidates that are compared, once one of them violates no budget."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The result of a search.

    Attributes
    ----------
    victims
        By name of the candidate node.
    rejections
        Why other nodes that were tried are no candidates, by name.
    is_complete
        Whether no other node can cost less; False if so many were compared that the search stopped.
    """

    victims: Mapping[str, Victims]
    rejections: Mapping[str, Rejection]
    is_complete: bool = True

    @property
    def best(self) -> list[Victims]:
        """The candidates of least cost, by node name; empty if there are none."""
        if not self.victims:
            return []
        least = min(found.cost for found in self.victims.values())
        return [found for _, found in sorted(self.victims.items()) if found.cost == least]


class CheapestVictims(NamedTuple):
    """The result of a search for the cheapest victims.

    Attributes
    ----------
    victims
        None if no victims help.
    compared
        The nodes that were tried.
    over_limit
        The cheapest victims that are more than may be evicted now.
    """

    victims: Victims | None
    compared: Candidates
    over_limit: Victims | None = None


class CandidateComparison:
    """The cheapest victims so far.

    Attributes
    ----------
    is_complete
        Whether no node was left out that may cost less.
    """

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
        self.is_complete = True

    def is_beaten(self, least: Cost, node: str) -> bool:
        """Tell whether a node whose victims cost at least ``least`` cannot beat the best so far."""
        return self._cheapest is not None and (least, (), node) >= _rank(self._cheapest)

    def take(self, node: str, found: Victims | Rejection | None) -> None:
        """Take in the result for a node."""
        if not isinstance(found, Victims):
            if found is not None:
                self._rejections[node] = found
            return
        if found.violations and not self._exceed:
            # kube-scheduler's number, which counts reprieved pods, too. The API server counts only evicted ones.
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
        """Whether enough candidates were compared; never as long as each of them violates a budget."""
        keeps_budgets = self._cheapest is not None and not self._cheapest.violations
        return keeps_budgets and len(self._victims) >= MOST_CANDIDATES

    def best(self) -> CheapestVictims:
        """Return the cheapest victims."""
        return CheapestVictims(
            self._cheapest, Candidates(self._victims, self._rejections, self.is_complete), self._over_limit
        )


def _rank(found: Victims) -> tuple[Cost, tuple[int, ...], str]:
    """Return the sort key of victims on different nodes."""
    return found.cost, found.unbound_cost, found.node

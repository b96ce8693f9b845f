"""How a policy has the cards of a node chosen: which may be used at all, and in which order they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.model import MUTEX, OrderKind, names_model, policy_words
from vgpu_scheduler.state import PeerCards


class Strategy(Enum):
    """Koordinator's scoring strategies."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


Weights = tuple[tuple[str, int], ...]
"""Resource names with their weights, sorted by name: a mapping that can be compared and hashed."""


@dataclass(frozen=True, slots=True)
class ShareOrder:
    """Cards in the order of Koordinator's device score: the highest first, then the lowest index (D4)."""

    strategy: Strategy
    weights: Weights


@dataclass(frozen=True, slots=True)
class CardLimits:
    """What policies forbid, over and above the pod's own rules.

    Attributes
    ----------
    allow
        One list per policy that sets one; a card's model must contain an entry of *each*, case ignored.
    deny
        Parts of model names that no card may contain, case ignored.
    modes
        One list per policy that sets one; a card's mode must be in each, unless it has none.
    most_memory
        The largest memory that a card may have, in the unit of the dialect's memory dimension, or None: pods that ask
        for a percentage would get more of a larger one than they are allowed.
    exclusive
        Only cards that one tenant can have to itself.
    """

    allow: tuple[tuple[str, ...], ...] = ()
    deny: tuple[str, ...] = ()
    modes: tuple[tuple[str, ...], ...] = ()
    most_memory: int | None = None
    exclusive: bool = False

    @property
    def none(self) -> bool:
        """Whether every card may be used."""
        return self == _NO_LIMITS

    def allows_model(self, model: str, mode: str) -> bool:
        """Tell whether cards of a model and mode may be used."""
        if any(names_model(part, model) for part in self.deny):
            return False
        if not all(any(names_model(part, model) for part in parts) for parts in self.allow):
            return False
        return not mode or all(mode in modes for modes in self.modes)


_NO_LIMITS = CardLimits()


@dataclass(frozen=True, slots=True)
class QuotaRemainder:
    """What the quotas of a namespace leave to one pod.

    Attributes
    ----------
    vendor, dimension
        Whose devices, and which amount of them.
    remaining
        How much of it the pod may hold in all; less than 0 where the namespace holds more than it may already.
    """

    vendor: str
    dimension: int
    remaining: int


QuotaRemainders = tuple[QuotaRemainder, ...]
"""Sorted; only those that the pod could exceed, so that pods far from any limit have none and are alike."""


@dataclass(frozen=True, slots=True)
class CardChoice:
    """What is in force for the cards of one pod.

    Attributes
    ----------
    policy
        HAMi's words (``binpack``, ``spread``, ``mutex``, ``numa``, a list of them), or ``bestFit``.
    order
        Which generation orders ``binpack`` and ``spread``.
    weights
        Of slots, memory and cores in HAMi's card score.
    device_share_order
        Order the cards by Koordinator's score instead; ``policy`` then says nothing.
    best_fit
        Order the cards as ``bestFit`` does where the dialect knows that; ``policy`` then says nothing.
    topology
        Several cards of a container as close to each other as possible, and single ones where they are least missed,
        whatever the order is.
    numa_bind
        All cards of a container on one NUMA node, whatever the pod says.
    idle_only
        Only cards that nobody uses.
    limits
        What policies forbid.
    remainders
        What quotas leave to the pod.
    peer_cards
        The cards of pods that it shares no card with.
    """

    policy: str = "spread"
    order: OrderKind = OrderKind.NUMA_FIRST
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    device_share_order: ShareOrder | None = None
    best_fit: bool = False
    topology: bool = False
    numa_bind: bool = False
    idle_only: bool = False

    @property
    def takes_idle_cards(self) -> bool:
        """Whether cards that are in use are left out, by this or by the order."""
        return self.idle_only or (not self.best_fit and MUTEX in policy_words(self.policy))

    limits: CardLimits = _NO_LIMITS
    remainders: QuotaRemainders = ()
    peer_cards: tuple[PeerCards, ...] = ()

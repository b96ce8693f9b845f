"""How policies restrict and order the cards of a node for one pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import MUTEX, OrderKind, names_model, policy_words
from vgpu_scheduler.state import DeviceMatrix, PeerCards


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
    """Limits on cards that policies set, in addition to the pod's own rules.

    Attributes
    ----------
    allow
        One list per policy that sets one; a card's model name must contain an entry of *each*, ignoring case.
    deny
        Substrings that a card's model name must not contain, ignoring case.
    modes
        One list per policy that sets one; a card's mode must be in each, unless it has no mode.
    most_memory
        The largest memory that a card may have, in the unit of the dialect's memory dimension, or None. It limits what
        pods that ask for a percentage of memory get.
    exclusive
        Only cards that one pod can have exclusively.
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

    def denied(
        self, devices: DeviceMatrix, memory: int, has_modes: Callable[[str], bool], whole: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Tell which cards may not be used, shape (D,).

        Parameters
        ----------
        memory
            The dimension of memory.
        has_modes
            Tells whether the cards of a vendor have modes that limits are about.
        whole
            Whether one pod can have the card exclusively, shape (D,).
        """
        allowed = [
            self.allows_model(model, mode if has_modes(vendor) else "") for vendor, model, mode in devices.models
        ]
        denied: NDArray[np.bool_] = ~np.array(allowed or [True], dtype=np.bool_)[devices.columns.model]
        if self.most_memory is not None:
            denied |= devices.columns.total[:, memory] > self.most_memory
        return denied | ~whole if self.exclusive else denied


_NO_LIMITS = CardLimits()


@dataclass(frozen=True, slots=True)
class QuotaRemainder:
    """What the quotas of a namespace leave to one pod.

    Attributes
    ----------
    vendor, dimension
        The vendor of the devices, and the limited dimension.
    remaining
        How much of it the pod may hold in total; negative if the namespace exceeds its quota already.
    """

    vendor: str
    dimension: int
    remaining: int


QuotaRemainders = tuple[QuotaRemainder, ...]
"""Sorted; only quotas that the pod could exceed, so that pods far from any limit share an equivalence class."""


@dataclass(frozen=True, slots=True)
class CardChoice:
    """The effective rules for choosing the cards of one pod.

    Attributes
    ----------
    policy
        HAMi's words (``binpack``, ``spread``, ``mutex``, ``numa``, a list of them), or ``bestFit``.
    order
        The generation of orders for ``binpack`` and ``spread``.
    weights
        Weights of slots, memory and cores in HAMi's card score.
    device_share_order
        Order the cards by Koordinator's score; ``policy`` is then ignored.
    best_fit
        Order the cards as ``bestFit`` does, if the dialect supports it; ``policy`` is then ignored.
    topology
        Choose several cards of a container as close to each other as possible, and a single card with the weakest
        links, whatever the order is.
    numa_bind
        All cards of a container must be on one NUMA node, whatever the pod asks for.
    idle_only
        Only unused cards.
    limits
        Limits on cards that policies set.
    remainders
        What quotas leave to the pod.
    peer_cards
        The cards of the pod's peers, with which it shares no card.
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
        """Whether only unused cards are taken, by ``idle_only`` or by the order."""
        return self.idle_only or (not self.best_fit and MUTEX in policy_words(self.policy))

    limits: CardLimits = _NO_LIMITS
    remainders: QuotaRemainders = ()
    peer_cards: tuple[PeerCards, ...] = ()

"""HAMi's node score: the load of the node before the pod is placed (D0-25 to D0-36)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class NodePolicy(Enum):
    """Which end of the scores wins."""

    BINPACK = "binpack"
    SPREAD = "spread"


class Scorer(Protocol):
    """What the engine needs of a scorer: whose score it takes and in which direction."""

    @property
    def sign(self) -> float:
        """+1 when the highest score wins, -1 when the lowest does."""


@dataclass(frozen=True, slots=True)
class HamiScorer:
    """10 x (shares used / shares + cores used / cores + memory used / memory), over all cards of the node.

    The score itself comes from the fit kernel, which has the node's cards at hand; this value says which end wins.
    """

    policy: NodePolicy = NodePolicy.BINPACK

    @property
    def sign(self) -> float:
        """+1: binpack takes the fullest node; -1: spread takes the emptiest."""
        return -1.0 if self.policy is NodePolicy.SPREAD else 1.0

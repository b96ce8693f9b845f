"""The words for the order in which the cards of a node are tried."""

from __future__ import annotations

from enum import Enum


class OrderKind(Enum):
    """Which generation of card orders is in force."""

    NUMA_FIRST = "NUMAFirst"
    SCORE_FIRST = "ScoreFirst"


BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY = "binpack", "spread", "numa", "mutex", "topology-aware"
DEVICE_POLICIES = frozenset({BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY})
"""HAMi's words, which annotations may use."""
BEST_FIT = "bestFit"
"""A word of policies only, and only alone."""


def policy_words(policy: str) -> tuple[str, ...]:
    """Split a policy value into its words."""
    return tuple(word.strip() for word in policy.split(","))

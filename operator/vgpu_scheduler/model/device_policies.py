"""The policy words that order cards, and the generations of card orders."""

from __future__ import annotations

from enum import Enum


class OrderKind(Enum):
    """A generation of card orders."""

    NUMA_FIRST = "NUMAFirst"
    SCORE_FIRST = "ScoreFirst"


class Profile(Enum):
    """A set of defaults."""

    DOCUMENTED = "Documented"
    """The documented behaviour: cards by NUMA node first."""
    HAMI210 = "HAMi210"
    """The behaviour of HAMi 2.10: cards by score first, whole cards exclusively."""

    @property
    def order(self) -> OrderKind:
        """The default card order."""
        return OrderKind.SCORE_FIRST if self is Profile.HAMI210 else OrderKind.NUMA_FIRST


BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY = "binpack", "spread", "numa", "mutex", "topology-aware"
DEVICE_POLICIES = (BINPACK, SPREAD, MUTEX, NUMA, TOPOLOGY)
"""HAMi's words, which annotations may use and combine."""
BEST_FIT = "bestFit"
"""A word that only policies may use, and only alone."""


def policy_words(policy: str) -> tuple[str, ...]:
    """Split a policy value into its words."""
    return tuple(word.strip() for word in policy.split(","))


def check_device_policy(policy: str) -> None:
    """Check that a device policy consists of HAMi's words, without repeats.

    Raises
    ------
    ValueError
        If it does not; the message names the word.
    """
    words = policy_words(policy)
    unknown = [word for word in words if word not in DEVICE_POLICIES]
    if unknown:
        raise ValueError(f"{', '.join(map(repr, unknown))} is not one of {', '.join(sorted(DEVICE_POLICIES))}")
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is listed twice")

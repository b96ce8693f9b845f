"""What the cards of a vendor are held against, and how those of a claim are chosen.

Kernels see plain numbers: each takes the flags that it looks at as ``int(Check.…)``.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto


class Check(IntFlag):
    """Checks of a card, beside health, cordon, model, UUID and policy, which all cards have; and their units."""

    NUMA = auto()
    """The pod's wish for one NUMA node holds."""
    SLOTS = auto()
    """No more occupants than the card takes."""
    IDLE = auto()
    """Nobody uses the card."""
    MEMORY = auto()
    """The memory that is left suffices."""
    CORES = auto()
    """The compute that is left suffices."""
    EXCLUSIVE = auto()
    """A claim of all the compute takes a card that nobody uses."""
    COMPUTE = auto()
    """A claim of no compute takes a card that has some left."""
    IDLE_GROUP = auto()
    """Where only idle cards are wanted, the other cards of their group are idle, too."""
    MODE = auto()
    """The vendor's cards of the node are in the claim's mode."""
    CLASSES = auto()
    """Occupants of an application class and occupants without one share no card."""
    QUALITY = auto()
    """A card that others use gives the quality of service that the claim asks for."""
    SAME_CARDS = auto()
    """Containers that run beside each other get the same card."""
    EQUAL_SHARES = auto()
    """The occupants of a card have as much memory as the claim asks for, each."""
    ONE_PIECE = auto()
    """A card gives out one piece per claim, which has the compute and exactly the shares that are asked for."""
    PERCENT = auto()
    """Compute is asked for in percent of a card, whatever the card counts it in."""
    UNITS = auto()
    """Cards count compute in units of their own, of which claims and quotas name a percentage."""


class Selection(IntEnum):
    """How the cards of a claim are chosen among those that pass; each is a file of :mod:`kernels.choose`."""

    FIRST = 0
    """The first ones."""
    LINKED = 1
    """Several by the sum of their pair scores, a single one where it is least missed: HAMi's ``topology-aware``."""
    GROUPED = 2
    """From the group of which most pass, then from the next."""
    PAIRS = 3
    """Whole modules of two."""
    RUN = 4
    """Neighbours: anywhere in a group, or 4, 8 or 16 ungrouped cards in their place."""
    HALVES = 5
    """By the two halves of a server, whose cards are linked place by place; for 1, 2, 4 or 8 cards."""
    CONTENTION = 6
    """Where the occupants of the card leave most to one that must answer at once."""
    ZONE = 7
    """From the smallest link zone that has enough."""

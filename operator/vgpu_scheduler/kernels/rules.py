"""Which checks apply to a vendor's cards, and how the cards of a claim are chosen.

Kernels use plain numbers: each module takes the flags that it needs as ``int(Check.…)``.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto


class Check(IntFlag):
    """Checks of a card besides those of all cards (health, cordon, model, UUID, policy), and units of compute."""

    NUMA = auto()
    """A pod's request for cards of one NUMA node is honoured."""
    SLOTS = auto()
    """The card has a free slot."""
    IDLE = auto()
    """The card is unused."""
    MEMORY = auto()
    """The free memory suffices."""
    CORES = auto()
    """The free compute suffices."""
    EXCLUSIVE = auto()
    """A claim of all compute takes an unused card."""
    COMPUTE = auto()
    """A claim of no compute takes a card with free compute."""
    IDLE_GROUP = auto()
    """If only idle cards are wanted, the other cards of their group must be idle, too."""
    MODE = auto()
    """The vendor's cards on the node are in the claim's mode."""
    CLASSES = auto()
    """Occupants of an application class and occupants without one share no card."""
    QUALITY = auto()
    """A card in use has the quality of service that the claim asks for."""
    SAME_CARDS = auto()
    """Containers that run at the same time get the same card."""
    EQUAL_SHARES = auto()
    """Each occupant of a card has as much memory as the claim asks for."""
    ONE_PIECE = auto()
    """A claim gets one piece of a card, with at least the compute and exactly the slots that it asks for."""
    PERCENT = auto()
    """Claims ask for compute in percent of a card, whatever unit the card uses."""
    UNITS = auto()
    """Cards count compute in their own units; claims and quotas are percentages of these."""


class Selection(IntEnum):
    """How the cards of a claim are chosen among the candidates; each way is a file of :mod:`kernels.choose`."""

    FIRST = 0
    """The first ones."""
    LINKED = 1
    """HAMi's ``topology-aware``: several cards by the highest sum of pair scores, a single card by the lowest."""
    GROUPED = 2
    """From the group with the most candidates, then from the next."""
    PAIRS = 3
    """Whole modules of two."""
    RUN = 4
    """Consecutive cards: anywhere in a group, or aligned runs of 4, 8 or 16 ungrouped cards."""
    HALVES = 5
    """1, 2, 4 or 8 cards by the two halves of a server, whose cards at the same position are linked."""
    CONTENTION = 6
    """Cards whose occupants cause the least contention for an online pod."""
    ZONE = 7
    """From the smallest link zone with enough candidates."""

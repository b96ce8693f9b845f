"""Which checks the cards of a maker must pass, and how several of them are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from vgpu_scheduler.kernels import (
    CHECK_CLASS,
    CHECK_COMPUTE,
    CHECK_CORES,
    CHECK_EXCLUSIVE,
    CHECK_GROUP,
    CHECK_IDLE,
    CHECK_MEMORY,
    CHECK_MODE,
    CHECK_NUMA,
    CHECK_PERCENT,
    CHECK_PIECE,
    CHECK_QUALITY,
    CHECK_SLOTS,
    CHECK_UNITS,
    CHECK_WORTH,
    CORES,
    MEMORY,
    SELECT_FIRST,
    SELECT_GROUPED,
    SELECT_PAIRS,
    SELECT_RUN,
    SELECT_SAME,
    SELECT_WELCOME,
    SELECT_WINGS,
    SELECT_ZONE,
    SLOTS,
)


class Selection(IntEnum):
    """How the cards of a claim are chosen among those that pass."""

    FIRST = SELECT_FIRST
    """The first ones."""
    GROUPED = SELECT_GROUPED
    """From the group with the most that pass, then from the next."""
    PAIRS = SELECT_PAIRS
    """Whole pairs only, the two cards of a module, for claims of more than one."""
    SAME = SELECT_SAME
    """All containers of a pod on the same card."""
    RUN = SELECT_RUN
    """Neighbours, for claims of more than one: anywhere in a group, or 4, 8 or 16 ungrouped cards in their place."""
    WINGS = SELECT_WINGS
    """By the two wings of a server, for 1, 2, 4 or 8 cards; cards in use have shares of one size only."""
    WELCOME = SELECT_WELCOME
    """Where the fewest tenants would suffer from one that must answer at once."""
    ZONE = SELECT_ZONE
    """For claims of whole cards, those of the smallest group that has enough; else the first ones."""


class Whole(IntEnum):
    """Which cards one tenant can have to itself, whatever others ask for."""

    COMPUTE = 0
    """Those of which a claim may take all 100 percent of the compute, and that are not given out in pieces."""
    SINGLE = 1
    """Those that take one tenant."""
    ALWAYS = 2
    """All of them: a claim of the whole card leaves nothing that another could be given."""


@dataclass(frozen=True, slots=True)
class FitRules:
    """The checks of a maker's cards, beside health, model and UUID, which all have.

    Attributes
    ----------
    numa
        The pod's wish for one NUMA node holds.
    slots
        No more tenants than the card takes.
    idle
        Only cards that nobody uses.
    memory, cores
        What is left must suffice.
    exclusive
        A claim of all the compute takes a card that nobody uses.
    compute
        A claim of no compute takes a card that has some left.
    mode
        The mode that the maker's cards of a node must be in; empty for any.
    quality
        The mode in which cards must be that others use, unless they are in none; None for any.
    classes
        Tenants with an application class and tenants without share no card; what is used of each dimension after the
        placements tells how many of each there are.
    percent
        Compute is asked for in percent of a card, whatever the cards count theirs in.
    units
        The cards count compute in units of their own, of which claims and quotas name a percentage.
    worth
        The node's cards say how good it is to take as many of them.
    pieces
        A card gives out one piece per claim, which has the compute and exactly the shares that are asked for.
    group
        Where only idle cards are wanted, the other cards of their group must be idle, too.
    whole
        Which cards one tenant can have to itself.
    modes
        The mode of a card is a mode of sharing, which policies may ask for.
    selection
        How several cards are chosen.
    affinity
        What cards that are all of one group add to the score of the node, on HAMi's scale; with wings, what it is
        worth that the free cards are less scattered by one; with welcome or zones, what a tenant counts, or a link.
    """

    numa: bool = False
    slots: bool = True
    idle: bool = False
    memory: bool = True
    cores: bool = True
    exclusive: bool = True
    compute: bool = True
    mode: str = ""
    quality: str | None = None
    classes: bool = False
    percent: bool = False
    units: bool = False
    worth: bool = False
    pieces: bool = False
    group: bool = False
    whole: Whole = Whole.COMPUTE
    modes: bool = True
    selection: Selection = Selection.FIRST
    affinity: float = 0.0

    @property
    def counted(self) -> tuple[int, ...]:
        """The dimensions of which a card must have enough left."""
        flags = ((self.slots, SLOTS), (self.memory, MEMORY), (self.cores, CORES))
        return tuple(dimension for on, dimension in flags if on)

    @property
    def checks(self) -> int:
        """The checks as the kernel takes them."""
        flags = (
            (self.numa, CHECK_NUMA),
            (self.slots, CHECK_SLOTS),
            (self.idle, CHECK_IDLE),
            (self.memory, CHECK_MEMORY),
            (self.cores, CHECK_CORES),
            (self.exclusive, CHECK_EXCLUSIVE),
            (self.compute, CHECK_COMPUTE),
            (self.group, CHECK_GROUP),
            (self.worth, CHECK_WORTH),
            (bool(self.mode), CHECK_MODE),
            (self.quality is not None, CHECK_QUALITY),
            (self.classes, CHECK_CLASS),
            (self.pieces, CHECK_PIECE),
            (self.percent, CHECK_PERCENT),
            (self.units, CHECK_UNITS),
        )
        return sum(flag for on, flag in flags if on)


ALL_CHECKS = FitRules(numa=True)
"""NVIDIA's, and of cards about which nothing else is said."""
PLAIN_CHECKS = FitRules()
"""What most makers' cards are held against."""

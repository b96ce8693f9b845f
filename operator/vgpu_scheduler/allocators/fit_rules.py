"""Which checks the cards of a vendor must pass, and how several of them are chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from vgpu_scheduler.kernels import CORES, MEMORY, SLOTS, Check, Selection
from vgpu_scheduler.model import WHOLE, Claim

PLAIN_CHECKS = Check.SLOTS | Check.MEMORY | Check.CORES | Check.EXCLUSIVE | Check.COMPUTE
"""What most vendors' cards are held against."""
_FOR_SEVERAL = (Selection.GROUPED, Selection.PAIRS, Selection.RUN)
"""Ways of choosing that say nothing of a single card."""


class WholeCardRule(IntEnum):
    """Which cards one tenant can have to itself, whatever others ask for."""

    COMPUTE = 0
    """Those of which a claim may take all 100 percent of the compute, and that are not given out in pieces."""
    SINGLE = 1
    """Those that take one tenant."""
    ALWAYS = 2
    """All of them: a claim of the whole card leaves nothing that another could be given."""


@dataclass(frozen=True, slots=True)
class FitRules:
    """What a vendor's cards are held against, and how they are chosen.

    Attributes
    ----------
    checks
        Beside health, model, UUID and policy, which all cards have. ``mode`` and ``quality`` are checks of their own.
    mode
        The mode that the vendor's cards of a node must be in; empty for any.
    quality
        The mode in which cards must be that others use, unless they are in none; None for any.
    whole
        Which cards one tenant can have to itself.
    modes
        The mode of a card is a mode of sharing, which policies may ask for.
    selection
        How the cards of a claim are chosen among those that pass.
    choice_weight
        What the score of a choice, as its way of choosing has it, counts in the score of the node on HAMi's scale: that
        all cards are of one group; with halves, each fragment of free cards; with contention, a tenant's; in a zone, a
        link's.
    link_score
        The score of the node counts what its cards say of taking as many of them.
    """

    checks: Check = PLAIN_CHECKS
    mode: str = ""
    quality: str | None = None
    whole: WholeCardRule = WholeCardRule.COMPUTE
    modes: bool = True
    selection: Selection = Selection.FIRST
    choice_weight: float = 0.0
    link_score: bool = False

    @property
    def all_checks(self) -> Check:
        """The checks, those of mode and quality included."""
        mode = Check.MODE if self.mode else Check(0)
        return self.checks | mode | (Check(0) if self.quality is None else Check.QUALITY)

    @property
    def counted(self) -> tuple[int, ...]:
        """The dimensions of which a card must have enough left."""
        flags = ((Check.SLOTS, SLOTS), (Check.MEMORY, MEMORY), (Check.CORES, CORES))
        return tuple(dimension for flag, dimension in flags if flag in self.checks)

    def for_claim(self, claim: Claim, *, topology: bool) -> FitRules:
        """Return the rules as they hold for one claim.

        Parameters
        ----------
        claim
            Zones are about whole cards, and groups, pairs and rows about several.
        topology
            Cards that the vendor would give out as they come are chosen by their links.
        """
        if self.selection is Selection.ZONE:
            whole = claim.amounts[CORES] >= WHOLE
            return self if whole else replace(self, selection=Selection.FIRST, choice_weight=0.0)
        single = claim.count == 1 and self.selection in _FOR_SEVERAL
        selection = Selection.FIRST if single else self.selection
        if topology and selection is Selection.FIRST:
            selection = Selection.LINKED
        return self if selection is self.selection else replace(self, selection=selection)


NVIDIA_RULES = FitRules(PLAIN_CHECKS | Check.NUMA)
"""Of NVIDIA's cards, and of those about which nothing else is said."""
PLAIN_RULES = FitRules()
"""Most vendors'."""

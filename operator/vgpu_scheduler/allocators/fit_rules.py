"""The checks for a vendor's cards, and how cards are chosen among the candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from vgpu_scheduler.kernels import CORES, MEMORY, SLOTS, Check, Selection
from vgpu_scheduler.model import WHOLE, Claim

PLAIN_CHECKS = Check.SLOTS | Check.MEMORY | Check.CORES | Check.EXCLUSIVE | Check.COMPUTE
"""The checks of most vendors' cards."""
_FOR_SEVERAL = (Selection.GROUPED, Selection.PAIRS, Selection.RUN)
"""Ways of choosing that do not apply to a single card."""


class WholeCardRule(IntEnum):
    """Which cards one pod can have exclusively."""

    COMPUTE = 0
    """Cards of which a claim may take 100 percent of the compute, and that are not given out in pieces."""
    SINGLE = 1
    """Cards with a single slot."""
    ALWAYS = 2
    """All cards: a claim of the whole card leaves nothing for other pods."""


@dataclass(frozen=True, slots=True)
class FitRules:
    """The checks for a vendor's cards, and how they are chosen.

    Attributes
    ----------
    checks
        The checks besides those of all cards (health, model, UUID, policy), and those of ``mode`` and ``quality``.
    mode
        The mode that the vendor's cards of a node must be in; empty for any.
    quality
        The mode that cards in use must be in, unless they have none; None for any.
    whole
        Which cards one pod can have exclusively.
    modes
        Whether the mode of a card is a sharing mode, which policies may restrict.
    selection
        How the cards of a claim are chosen among the candidates.
    choice_weight
        The weight of the selection's score in the node's score, on HAMi's scale: that of cards all of one group; for
        halves, of a fragment of free cards; for contention, of an occupant; for a zone, of a link.
    link_score
        Whether the node's score includes the registered link score for the number of cards taken.
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
        """The dimensions of which a card must have enough free."""
        flags = ((Check.SLOTS, SLOTS), (Check.MEMORY, MEMORY), (Check.CORES, CORES))
        return tuple(dimension for flag, dimension in flags if flag in self.checks)

    def for_claim(self, claim: Claim, *, topology: bool) -> FitRules:
        """Return the rules that apply to one claim.

        Parameters
        ----------
        claim
            The claim: zones apply only to whole cards, groups, pairs and runs only to several cards.
        topology
            Whether to choose by links if the vendor's rule is to take the first candidates.
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
"""The rules of NVIDIA's cards, and of vendors without rules of their own."""
PLAIN_RULES = FitRules()
"""The rules of most vendors."""

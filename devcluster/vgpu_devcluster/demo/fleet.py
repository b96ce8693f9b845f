"""The state of the fleet: the usage of every card, and the waiting pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SHADES = " ░▒▓█"
LEGEND = "a cell is a card: ' ' idle, ░ up to a quarter, ▒ half, ▓ three quarters, █ more"


@dataclass(frozen=True, slots=True)
class CardUse:
    """A card: its model, its memory in MiB, and the memory in use."""

    model: str
    memory: int
    used: int

    @property
    def level(self) -> int:
        """The shade of its cell: 0 for an idle card, 1 to 4 for the quarters."""
        return 0 if self.used <= 0 else min((4 * self.used - 1) // self.memory + 1, len(SHADES) - 1)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node: ``namespace/name``, and the message of its condition."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """All cards by node, and the pods.

    Attributes
    ----------
    cards
        The cards of each node, in display order.
    running
        Number of pods that have a node and have not ended.
    """

    cards: Mapping[str, Sequence[CardUse]] = field(default_factory=dict)
    running: int = 0
    waiting: Sequence[WaitingPod] = ()

    @property
    def percent(self) -> int:
        """The percentage of all memory that is in use."""
        every = [card for row in self.cards.values() for card in row]
        memory = sum(card.memory for card in every)
        return 100 * sum(card.used for card in every) // memory if memory else 0

    def summary(self) -> str:
        """Return one line of numbers."""
        return f"{self.running} pods run, {len(self.waiting)} wait; {self.percent} % of the cards' memory is in use"

    def rows(self) -> Iterator[tuple[str, list[CardUse], str]]:
        """Yield node, cards and models."""
        for node, cards in self.cards.items():
            yield node, list(cards), ", ".join(dict.fromkeys(card.model for card in cards))

    def width(self) -> int:
        """Return the width of the longest row of cells."""
        return max((2 * len(cards) for cards in self.cards.values()), default=0)

"""What the demo prints: colours and pauses for a person, plain lines for everybody else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import click

_SHADES = " ░▒▓█"
_COLOURS = ("bright_black", "green", "green", "yellow", "red")


class Show:
    """Prints the story.

    Parameters
    ----------
    live
        A person watches: use colours, and leave time to read.
    """

    def __init__(self, live: bool) -> None:
        self._live = live

    def step(self, number: int, total: int, title: str) -> None:
        """Begin a step."""
        if self._live and number > 1:
            time.sleep(1.5)
        click.secho(f"\n[{number}/{total}] {title}", bold=self._live)

    def say(self, text: str) -> None:
        """Say one line."""
        click.echo(f"      {text}")

    def heat_map(self, cards: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        """Draw one row per node and one cell per card, the darker the fuller.

        Parameters
        ----------
        cards
            Node to the model and the used share of each card.
        """
        for node, row in cards.items():
            cells = "".join(self._cell(share) for _, share in row)
            models = ", ".join(dict.fromkeys(model for model, _ in row))
            click.echo(f"      {node:<10} [{cells}] {models}")
        click.echo(f"      {'':<10} a cell is a card: ' ' idle, ░ up to a quarter, ▒ half, ▓ three quarters, █ more")

    def _cell(self, share: float) -> str:
        level = 0 if share <= 0 else min(int(share * 4 - 1e-9) + 1, 4)
        cell = _SHADES[level] * 2
        return click.style(cell, fg=_COLOURS[level]) if self._live else cell

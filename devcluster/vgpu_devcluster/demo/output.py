"""The demo's output for a pipe or a file: plain lines, without colours and pauses."""

from __future__ import annotations

import click

from vgpu_devcluster.demo.fleet import LEGEND, SHADES, Fleet


class Output:
    """Prints the steps in plain lines."""

    def __init__(self) -> None:
        self._last = ""

    def title(self, text: str) -> None:
        """Start a step."""
        click.echo(f"\n{text}")

    def say(self, text: str) -> None:
        """Print a line."""
        click.echo(f"      {text}")

    def heat_map(self, fleet: Fleet) -> None:
        """Draw one row per node and one cell per card; the fuller the card, the darker its cell."""
        for node, cards, models in fleet.rows():
            cells = "".join(SHADES[card.level] * 2 for card in cards)
            self.say(f"{node:<10} [{cells}] {models}")
        self.say(f"{'':<10} {LEGEND}")

    def follow(self, fleet: Fleet) -> None:
        """Show the current fleet while other lines are printed; does nothing here."""

    def watch(self, fleet: Fleet) -> None:
        """Print a summary of the fleet if it has changed."""
        summary = fleet.summary()
        if summary != self._last:
            self.say(summary)
        self._last = summary

    def close(self) -> None:
        """End the output."""

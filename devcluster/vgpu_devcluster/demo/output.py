"""What the demo prints, for a pipe or a file: plain lines, without colours and pauses."""

from __future__ import annotations

import click

from vgpu_devcluster.demo.fleet import LEGEND, SHADES, Fleet


class Output:
    """Prints the steps in plain lines."""

    def __init__(self) -> None:
        self._last = ""

    def title(self, text: str) -> None:
        """Begin a part."""
        click.echo(f"\n{text}")

    def say(self, text: str) -> None:
        """Say one line."""
        click.echo(f"      {text}")

    def heat_map(self, fleet: Fleet) -> None:
        """Draw one row per node and one cell per card, the darker the fuller."""
        for node, cards, models in fleet.rows():
            cells = "".join(SHADES[card.level] * 2 for card in cards)
            self.say(f"{node:<10} [{cells}] {models}")
        self.say(f"{'':<10} {LEGEND}")

    def follow(self, fleet: Fleet) -> None:
        """Take in how the fleet is now, while something else is printed."""

    def watch(self, fleet: Fleet) -> None:
        """Print how the fleet is now, where that has changed."""
        summary = fleet.summary()
        if summary != self._last:
            self.say(summary)
        self._last = summary

    def close(self) -> None:
        """End the output."""

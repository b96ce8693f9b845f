"""The demo on a terminal: colours, pauses to read, and a heat map below that follows the fleet."""

from __future__ import annotations

import shutil
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vgpu_devcluster.demo.fleet import LEGEND, SHADES, Fleet
from vgpu_devcluster.demo.output import Output

_COLOURS = ("bright_black", "green", "green", "yellow", "red")
_PAUSE = 1.5
_INDENT = 6
_WIDEST = 120
_SHOWN = 5  # waiting pods


class TerminalOutput(Output):
    """Prints in colours, as far as the console supports them (``NO_COLOR`` turns them off).

    Parameters
    ----------
    console
        The console to print to.
    live
        Whether to keep the heat map below the lines and pause between steps, instead of printing it in between.
    """

    def __init__(self, console: Console, *, live: bool) -> None:
        super().__init__()
        self._console = console
        self._began = False
        self._live = Live(console=console, auto_refresh=False) if live else None

    def title(self, text: str) -> None:
        """Start a step."""
        if self._live and self._began:
            time.sleep(_PAUSE)
        self._began = True
        self._console.print(Text(f"\n{text}", style="bold"))

    def say(self, text: str) -> None:
        """Print a line."""
        if self._live is None:
            self._console.print(Padding(Text(text), (0, 0, 0, _INDENT)))
        else:
            self._console.print(Text(" " * _INDENT + text), soft_wrap=True)

    def heat_map(self, fleet: Fleet) -> None:
        """Draw the fleet between the lines, unless it is drawn below them anyway."""
        if self._live is None:
            self._console.print(drawn(fleet))

    def follow(self, fleet: Fleet) -> None:
        """Draw the fleet below the lines."""
        if self._live is None or not fleet.cards:
            return
        self._live.start()
        self._live.update(Group(Text(), drawn(fleet)), refresh=True)

    def watch(self, fleet: Fleet) -> None:
        """Draw the fleet below the lines printed so far."""
        if self._live is None:
            super().watch(fleet)
        self.follow(fleet)

    def close(self) -> None:
        """Leave the last heat map on the screen."""
        if self._live is not None:
            self._live.stop()


def on_terminal() -> TerminalOutput:
    """Return the output for the terminal of stdout."""
    return TerminalOutput(Console(width=min(shutil.get_terminal_size().columns, _WIDEST)), live=True)


def drawn(fleet: Fleet) -> Group:
    """Return the heat map: nodes and cards, numbers, and the waiting pods with their reasons."""
    cards = Table.grid(padding=(0, 1))
    for node, row, models in fleet.rows():
        cells = Text.assemble(*((SHADES[card.level] * 2, _COLOURS[card.level]) for card in row))
        cards.add_row(" " * _INDENT + node, Text.assemble("[", cells, "]"), Text(models, style="bright_black"))
    legend = Text(" " * _INDENT + LEGEND, style="bright_black")
    parts: list[RenderableType] = [cards, legend, Text(" " * _INDENT + fleet.summary(), style="bold")]
    for pod in fleet.waiting[:_SHOWN]:
        text = Text.assemble(" " * _INDENT, (pod.name, "yellow"), " waits: ", pod.why or "not tried yet")
        text.no_wrap, text.overflow = True, "ellipsis"
        parts.append(text)
    return Group(*parts)

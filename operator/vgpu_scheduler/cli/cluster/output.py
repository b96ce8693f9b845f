"""Answers as tables for people, and as JSON or YAML for scripts: all tables of all commands are printed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import click
import yaml

from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, JSON, NAME, WIDE, Listing
from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.whatif import aligned

WIDTH: Final = 120
"""Characters of the longest line of a table, unless it may be wide."""


def dump(content: object, output: str) -> None:
    """Write plain values as JSON or YAML."""
    if output == JSON:
        click.echo(json.dumps(content, indent=2))
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)


def table(
    rows: Sequence[Sequence[object]], head: Sequence[str], *, wide: bool = False, headers: bool = True, indent: int = 0
) -> str:
    """Return rows in columns under a head, as kubectl writes them.

    Parameters
    ----------
    wide
        Let lines be as long as they are; else long cells end with an ellipsis.
    headers
        Whether there is a head.
    indent
        Spaces before each line.
    """
    cells = [[str(cell) or "-" for cell in row] for row in rows]
    heads = [[word.upper() for word in head]] if headers else []
    lines = aligned([*heads, *cells], None if wide else WIDTH - indent)
    return "\n".join(" " * indent + line for line in lines)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list.

    Attributes
    ----------
    name
        Its head, in lower case; ``--sort-by`` takes it, too.
    value
        What a row has there.
    shown
        How that is written, with its unit.
    wide
        Whether it is in wide tables only.
    rank
        What of the value rows are sorted by, if it is not the value: a number, of which the greatest comes first, or a
        text.
    """

    name: str
    value: Callable[[Any], Any]
    shown: Callable[[Any], str] = str
    wide: bool = False
    rank: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Columns:
    """How rows of one kind are listed.

    Attributes
    ----------
    kind
        What a row is, as it stands before its name in ``-o name``.
    name
        The name of a row.
    plain
        The values of a row for scripts.
    """

    kind: str
    name: Callable[[Any], str]
    listed: Sequence[Column]
    plain: Callable[[Any], Mapping[str, Any]] = asdict

    def print(self, rows: Sequence[Any], listing: Listing, nothing: str, more: Sequence[Any] = ()) -> None:
        """Print rows as it is wished.

        Parameters
        ----------
        nothing
            What is said to people where there is no row.
        more
            Rows for people, such as sums, below the others.
        """
        if listing.output == NAME:
            for row in rows:
                click.echo(f"{self.kind}/{self.name(row)}")
        elif listing.output not in FOR_PEOPLE:
            dump([self.plain(row) for row in rows], listing.output)
        elif not rows:
            click.echo(nothing, err=not listing.headers)
        else:
            click.echo(self.table([*rows, *(more if listing.headers else ())], listing))

    def table(self, rows: Sequence[Any], listing: Listing) -> str:
        """Return rows as a table."""
        wide = listing.output == WIDE
        columns = [column for column in self.listed if wide or not column.wide]
        cells = [[column.shown(column.value(row)) for column in columns] for row in rows]
        return table(cells, [column.name for column in columns], wide=wide, headers=listing.headers)

    def sorted(self, rows: Sequence[Any], by: str | None) -> list[Any]:
        """Return rows in the order of a column, as they are for None: numbers from the greatest on, texts from a on."""
        if by is None:
            return list(rows)
        names = [column.name for column in self.listed]
        if by.lower() not in names:
            fail(f"--sort-by: there is no column {by}{did_you_mean(by.lower(), names)}; there are {', '.join(names)}")
        column = self.listed[names.index(by.lower())]

        def rank(row: Any) -> tuple[float, str]:
            value = column.rank(column.value(row))
            return (0.0, value) if isinstance(value, str) else (-value, "")

        return sorted(rows, key=rank)

"""Output for people (tables) and scripts (JSON, YAML); all commands print their tables here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import click
import yaml

from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, JSON, NAME, WIDE, ListFormat
from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.whatif import aligned

WIDTH: Final = 120
"""The longest line of a table (characters) that is not wide."""


def dump(content: object, output: str) -> None:
    """Print plain values as JSON or YAML."""
    if output == JSON:
        click.echo(json.dumps(content, indent=2))
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)


def table(
    rows: Sequence[Sequence[object]], head: Sequence[str], *, wide: bool = False, headers: bool = True, indent: int = 0
) -> str:
    """Return rows as a table in kubectl's style.

    Parameters
    ----------
    wide
        Allow long lines; otherwise long cells end with an ellipsis.
    headers
        Whether the table has a header.
    indent
        Spaces before each line.
    """
    cells = [[str(cell) or "-" for cell in row] for row in rows]
    heads = [[word.upper() for word in head]] if headers else []
    lines = aligned([*heads, *cells], None if wide else WIDTH - indent)
    return "\n".join(" " * indent + line for line in lines)


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; the first row is its header."""
    for number, row in enumerate(rows):
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'---|' * len(row)}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list.

    Attributes
    ----------
    name
        Its name in lower case, for the header and ``--sort-by``.
    value
        Returns a row's value.
    shown
        Formats the value, with its unit.
    wide
        Whether only wide tables show the column.
    rank
        Returns the sort key of a value, if it is not the value itself: a number, sorted from the largest, or a text.
    """

    name: str
    value: Callable[[Any], Any]
    shown: Callable[[Any], str] = str
    wide: bool = False
    rank: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a list of one kind of rows.

    Attributes
    ----------
    kind
        The kind of the rows, the prefix of names in ``-o name``.
    name
        Returns the name of a row.
    plain
        Returns the values of a row for scripts.
    """

    kind: str
    name: Callable[[Any], str]
    listed: Sequence[Column]
    plain: Callable[[Any], Mapping[str, Any]] = asdict

    def print(self, rows: Sequence[Any], listing: ListFormat, nothing: str, more: Sequence[Any] = ()) -> None:
        """Print rows in the requested format.

        Parameters
        ----------
        nothing
            The message for people if there are no rows.
        more
            Further rows for people below the others, such as sums.
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

    def table(self, rows: Sequence[Any], listing: ListFormat) -> str:
        """Return rows as a table."""
        wide = listing.output == WIDE
        columns = [column for column in self.listed if wide or not column.wide]
        cells = [[column.shown(column.value(row)) for column in columns] for row in rows]
        return table(cells, [column.name for column in columns], wide=wide, headers=listing.headers)

    def sorted(self, rows: Sequence[Any], by: str | None) -> list[Any]:
        """Return rows sorted by a column (numbers from the largest, texts alphabetically); None keeps the order."""
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

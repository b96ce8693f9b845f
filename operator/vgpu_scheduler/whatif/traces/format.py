"""The format of traces: lists of nodes and pods in the format of the cluster trace "openb".

Each list is CSV with a header. A node has ``sn`` (its name), ``cpu_milli``, ``memory_mib``, ``gpu`` (number of cards)
and ``model``; a pod has ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli`` (thousandths of each card) and
optionally ``gpu_spec`` (the accepted models, as ``A|B``). Other columns are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError

MOST_CARDS: Final = 64
"""The most cards of a node, and the most that a pod may ask for."""
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_MODELS: Final = "gpu_spec"
_MOST: Final = 10**9  # a million cores, a petabyte
_MILLI: Final = 1000


class TraceError(InvalidObjectsError):
    """A trace that is malformed or empty; the message names the list, the row and the column."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node of a trace.

    Attributes
    ----------
    cpu, memory
        Millicores and MiB.
    models
        The model of each of its cards.
    pods
        The most pods on the node.
    card_memory
        MiB of each of its cards.
    """

    name: str
    cpu: int
    memory: int
    models: tuple[str, ...] = ()
    pods: int = 100_000
    card_memory: int = 40_000


@dataclass(frozen=True, slots=True)
class TracePod:
    """The requests of a pod.

    Attributes
    ----------
    cpu, memory
        Millicores and MiB.
    cards
        Number of cards.
    share
        Percent of each card, rounded up: HAMi counts in percent, traces in thousandths.
    models
        The accepted models, sorted; any if empty.
    """

    cpu: int
    memory: int
    cards: int = 0
    share: int = 0
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        """The sum over its cards, in percent of a card."""
        return self.cards * self.share


def parse_nodes(text: str, title: str) -> list[TraceNode]:
    """Read a list of nodes.

    Parameters
    ----------
    text
        The content of the file.
    title
        Its name, for error messages.

    Raises
    ------
    TraceError
        If a column is missing, a cell is malformed, two nodes have the same name, or there is no node.
    """
    found: dict[str, TraceNode] = {}
    for row in _rows(text, title, _NODE_COLUMNS):
        name = row.text("sn")
        if not name:
            raise row.error("sn", "it is empty")
        if name in found:
            raise row.error("sn", f"{name} is given twice")
        cards, model = row.number("gpu", MOST_CARDS), row.text("model")
        if cards and not model:
            raise row.error("model", "it is empty, and the node has cards")
        found[name] = TraceNode(name, row.number("cpu_milli"), row.number("memory_mib"), (model,) * cards)
    if not found:
        raise TraceError(f"{title}: there is no node in it")
    return list(found.values())


def parse_pods(text: str, title: str) -> list[TracePod]:
    """Read a list of pods; see :func:`parse_nodes`.

    Raises
    ------
    TraceError
        If a column is missing, a cell is malformed, or there is no pod.
    """
    found = []
    for row in _rows(text, title, _POD_COLUMNS):
        cards, milli = row.number("num_gpu", MOST_CARDS), row.number("gpu_milli", _MILLI)
        if cards and not milli:
            raise row.error("gpu_milli", f"it is 0, and num_gpu is {cards}")
        models = tuple(sorted({model for model in row.text(_MODELS).split("|") if model}))
        share = -(-milli * WHOLE // _MILLI)
        found.append(
            TracePod(
                row.number("cpu_milli"),
                row.number("memory_mib"),
                cards,
                share if cards else 0,
                models if cards else (),
            )
        )
    if not found:
        raise TraceError(f"{title}: there is no pod in it")
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    title: str
    line: int
    cells: Mapping[str | None, str | list[str] | None]

    def text(self, column: str) -> str:
        cell = self.cells.get(column, "")
        if not isinstance(cell, str):
            raise self.error(column, "the row ends before it")
        return cell.strip()

    def number(self, column: str, most: int = _MOST) -> int:
        cell = self.text(column)
        if not (cell.isascii() and cell.isdecimal() and len(cell) <= len(str(_MOST))):
            raise self.error(column, f"{cell!r} is not a whole number from 0 to {most}")
        if int(cell) > most:
            raise self.error(column, f"{cell} is more than {most}")
        return int(cell)

    def error(self, column: str, problem: str) -> TraceError:
        return TraceError(f"{self.title}:{self.line}: {column}: {problem}")


def _rows(text: str, title: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    """Yield the rows of a list after checking its header."""
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        head = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = head
        for column in columns:
            if column not in head:
                raise TraceError(f"{title}:1: there is no column {column}; it has {', '.join(head) or 'none'}")
        for cells in reader:
            row = _Row(title, reader.line_num, cells)
            if None in cells:
                raise row.error(head[-1], "the row has more cells")
            yield row
    except csv.Error as error:
        raise TraceError(f"{title}:{reader.reader.line_num}: not valid CSV: {error}") from None

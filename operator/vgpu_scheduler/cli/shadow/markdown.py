"""Writes a shadow report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_scheduler.cli.cluster.output import markdown_table
from vgpu_scheduler.cli.shadow.report import Block, Heading, Paragraph, Table, TimeChart

_BARS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 60


def written(blocks: Iterable[Block]) -> str:
    """Return the parts as Markdown; the first heading is the title."""
    parts = [_block(block) for block in blocks]
    return "\n\n".join(["#" + parts[0].removeprefix("##"), *parts[1:]]) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"## {block.text}"
    if isinstance(block, Paragraph):
        return block.text
    if isinstance(block, Table):
        return "\n".join(markdown_table([block.head, *block.rows]))
    return _picture(block)


def _picture(picture: TimeChart) -> str:
    """Draw lines as rows of bars; each bar is the mean of a part of the time."""
    most = picture.most or max(max(values) for _, values in picture.lines) or 1.0
    width = max(len(name) for name, _ in picture.lines)
    rows = [f"{name:{width}} {_bars(picture.times, values, most)}" for name, values in picture.lines]
    return "\n".join([f"{picture.title} (full height: {most:g})", "", "```text", *rows, "```"])


def _bars(times: tuple[float, ...], values: tuple[float, ...], most: float) -> str:
    began, step = times[0], max((times[-1] - times[0]) / _COLUMNS, 1e-9)
    there: list[list[float]] = [[] for _ in range(_COLUMNS)]
    for at, value in zip(times, values, strict=True):
        there[min(int((at - began) / step), _COLUMNS - 1)].append(value)
    text, last = "", 0.0
    for column in there:
        last = sum(column) / len(column) if column else last
        text += _BARS[min(round(last / most * (len(_BARS) - 1)), len(_BARS) - 1)]
    return text

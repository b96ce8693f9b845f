"""Writes a shadow report as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Final

from vgpu_scheduler.cli.shadow.report import Block, Heading, Paragraph, Table, TimeChart

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 200, 48, 24, 12
_CLASSES: Final = ("first", "second")
_DASHES: Final = ("none", "6 4")
"""Dash patterns, so that lines differ by more than their colour."""
_STYLE: Final = """\
:root{color-scheme:light dark}
body{font:16px/1.5 ui-sans-serif,system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1,h2{line-height:1.2}h2{margin-top:2.2rem}
.scrolls{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0}
th,td{border-bottom:1px solid #8886;padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}
code{font-size:.92em}svg{max-width:100%;height:auto}
.first{stroke:#0b6e4f}.second{stroke:#b3541e}
@media(prefers-color-scheme:dark){.first{stroke:#4cc79a}.second{stroke:#f0a070}}
svg text{font:12px ui-sans-serif,system-ui,sans-serif;fill:currentColor}
"""


def written(blocks: Iterable[Block]) -> str:
    """Return the parts as a page; the first heading is its title."""
    title, *rest = blocks
    assert isinstance(title, Heading)
    body = "\n".join(map(_block, rest))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title.text)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title.text)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{escape(block.text)}</h2>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Table):
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.head)
        rows = "\n".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in block.rows)
        return (
            f'<div class="scrolls" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n'
            "</table></div>"
        )
    return _picture(block)


def _cell(text: str) -> str:
    is_code = text.startswith("`") and text.endswith("`")
    return f"<code>{escape(text.strip('`'))}</code>" if is_code else escape(text)


def _picture(picture: TimeChart) -> str:
    """Draw step lines over time."""
    most = picture.most or max(max(values) for _, values in picture.lines) or 1.0
    began, ended = picture.times[0], picture.times[-1]
    right, base = _WIDTH - 12, _HEIGHT - _BOTTOM

    def across(at: float) -> float:
        return _LEFT + (right - _LEFT) * (at - began) / max(ended - began, 1e-9)

    def up(value: float) -> float:
        return base - (base - _TOP) * min(value / most, 1.0)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 20}" role="img" aria-label="{escape(picture.title)}">',
        f"<title>{escape(picture.title)}</title>",
        f'<path d="M{_LEFT} {_TOP}V{base}H{right}" fill="none" stroke="currentColor" stroke-opacity=".5"/>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{most:g}</text>',
        f'<text x="{_LEFT}" y="{base + 16}">{_clock(began)}</text>',
        f'<text x="{right}" y="{base + 16}" text-anchor="end">{_clock(ended)}</text>',
    ]
    for place, ((name, values), named, dash) in enumerate(zip(picture.lines, _CLASSES, _DASHES, strict=False)):
        path = f"M{across(began):.1f} {up(values[0]):.1f}" + "".join(
            f"H{across(at):.1f}V{up(value):.1f}" for at, value in zip(picture.times[1:], values[1:], strict=True)
        )
        x = _LEFT + 220 * place
        parts += [
            f'<path d="{path}" fill="none" class="{named}" stroke-width="2" stroke-dasharray="{dash}"/>',
            f'<path d="M{x} {_HEIGHT + 10}h24" class="{named}" stroke-width="2" stroke-dasharray="{dash}"/>',
            f'<text x="{x + 30}" y="{_HEIGHT + 14}">{escape(name)}</text>',
        ]
    return f"<figure>\n<figcaption>{escape(picture.title)}</figcaption>\n{''.join(parts)}</svg>\n</figure>"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"

"""Checks that every link from one Markdown file of the tree to another file, or to a heading, leads somewhere.

Links to other machines are not followed. Anchors are those that GitHub makes of headings.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "charts", "manifests", "crds", "benchmarks")
_IDS = re.compile(r"""<[^>]+\b(?:id|name)=["']([^"']+)["']""")
_MARKDOWN = MarkdownIt().enable("table")


def pages(root: Path) -> list[Path]:
    """Return the Markdown files at the top of a tree and in its folders."""
    return sorted([*root.glob("*.md"), *(page for folder in FOLDERS for page in (root / folder).rglob("*.md"))])


@cache
def _tokens(page: Path) -> list[Token]:
    return _MARKDOWN.parse(page.read_text())


def _inline(tokens: list[Token]) -> Iterator[tuple[int, Token]]:
    """Yield what is inside of paragraphs, headings and cells, with its line."""
    line = 0
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        yield from ((line, child) for child in token.children or ())


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page: those of its headings, the n-th of the same name with a number, and HTML's own."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    tokens = _tokens(page)
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in content.children or () if child.type in {"text", "code_inline"})
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    for token in (*tokens, *(child for _, child in _inline(tokens))):
        if token.type in {"html_block", "html_inline"}:
            found.update(_IDS.findall(token.content))
    return frozenset(found)


def broken(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, target and reason of every link of a page that leads nowhere."""
    for line, token in _inline(_tokens(page)):
        target = token.attrs.get("href") or token.attrs.get("src")
        if not isinstance(target, str):
            continue
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not file.exists():
            yield line, target, "there is no such file"
        elif parts.fragment and file.suffix == ".md" and unquote(parts.fragment) not in anchors(file):
            yield line, target, "there is no such heading"


def main() -> int:
    """Check all pages."""
    found = [
        f"{page.relative_to(ROOT)}:{line}: {target}: {reason}"
        for page in pages(ROOT)
        for line, target, reason in broken(page)
    ]
    print(*found, sep="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

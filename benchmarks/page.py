"""The page that benchmarks write their tables to."""

from __future__ import annotations

import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "performance.md"


def write_between(mark: str, text: str) -> None:
    """Replace what stands on the page between the two places that have a mark."""
    head, _, rest = TARGET.read_text().partition(mark)
    tail = rest.partition(mark)[2]
    TARGET.write_text(f"{head}{mark}\n\n{text}\n\n{mark}{tail}")


def publish(mark: str, text: str) -> None:
    """Show what was measured, and write it to its place on the page."""
    sys.stdout.write(text + "\n")
    write_between(mark, text)

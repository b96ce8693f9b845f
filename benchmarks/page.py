"""The page that benchmarks write their tables to."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "performance.md"


def write_between(mark: str, text: str) -> None:
    """Replace what stands on the page between the two places that have a mark."""
    head, _, rest = TARGET.read_text().partition(mark)
    tail = rest.partition(mark)[2]
    TARGET.write_text(f"{head}{mark}\n\n{text}\n\n{mark}{tail}")

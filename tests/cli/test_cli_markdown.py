"""A table in Markdown keeps its columns, whatever its cells contain."""

from __future__ import annotations

from vgpu_scheduler.cli.cluster.output import markdown_table


def test_cells_are_escaped_and_on_one_line() -> None:
    assert list(markdown_table([("name", "size"), ("a|b", "1\n2")])) == [
        "| name | size |",
        "|---|---|",
        "| a\\|b | 1 2 |",
    ]

"""Answers as tables for people, and as JSON or YAML for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import yaml

from vgpu_scheduler.cli.cluster.options import JSON
from vgpu_scheduler.whatif import aligned


def dump(content: object, output: str) -> None:
    """Write plain values as JSON or YAML."""
    if output == JSON:
        click.echo(json.dumps(content, indent=2))
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)


def table(rows: Sequence[Sequence[object]], head: Sequence[str]) -> str:
    """Return rows in columns under a head, as kubectl writes them."""
    cells = [[str(cell) or "-" for cell in row] for row in rows]
    return "\n".join(aligned([[word.upper() for word in head], *cells]))

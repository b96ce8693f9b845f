"""Writes the cluster as it was seen at a time, so that what is claimed of that time can be looked into."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.shadow.folder import ShadowFolder
from vgpu_scheduler.shadow import objects_at
from vgpu_scheduler.whatif import when_read


def run(*, state: Path, at: datetime) -> None:
    """Write it to stdout, as ``vgpu-scheduler snapshot`` does."""
    folder, then = ShadowFolder(state), at.replace(tzinfo=UTC)
    objects = objects_at(folder.lines(), then.timestamp())
    if not objects:
        fail(f"--at: nobody watched at {then:%Y-%m-%dT%H:%M:%SZ}, or before")
    items = [*objects, *folder.settings()]
    kinds = frozenset(str(obj["kind"]) for obj in items)
    whole = {"apiVersion": "v1", "kind": "List", "metadata": when_read(then, kinds), "items": items}
    click.echo(json.dumps(whole, separators=(",", ":")))

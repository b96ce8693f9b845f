"""Writes the cluster as it was seen at a past time, so that statements about that time can be checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Final

import click

from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.shadow.folder import ShadowFolder, StateError
from vgpu_scheduler.shadow import ObservedPeriod, objects_at
from vgpu_scheduler.whatif import when_read

_MOST_WATCHES: Final = 3
"""The most watch periods to list in a message, the last ones."""


_PRECISION: Final = 0.001
"""Seconds by which a time in a report may differ from the time of the look."""


def run(*, state: Path, at: datetime) -> None:
    """Print the snapshot, as ``vgpu-scheduler snapshot`` does."""
    folder, then = ShadowFolder(state), at.replace(tzinfo=UTC)
    try:
        record = folder.load()
    except StateError as error:
        fail(str(error))
    if record is None:
        fail(f"--state: {folder.why_empty}")
    watches = record.watches
    if not any(watch.since - _PRECISION <= then.timestamp() <= ceil(watch.until) for watch in watches):
        fail(f"--at: the cluster was not watched at {_time(then.timestamp())}{_watched(watches)}")
    objects = objects_at(folder.lines(), then.timestamp())
    if not objects:
        fail(f"--at: the folder has no objects of {_time(then.timestamp())}")
    items = [*objects, *folder.settings()]
    kinds = frozenset(str(obj["kind"]) for obj in items)
    whole = {"apiVersion": "v1", "kind": "List", "metadata": when_read(then, kinds), "items": items}
    click.echo(json.dumps(whole, separators=(",", ":")))


def _watched(watches: Sequence[ObservedPeriod]) -> str:
    """Say when the cluster was watched."""
    last = [f"{_time(ceil(watch.since))} to {_time(ceil(watch.until))}" for watch in watches[-_MOST_WATCHES:]]
    before = ", and before that" if len(watches) > len(last) else ""
    return f", but from {', from '.join(last)}{before}" if last else ""


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"

"""What docs/shadow.md shows: an afternoon of a small cluster on which faults were planted, kept in a folder."""

from __future__ import annotations

from pathlib import Path

from tests.shadow.clusters import FewLines
from tests.shadow.watched import Watched

from vgpu_scheduler.cli.shadow.folder import ShadowFolder
from vgpu_scheduler.shadow import Record

SEED, STEPS, PACE = 7, 120, 8.0


def write_example(folder: Path) -> Record:
    """Write what was seen into a folder."""
    played = FewLines(SEED, faults=1, pace=PACE)
    watched = Watched(played.cluster)
    watched.record.under = "defaults"
    for _ in range(STEPS):
        played.step()
        watched.see(played.now)
    keeper = ShadowFolder(folder)
    for line in watched.lines:
        keeper.write(line)
    keeper.save(watched.record)
    return watched.record

"""What a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, Unknown

RIGHTS = "rights"
"""What a check needs that asks who may do what; the others need objects, by their kind."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question to what was seen of a cluster.

    Attributes
    ----------
    name
        What a report calls it.
    needs
        The kinds of objects without which it says nothing.
    diagnoses
        What it may find.
    run
        Yields what it finds, and what it could not tell.
    """

    name: str
    needs: tuple[str, ...]
    diagnoses: tuple[Diagnosis, ...]
    run: Callable[[ClusterSnapshot], Iterator[Finding | Unknown]]

"""The definition of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, Unknown

RIGHTS = "rights"
"""What a check needs if it asks who may do what; other needs are kinds of objects."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of what was read of a cluster.

    Attributes
    ----------
    name
        Its name in reports.
    needs
        The kinds of objects that it cannot do without.
    diagnoses
        Its possible diagnoses.
    run
        Yields its findings, and what it could not determine.
    """

    name: str
    needs: tuple[str, ...]
    diagnoses: tuple[Diagnosis, ...]
    run: Callable[[DoctorInput], Iterator[Finding | Unknown]]

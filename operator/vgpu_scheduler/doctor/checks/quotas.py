"""Checks of the limits in ResourceQuotas."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.model import EventReason

UNREADABLE = Diagnosis(
    "quota-unreadable",
    Severity.ERROR,
    "A limit on devices is not a whole number of 0 or more. It counts as 0, so that no pod of the namespace that"
    " would get some of it is placed.",
    "Write a whole number of 0 or more, in the unit in which pods ask for that resource.",
)
SUSPICIOUS = Diagnosis(
    "quota-suspicious",
    Severity.WARNING,
    "A limit does not count as it seems to, or limits nothing: the scheduler does not read its key, because it is"
    " mistyped or the settings rename the resource; or its quantity has a unit where HAMi counts in MiB or percent, so"
    " that 8Gi are 8,589,934,592 MiB.",
    "Write what the message says.",
)


def quotas(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find limits that cannot be read, or that mean something else than they seem to."""
    known = {EventReason.QUOTA_UNREADABLE: UNREADABLE, EventReason.QUOTA_SUSPICIOUS: SUSPICIOUS}
    for problem in doctor_input.cluster_engine.problems:
        if problem.reason in known:
            yield known[problem.reason].of(ObjectRef(problem.kind, problem.name, problem.namespace), problem.message)


CHECKS = (Check("quotas", ("ResourceQuota",), (UNREADABLE, SUSPICIOUS), quotas),)

"""What the limits of namespaces count as."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.model import EventReason

UNREADABLE = Diagnosis(
    "quota-unreadable",
    Severity.ERROR,
    "A limit of devices is no whole number of 0 or more. It counts as 0, so that no pod of the namespace gets such"
    " devices.",
    "Write a whole number of 0 or more, in the unit in which pods ask for that resource.",
)
SUSPICIOUS = Diagnosis(
    "quota-suspicious",
    Severity.WARNING,
    "A limit counts otherwise than it looks, or limits nothing: its key is none of those that are looked at, or its"
    " quantity has a unit where HAMi counts in MiB or percent, so that 8Gi are 8,589,934,592 MiB.",
    "Write what the message says.",
)


def quotas(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find limits that cannot be read, or that count otherwise than they look."""
    known = {EventReason.QUOTA_UNREADABLE: UNREADABLE, EventReason.QUOTA_SUSPICIOUS: SUSPICIOUS}
    for problem in seen.cluster_engine.problems:
        if problem.reason in known:
            yield known[problem.reason].of(ObjectRef(problem.kind, problem.name, problem.namespace), problem.message)


CHECKS = (Check("quotas", ("ResourceQuota",), (UNREADABLE, SUSPICIOUS), quotas),)

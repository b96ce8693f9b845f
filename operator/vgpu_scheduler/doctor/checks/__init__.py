"""The checks, one file per subject."""

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.checks import (
    allocations,
    cordons,
    definitions,
    groups,
    guard,
    koordinator,
    locks,
    neighbours,
    other_schedulers,
    policies,
    preemptions,
    quotas,
    registrations,
    rights,
    scheduler,
    unserved_cards,
    versions,
    waiting,
)

CHECKS: tuple[Check, ...] = (
    *registrations.CHECKS,
    *cordons.CHECKS,
    *unserved_cards.CHECKS,
    *allocations.CHECKS,
    *locks.CHECKS,
    *scheduler.CHECKS,
    *waiting.CHECKS,
    *neighbours.CHECKS,
    *other_schedulers.CHECKS,
    *koordinator.CHECKS,
    *guard.CHECKS,
    *rights.CHECKS,
    *definitions.CHECKS,
    *policies.CHECKS,
    *preemptions.CHECKS,
    *groups.CHECKS,
    *quotas.CHECKS,
    *versions.CHECKS,
)
"""All checks, in the order of reports."""

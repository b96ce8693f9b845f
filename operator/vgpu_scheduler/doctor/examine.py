"""Runs the checks."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.doctor.access import AccessQuestion
from vgpu_scheduler.doctor.checks import CHECKS
from vgpu_scheduler.doctor.checks.guard import plugin_accounts, writing
from vgpu_scheduler.doctor.checks.rights import needed_roles
from vgpu_scheduler.doctor.checks.rights import questions as rights_of
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, Report, Severity, Skipped, Unknown
from vgpu_scheduler.doctor.kinds import OBJECT_UNREADABLE
from vgpu_scheduler.model import internal_error

SETTINGS_UNREADABLE = Diagnosis(
    "settings-unreadable",
    Severity.ERROR,
    "The settings in the scheduler's ConfigMap are not valid. A scheduler that starts with them exits at "
    "once; this report assumes the defaults.",
    "Correct the setting that the message names (vgpu-scheduler settings shows all), and restart the scheduler.",
)

DIAGNOSES: tuple[Diagnosis, ...] = (
    *dict.fromkeys(diagnosis for check in CHECKS for diagnosis in check.diagnoses),
    SETTINGS_UNREADABLE,
    OBJECT_UNREADABLE,
)
"""All diagnoses."""


def questions(doctor_input: DoctorInput) -> tuple[AccessQuestion, ...]:
    """Return all access questions of the checks."""
    roles = needed_roles(doctor_input.expected)
    own = [asked for role in roles for asked in rights_of(role, doctor_input.account, doctor_input.expected)]
    return tuple(dict.fromkeys((*own, *(writing(account) for account in plugin_accounts(doctor_input)))))


def objects_of(kinds: Sequence[str]) -> str:
    """Describe the objects that a check is missing."""
    return f"objects of kind {' and '.join(filter(None, (', '.join(kinds[:-1]), kinds[-1])))}"


def examine(doctor_input: DoctorInput) -> Report:
    """Run every check that can run; return a report with the most severe findings first."""
    findings = list(doctor_input.findings)
    skipped = []
    for check in CHECKS:
        absent = [need for need in check.needs if need in doctor_input.absent]
        reasons = [doctor_input.missing[need] for need in check.needs if need in doctor_input.missing]
        if absent:
            reasons.insert(0, objects_of(absent))
        if not reasons:
            try:
                told = list(check.run(doctor_input))
            except Exception as error:  # noqa: BLE001 - the other checks go on
                told = [Unknown(internal_error(error))]
            findings += [each for each in told if isinstance(each, Finding)]
            reasons = [each.reason for each in told if isinstance(each, Unknown)]
        if reasons:
            skipped.append(Skipped(check.name, ", ".join(dict.fromkeys(reasons))))
    findings.sort(key=lambda finding: finding.severity.rank)
    return Report(tuple(findings), tuple(skipped), len(CHECKS) - len(skipped))

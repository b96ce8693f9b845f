"""Checks whether the scheduler's account has the rights that the manifests grant."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.access import AccessQuestion, Account
from vgpu_scheduler.doctor.check import RIGHTS, Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput, ExpectedSettings
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.objects import Rule
from vgpu_scheduler.doctor.shipped import ShippedRole, shipped

MISSING = Diagnosis(
    "right-missing",
    Severity.ERROR,
    "The service account of the scheduler lacks a right that it needs: its ClusterRole is of an older "
    "version, was changed, or is not bound to it.",
    "Apply the file of the manifests that the message names.",
)
VOLUMES = Diagnosis(
    "volume-right-missing",
    Severity.WARNING,
    "The service account of the scheduler may not bind volumes. Pods whose claims wait for their first consumer wait"
    " with a message that says so; all others are placed.",
    "Apply manifests/volume-binding.yaml, if such pods are to be placed.",
)
_OPTIONAL = "volume-binding.yaml"


def rights(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find rights that the scheduler's account lacks."""
    assert doctor_input.rights is not None
    account = doctor_input.account
    ref = ObjectRef("ServiceAccount", account.name, account.namespace)
    for role in needed_roles(doctor_input.expected):
        lacking = [
            asked.right
            for asked in questions(role, account, doctor_input.expected)
            if not doctor_input.rights.allows(asked)
        ]
        if lacking:
            diagnosis = VOLUMES if role.file == _OPTIONAL else MISSING
            yield diagnosis.of(ref, f"it may not {', '.join(lacking)} (manifests/{role.file})")


def needed_roles(expected: ExpectedSettings) -> list[ShippedRole]:
    """Return the roles that the scheduler needs under its settings."""
    dialects = {dialect.name for dialect in expected.options.dialects}
    wanted = {
        "koordinator": "koordinator" in dialects,
        "system-spread": expected.options.system_spread,
        "preemption": expected.options.preemption,
        "preemption-beyond-budgets": False,  # few policies use it, and without them nobody needs it
    }
    return [role for role in shipped().roles if wanted.get(role.file.partition("/")[0], True)]


def questions(role: ShippedRole, account: Account, expected: ExpectedSettings) -> Iterator[AccessQuestion]:
    """Yield an access question for each right that a role grants."""
    namespace = expected.lease_namespace if role.namespaced else ""
    for rule in role.rules:
        yield from _questions(rule, account, namespace, expected.lease_name if rule.resource_names else "")


def _questions(rule: Rule, account: Account, namespace: str, name: str) -> Iterator[AccessQuestion]:
    for group in rule.api_groups:
        for whole in rule.resources:
            resource, _, subresource = whole.partition("/")
            for verb in rule.verbs:
                yield AccessQuestion(account, verb, group, resource, subresource, namespace, name)


CHECKS = (Check("scheduler-rights", (RIGHTS,), (MISSING, VOLUMES), rights),)

"""Findings about broken or misconfigured objects of a cluster, made with the code that schedules.

To use it, list the objects of :data:`EXAMINED_KINDS` (and those of :data:`ROLE_KINDS` if the API server cannot be asked
who may do what), decode them with :func:`decode_objects`, put them into a :class:`DoctorInput`, have its
:func:`questions` answered, and call :func:`examine`. Kinds that could not be read are named in
``DoctorInput.missing``; checks that need them are skipped. Nothing here talks to a cluster;
``reading/doctor_input.py`` does.

A check is a function from a DoctorInput to findings; each file of ``checks`` has one subject. Its possible findings are
:class:`Diagnosis` values, from which the sections of ``docs/doctor.md`` are rendered.
"""

from vgpu_scheduler.doctor.access import AccessQuestion, AccessReviews, Rbac, Rights
from vgpu_scheduler.doctor.check import RIGHTS
from vgpu_scheduler.doctor.checks import CHECKS
from vgpu_scheduler.doctor.doctor_input import DoctorInput, ExpectedSettings, Server
from vgpu_scheduler.doctor.examine import DIAGNOSES, SETTINGS_UNREADABLE, examine, objects_of, questions
from vgpu_scheduler.doctor.findings import Finding, ObjectRef, Report, Severity
from vgpu_scheduler.doctor.kinds import (
    EXAMINED_KINDS,
    OF_A_NAMESPACE,
    ROLE_KINDS,
    ListedKind,
    decode_objects,
    inventory_kind,
)
from vgpu_scheduler.doctor.objects import ContainerSpec, decode_workload

__all__ = [
    "CHECKS",
    "DIAGNOSES",
    "EXAMINED_KINDS",
    "OF_A_NAMESPACE",
    "RIGHTS",
    "ROLE_KINDS",
    "SETTINGS_UNREADABLE",
    "AccessQuestion",
    "AccessReviews",
    "ContainerSpec",
    "DoctorInput",
    "ExpectedSettings",
    "Finding",
    "ListedKind",
    "ObjectRef",
    "Rbac",
    "Report",
    "Rights",
    "Server",
    "Severity",
    "decode_objects",
    "decode_workload",
    "examine",
    "inventory_kind",
    "objects_of",
    "questions",
]

"""Findings about broken or misconfigured objects of a cluster, made with the code that schedules.

To use it, list the objects of :data:`FACTS` (and those of :data:`ROLE_FACTS` if the API server cannot be asked who may
do what), decode them with :func:`decode_fact`, put them into a :class:`DoctorInput`, have its :func:`questions`
answered, and call :func:`examine`. Kinds that could not be read are named in ``DoctorInput.missing``; checks that
need them are skipped. Nothing here talks to a cluster; ``reading/facts.py`` does.

A check is a function from a DoctorInput to findings; each file of ``checks`` has one subject. Its possible findings are
:class:`Diagnosis` values, from which the sections of ``docs/doctor.md`` are rendered.
"""

from vgpu_scheduler.doctor.access import AccessQuestion, AccessReviews, Rbac, Rights
from vgpu_scheduler.doctor.check import RIGHTS
from vgpu_scheduler.doctor.checks import CHECKS
from vgpu_scheduler.doctor.doctor_input import DoctorInput, ExpectedSettings, Server
from vgpu_scheduler.doctor.examine import DIAGNOSES, SETTINGS_UNREADABLE, examine, objects_of, questions
from vgpu_scheduler.doctor.facts import FACTS, OF_A_NAMESPACE, ROLE_FACTS, ListedKind, decode_fact, inventory_fact
from vgpu_scheduler.doctor.findings import Finding, ObjectRef, Report, Severity
from vgpu_scheduler.doctor.objects import ContainerSpec, decode_workload

__all__ = [
    "CHECKS",
    "DIAGNOSES",
    "FACTS",
    "OF_A_NAMESPACE",
    "RIGHTS",
    "ROLE_FACTS",
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
    "decode_fact",
    "decode_workload",
    "examine",
    "inventory_fact",
    "objects_of",
    "questions",
]

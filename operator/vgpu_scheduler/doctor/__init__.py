"""What is wrong in a cluster: findings about objects, made with the same code that schedules.

The public way in: list the objects of :data:`FACTS` (and, where the API server may not be asked who may do what, of
:data:`ROLE_FACTS`), read them with :func:`decode_fact`, put them into a :class:`ClusterSnapshot`, have its
:func:`questions` answered, and hand the whole to :func:`examine`. What could not be seen is named in
``ClusterSnapshot.missing``, and the checks that need it are skipped. Nothing here talks to a cluster;
``reading/facts.py`` does.

A check is a function from what was seen to findings, in a file of ``checks`` that has one subject. What it may find is
a :class:`Diagnosis`, from which the sections of ``docs/doctor.md`` are rendered.
"""

from vgpu_scheduler.doctor.access import AccessReviews, Question, Rbac, Rights
from vgpu_scheduler.doctor.check import RIGHTS
from vgpu_scheduler.doctor.checks import CHECKS
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot, ExpectedSettings, Server
from vgpu_scheduler.doctor.examine import DIAGNOSES, SETTINGS_UNREADABLE, examine, objects_of, questions
from vgpu_scheduler.doctor.facts import FACTS, OF_A_NAMESPACE, ROLE_FACTS, ListedKind, beside_fact, decode_fact
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
    "AccessReviews",
    "ClusterSnapshot",
    "ContainerSpec",
    "ExpectedSettings",
    "Finding",
    "ListedKind",
    "ObjectRef",
    "Question",
    "Rbac",
    "Report",
    "Rights",
    "Server",
    "Severity",
    "beside_fact",
    "decode_fact",
    "decode_workload",
    "examine",
    "objects_of",
    "questions",
]

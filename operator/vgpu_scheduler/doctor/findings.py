"""Findings of checks, as values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import first_of, namespaced_name

PAGE = "docs/doctor.md"
"""The page with a section for each diagnosis; the section's anchor is the id."""
_MOST_NAMED = 5


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """Pods do not get what they should, or get what belongs to others."""
    WARNING = "warning"
    """Nothing is wrong yet, or only for some pods; it will be if it stays so."""
    INFO = "info"
    """Nothing is wrong, but somebody may want to know."""

    @property
    def rank(self) -> int:
        """The sort key; the most severe comes first."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that a finding is about; the namespace is empty for cluster-scoped objects."""

    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of_pod(cls, pod: Pod) -> ObjectRef:
        """Return the reference to a pod."""
        return cls("Pod", pod.name, pod.namespace)

    def __str__(self) -> str:
        return f"{self.kind} {namespaced_name(self.namespace, self.name)}"


def listed_nodes(names: Collection[str]) -> str:
    """Return the names of nodes for a message: the first ones, and the number of the others."""
    return f"{'node' if len(names) == 1 else 'nodes'} {first_of(sorted(names), _MOST_NAMED)}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A problem that checks can find.

    Attributes
    ----------
    id
        Its name in scripts and links, which never changes.
    severity
        The severity of its findings.
    cause
        The meaning and origin of the problem, for the page.
    remedy
        The remedy, in one sentence.
    """

    id: str
    severity: Severity
    cause: str
    remedy: str

    def of(self, ref: ObjectRef, message: str, about: str = "") -> Finding:
        """Return a finding with this diagnosis about an object, or about a part of it."""
        return Finding(self, ref, message, about)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one object.

    Attributes
    ----------
    message
        What is wrong, with names and numbers.
    about
        The card or annotation that the finding is about, if the object has several. It identifies the finding over
        time, whatever the numbers in its message are.
    """

    diagnosis: Diagnosis
    ref: ObjectRef
    message: str
    about: str = ""

    @property
    def severity(self) -> Severity:
        """The severity of the diagnosis."""
        return self.diagnosis.severity

    @property
    def docs(self) -> str:
        """The link to the documentation."""
        return f"{PAGE}#{self.diagnosis.id}"

    def as_json(self) -> dict[str, Any]:
        """Return the finding for scripts."""
        return {
            "id": self.diagnosis.id,
            "severity": self.severity.value,
            "object": {"kind": self.ref.kind, "namespace": self.ref.namespace, "name": self.ref.name},
            "message": self.message,
            "remedy": self.diagnosis.remedy,
            "docs": self.docs,
        }


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that a check could not determine, in addition to its findings.

    Attributes
    ----------
    reason
        What is needed to determine it, to follow the word ``needs``.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that could not run.

    Attributes
    ----------
    check
        Its name.
    reason
        The missing right, or another reason.
    """

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of all checks.

    Attributes
    ----------
    findings
        The findings, most severe first.
    skipped
        The checks that could not run.
    checks
        The number of checks that ran.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    checks: int

    @property
    def healthy(self) -> bool:
        """Whether there are no findings to act on; findings of severity info do not count."""
        return not any(self._serious())

    @property
    def complete(self) -> bool:
        """Whether every check ran."""
        return not self.skipped

    def _serious(self) -> Iterator[Finding]:
        return (finding for finding in self.findings if finding.severity is not Severity.INFO)

"""What the checks find, as values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import first_of

PAGE = "docs/doctor.md"
"""Has a section for each diagnosis, whose anchor is its id."""
_MOST_NAMED = 5


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Pods do not get what they should, or get what is somebody else's."""
    WARNING = "warning"
    """Nothing is wrong yet, or only for some; it will be if it stays so."""
    INFO = "info"
    """Nothing is wrong; somebody may want to know."""

    @property
    def rank(self) -> int:
        """The worst first."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that a finding is about; the namespace of what has none is empty."""

    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of_pod(cls, pod: Pod) -> ObjectRef:
        """Refer to a pod."""
        return cls("Pod", pod.name, pod.namespace)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def listed_nodes(names: Collection[str]) -> str:
    """Return the names of nodes for a message: the first ones, and how many more there are."""
    return f"{'node' if len(names) == 1 else 'nodes'} {first_of(sorted(names), _MOST_NAMED)}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that can be wrong.

    Attributes
    ----------
    id
        Its name for scripts and links; it never changes.
    severity
        How bad it is.
    cause
        What it means and where it comes from, for the page.
    remedy
        What to do, in one sentence.
    """

    id: str
    severity: Severity
    cause: str
    remedy: str

    def of(self, ref: ObjectRef, message: str, about: str = "") -> Finding:
        """Return the finding that this is so of an object, or of something of it."""
        return Finding(self, ref, message, about)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with one object.

    Attributes
    ----------
    message
        What is wrong with it, with names and numbers.
    about
        The card or annotation that it is about, where the object has several; the same finding is so called for as long
        as it lasts, whatever the numbers in its message are.
    """

    diagnosis: Diagnosis
    ref: ObjectRef
    message: str
    about: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.diagnosis.severity

    @property
    def docs(self) -> str:
        """Where the page says more."""
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
    """Something that a check could not tell, beside what it found.

    Attributes
    ----------
    reason
        What it would take to know, for ``needs …``.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that could not be made.

    Attributes
    ----------
    check
        Its name.
    reason
        The right that is missing, or what else was in the way.
    """

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes
    ----------
    findings
        The worst first.
    skipped
        The checks that could not be made.
    checks
        How many checks were made.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    checks: int

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that somebody should do something about; information does not count."""
        return not any(self._serious())

    @property
    def complete(self) -> bool:
        """Whether every check was made."""
        return not self.skipped

    def _serious(self) -> Iterator[Finding]:
        return (finding for finding in self.findings if finding.severity is not Severity.INFO)

"""How a pod would have to be written that is refused, or is followed otherwise than it looks."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["AmountFix", "AnnotationFix", "AskForCard", "Fix", "LeaveOutResource", "UsageWarning"]


@dataclass(frozen=True, slots=True)
class AmountFix:
    """How an amount would have to be written.

    Attributes
    ----------
    container, resource
        Whose amount of what it is.
    written
        How it is written; empty where the container does not name the resource.
    meant
        What to write instead; None where the amount is no whole number, so that it depends on its unit.
    """

    container: str
    resource: str
    written: str
    meant: int | None


@dataclass(frozen=True, slots=True)
class AskForCard:
    """A container asks for no card, and for amounts of one: one is to be asked for, or these are to be left out.

    Attributes
    ----------
    resource
        What counts cards.
    others
        What it asks beside.
    """

    container: str
    resource: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaveOutResource:
    """A container is to ask for nothing of a resource."""

    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class AnnotationFix:
    """How an annotation of the pod would have to be written.

    Attributes
    ----------
    meant
        What to write; empty where it is to be left out.
    """

    annotation: str
    meant: str = ""


Fix = AmountFix | AskForCard | LeaveOutResource | AnnotationFix


@dataclass(frozen=True, slots=True)
class UsageWarning:
    """Something in a pod that is followed otherwise than it looks.

    Attributes
    ----------
    text
        What is written, and how it is followed.
    refusal
        What is written, and what is to be written instead, for pods that are refused for it; empty for the text.
    fix
        How it would have to be written; None where it is not as simple as that.
    """

    text: str
    refusal: str = ""
    fix: Fix | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def refused(self) -> str:
        """What is said of it where the pod is refused for it."""
        return self.refusal or self.text

    def in_container(self, name: str) -> UsageWarning:
        """Return it as one about a container."""
        fix = self.fix
        if fix is not None and not isinstance(fix, AnnotationFix):
            fix = replace(fix, container=name)
        refusal = f"container {name}: {self.refusal}" if self.refusal else ""
        return UsageWarning(f"container {name}: {self.text}", refusal, fix)

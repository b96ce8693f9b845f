"""Fixes for pods that are refused or whose requests have an unexpected effect."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class AmountFix:
    """A corrected amount of a container.

    Attributes
    ----------
    container, resource
        The container and the resource.
    written
        The current text; empty if the container does not name the resource.
    meant
        The amount to write instead; None if the current one is not a whole number, so that its unit is unclear.
    """

    container: str
    resource: str
    written: str
    meant: int | None


@dataclass(frozen=True, slots=True)
class AskForCard:
    """A container requests amounts of a card but no card: it should request a card, or drop the amounts.

    Attributes
    ----------
    resource
        The resource that counts cards.
    others
        The other resources that it requests.
    """

    container: str
    resource: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaveOutResource:
    """A container should drop a resource."""

    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class AnnotationFix:
    """A corrected annotation of the pod.

    Attributes
    ----------
    meant
        The value to write; empty to remove the annotation.
    """

    annotation: str
    meant: str = ""


Fix = AmountFix | AskForCard | LeaveOutResource | AnnotationFix


@dataclass(frozen=True, slots=True)
class RequestWarning:
    """A warning about a part of a pod that has another effect than it seems.

    Attributes
    ----------
    text
        What is written, and its effect.
    refusal
        What is written, and what to write instead, for pods that are refused for it; if empty, ``text`` is used.
    fix
        The fix; None if there is no simple one.
    """

    text: str
    refusal: str = ""
    fix: Fix | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def refused(self) -> str:
        """The message if the pod is refused for it."""
        return self.refusal or self.text

    def in_container(self, name: str) -> RequestWarning:
        """Return the same warning about a named container."""
        fix = self.fix
        if fix is not None and not isinstance(fix, AnnotationFix):
            fix = replace(fix, container=name)
        refusal = f"container {name}: {self.refusal}" if self.refusal else ""
        return RequestWarning(f"container {name}: {self.text}", refusal, fix)

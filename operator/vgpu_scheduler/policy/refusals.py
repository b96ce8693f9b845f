"""Why a pod has to wait whatever the nodes are, because it is not known which policy would be in force for it.

Decisions carry the value; conditions its text, out of which it is read again for those who see no more than that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Self

__all__ = ["PolicyRefusal", "PolicyRefusalKind"]


class PolicyRefusalKind(Enum):
    """What is the matter."""

    NOT_UNDERSTOOD = auto()
    """A policy that would hold cannot be understood: whoever may write it corrects it."""
    NAMESPACE_UNKNOWN = auto()
    """A policy asks the labels of a namespace that was not seen yet: it will be."""
    INTERNAL_ERROR = auto()
    """An error of this program."""
    ANNOTATIONS = auto()
    """An annotation of the pod cannot be followed."""


_PREFIX: Final = "PolicyNotReady: "
_FORMS: Final = {
    PolicyRefusalKind.NOT_UNDERSTOOD: "{policy}: {why}",
    PolicyRefusalKind.NAMESPACE_UNKNOWN: "the labels of the namespace, which {policy} asks, are not known",
    PolicyRefusalKind.INTERNAL_ERROR: "{why}",
}
_READ: Final = {
    PolicyRefusalKind.NAMESPACE_UNKNOWN: r"the labels of the namespace, which (?P<policy>\w+ \S+) asks, are not known",
    PolicyRefusalKind.INTERNAL_ERROR: r"(?P<why>internal error: .*)",
    PolicyRefusalKind.NOT_UNDERSTOOD: r"(?P<policy>\w+ [^\s:]+): (?P<why>.*)",
}
"""What the texts of each kind look like; those before others are never of these."""


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """Why a pod has to wait.

    Attributes
    ----------
    policy
        What messages call the policy that it is about; empty where it is about none.
    why
        What is wrong, in words; empty where the kind says all.
    """

    kind: PolicyRefusalKind
    policy: str = ""
    why: str = ""

    def __str__(self) -> str:
        form = _FORMS.get(self.kind)
        return self.why if form is None else _PREFIX + form.format(policy=self.policy, why=self.why)

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return the refusal of which a text was made; None where it was made of none, or of the pod's annotations."""
        for kind, form in _READ.items():
            if found := re.fullmatch(_PREFIX + form, text, re.DOTALL):
                return cls(kind, **found.groupdict(""))
        return None

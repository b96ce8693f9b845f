"""Why a pod has to wait regardless of the nodes: the policy in force for it cannot be determined.

Decisions carry the value. Conditions contain its text, from which it is parsed again for users who see only that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Self


class PolicyNotReadyType(Enum):
    """What keeps a policy from being ready."""

    NOT_UNDERSTOOD = auto()
    """A policy that would be in force has errors, which its author has to correct."""
    NAMESPACE_UNKNOWN = auto()
    """A policy selects namespaces by labels, and the namespace is not known yet."""
    INTERNAL_ERROR = auto()
    """An error of this program."""
    ANNOTATIONS = auto()
    """An annotation of the pod cannot be followed."""


_PREFIX: Final = "PolicyNotReady: "
_FORMS: Final = {
    PolicyNotReadyType.NOT_UNDERSTOOD: "{policy}: {why}",
    PolicyNotReadyType.NAMESPACE_UNKNOWN: "the labels of the namespace, which {policy} reads, are not known",
    PolicyNotReadyType.INTERNAL_ERROR: "{why}",
}
_READ: Final = {
    PolicyNotReadyType.NAMESPACE_UNKNOWN: (
        r"the labels of the namespace, which (?P<policy>\w+ \S+) reads, are not known"
    ),
    PolicyNotReadyType.INTERNAL_ERROR: r"(?P<why>internal error: .*)",
    PolicyNotReadyType.NOT_UNDERSTOOD: r"(?P<policy>\w+ [^\s:]+): (?P<why>.*)",
}
"""The patterns of the texts; the first kind that matches is the right one."""


@dataclass(frozen=True, slots=True)
class PolicyNotReady:
    """Why a pod has to wait.

    Attributes
    ----------
    policy
        The policy's name in messages; empty if it is about none.
    why
        What is wrong, in words; empty if the type says everything.
    """

    type: PolicyNotReadyType
    policy: str = ""
    why: str = ""

    def __str__(self) -> str:
        form = _FORMS.get(self.type)
        return self.why if form is None else _PREFIX + form.format(policy=self.policy, why=self.why)

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Parse the text; None if it is not one, or one about the pod's annotations."""
        for kind, form in _READ.items():
            if found := re.fullmatch(_PREFIX + form, text, re.DOTALL):
                return cls(kind, **found.groupdict(""))
        return None

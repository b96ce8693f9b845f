"""Whom changes may help that nobody was woken for yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpu_scheduler.model.reasons import Hint

__all__ = ["WakeSet"]


@dataclass(slots=True)
class WakeSet:
    """What has changed since waiting pods were last woken, as far as it may help one of them.

    Whoever keeps something writes to it; the engine drains it before each attempt, so that many changes together cost
    one look at the pods that wait.

    Attributes
    ----------
    hints
        Changes that are about no particular pod or namespace.
    quotas
        The namespaces whose limits have changed.
    returned
        The namespaces whose pods gave devices back; that helps where a limit is.
    policies
        The namespaces for whose pods another policy may be in force.
    every_policy
        Whether that is so for all namespaces.
    pods
        The UIDs of pods that are to be tried whatever they wait for.
    """

    hints: Hint = Hint.NONE
    quotas: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    every_policy: bool = False
    pods: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether anything has changed."""
        about_some = self.quotas or self.returned or self.policies or self.pods
        return bool(self.hints or about_some or self.every_policy)

    def take(self) -> WakeSet:
        """Return all of it, and begin anew."""
        taken = WakeSet(self.hints, self.quotas, self.returned, self.policies, self.every_policy, self.pods)
        self.hints, self.every_policy = Hint.NONE, False
        self.quotas, self.returned, self.policies, self.pods = set(), set(), set(), {}
        return taken

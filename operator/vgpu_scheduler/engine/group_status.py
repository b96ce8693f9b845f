"""How far a group of pods is: who is placed, who waits, and how many more have to be placed at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import TopologyConstraint

__all__ = ["DOES_NOT_EXIST", "GroupStatus"]

DOES_NOT_EXIST: Final = "does not exist"
"""Why an object is missing that the API server could have."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """How far a group is.

    Attributes
    ----------
    key
        Which group.
    minimum
        How many of its pods have to be placed before any is.
    placed
        How many are placed, or have succeeded.
    bound
        How many of these are bound, or have succeeded: the others may be given back still.
    waiting
        Those that wait to be placed, by name.
    missing_object
        The kind of the object that pods name and that is not known; empty if it is, or if none is needed.
    why_missing
        Why it is not known.
    problem
        Why the group cannot be placed, whatever the nodes are; empty if it can.
    topology
        How near to each other its pods are placed, as they say.
    nodes
        The nodes that pods of it are on, each once, by name.
    followed_by
        How many others wait to be placed near these, each by itself.
    """

    key: GroupKey
    minimum: int
    placed: int
    bound: int
    waiting: tuple[Pod, ...]
    missing_object: str = ""
    why_missing: str = ""
    problem: str = ""
    topology: tuple[TopologyConstraint, ...] = ()
    nodes: tuple[str, ...] = ()
    followed_by: int = 0

    def only(self, pod: Pod) -> GroupStatus:
        """Return the same for one pod that is placed by itself, near those that are placed and those that follow."""
        return replace(self, minimum=self.placed + 1, waiting=(pod,), followed_by=len(self.waiting) - 1)

    @property
    def does_not_exist(self) -> bool:
        """Whether the object that pods name is one that somebody can make."""
        return self.why_missing == DOES_NOT_EXIST

    @property
    def needed(self) -> int:
        """How many have to be placed at once, or none is; 0 where each is placed by itself."""
        return max(self.minimum - self.placed, 0)

    @property
    def is_quorum_bound(self) -> bool:
        """Whether as many are bound, or have succeeded, as are needed."""
        return self.bound >= self.minimum

    @property
    def has_quorum(self) -> bool:
        """Whether as many wait as are needed."""
        return not (self.missing_object or self.problem) and len(self.waiting) >= self.needed

    @property
    def schedules_as_gang(self) -> bool:
        """Whether pods are to be placed at once now, or none is, and as many wait."""
        return self.has_quorum and self.needed > 0

    @property
    def schedules_individually(self) -> bool:
        """Whether each pod is placed by itself: the group has what it needs, but for one at most, and keeps it."""
        return self.has_quorum and self.needed <= 1 and self.bound + self.needed >= self.minimum

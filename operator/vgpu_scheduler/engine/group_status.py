"""The status of a group: which of its pods are placed, which wait, and how many have to be placed at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import TopologyConstraint

DOES_NOT_EXIST: Final = "does not exist"
"""Why an object that the API server could have is missing."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The status of a group.

    Attributes
    ----------
    key
        The group.
    minimum
        How many of its pods have to be placed at least, else none is.
    placed
        Number of pods that are placed, or have succeeded.
    bound
        Number of these that are bound, or have succeeded; the placements of the others may still be given back.
    waiting
        The pods that wait to be placed, by name.
    missing_object
        The kind of the object that the pods name and that is not known; empty if it is known, or not needed.
    why_missing
        Why it is not known.
    problem
        Why the group cannot be placed, whatever the nodes are; empty if it can.
    topology
        The topology constraints of its pods and object.
    nodes
        The nodes on which its pods are, each once, by name.
    followed_by
        Number of other pods that wait to be placed near these, one by one.
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
        """Return this group reduced to one pod.

        For groups whose pods are scheduled one by one but share topology constraints.
        """
        return replace(self, minimum=self.placed + 1, waiting=(pod,), followed_by=len(self.waiting) - 1)

    @property
    def does_not_exist(self) -> bool:
        """Whether the missing object is one that a user can create."""
        return self.why_missing == DOES_NOT_EXIST

    @property
    def needed(self) -> int:
        """How many pods have to be placed at once; 0 where each pod is placed alone."""
        return max(self.minimum - self.placed, 0)

    @property
    def is_quorum_bound(self) -> bool:
        """Whether as many pods are bound, or have succeeded, as the group needs."""
        return self.bound >= self.minimum

    @property
    def has_quorum(self) -> bool:
        """Whether as many pods wait as have to be placed at once."""
        return not (self.missing_object or self.problem) and len(self.waiting) >= self.needed

    @property
    def schedules_as_gang(self) -> bool:
        """Whether pods have to be placed all at once now, and enough of them wait."""
        return self.has_quorum and self.needed > 0

    @property
    def schedules_individually(self) -> bool:
        """Whether each pod is placed alone: at most one more pod is needed, and the others are bound."""
        return self.has_quorum and self.needed <= 1 and self.bound + self.needed >= self.minimum

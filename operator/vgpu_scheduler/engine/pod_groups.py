"""Pod groups: the pods that are decided together, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class PodGroupKey:
    """What a pod says of the group that it belongs to.

    Attributes
    ----------
    name
        The group; the same for all its pods.
    size
        How many pods it needs: fewer are not decided.
    """

    name: str
    size: int


Grouping = Callable[[Pod], PodGroupKey | None]
"""Says which group a pod belongs to; None where it is decided by itself."""


def each_alone(pod: Pod) -> PodGroupKey | None:
    """Have each pod decided by itself."""
    del pod
    return None


class PodGroups:
    """Keeps which waiting pods belong together.

    Parameters
    ----------
    grouping
        Says which group a pod belongs to.
    state
        Knows the pods.
    """

    def __init__(self, grouping: Grouping, state: State) -> None:
        self._grouping = grouping
        self._state = state
        self._members: dict[str, dict[str, None]] = {}
        self._started: set[str] = set()
        """Groups of which a pod was bound: those that are left are decided however few they are."""
        self._group_of: dict[str, PodGroupKey] = {}

    def observe(self, pod: Pod) -> None:
        """Take in a pod of ours."""
        key = self._grouping(pod)
        if key != self._group_of.get(pod.uid):
            self.forget(pod.uid)
        if key is not None:
            self._group_of[pod.uid] = key
            self._members.setdefault(key.name, {})[pod.uid] = None
        if pod.node_name:
            self.bound(pod.uid)

    def bound(self, uid: str) -> None:
        """Take in that a pod is bound."""
        key = self._group_of.get(uid)
        if key is not None:
            self._started.add(key.name)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        key = self._group_of.pop(uid, None)
        if key is not None:
            members = self._members[key.name]
            del members[uid]
            if not members:
                del self._members[key.name]
                self._started.discard(key.name)

    def name(self, uid: str) -> str:
        """Return the group of a pod; empty if it is decided by itself."""
        key = self._group_of.get(uid)
        return key.name if key else ""

    def gather(self, pod: Pod, waits: Callable[[Pod], bool]) -> tuple[tuple[Pod, ...], int]:
        """Return the pods that are decided together with one, itself among them, and how many are missing.

        Members that hold a placement already are not decided again. The order is that of their names.
        """
        key = self._group_of.get(pod.uid)
        if key is None:
            return (pod,), 0
        placed, waiting = 0, []
        for uid in self._members[key.name]:
            member = self._state.pod(uid)
            if self._state.reservation(uid) is not None:
                placed += 1
            elif member is not None and waits(member):
                waiting.append(member)
        waiting.sort(key=lambda member: (member.namespace, member.name, member.uid))
        missing = 0 if key.name in self._started else max(key.size - placed - len(waiting), 0)
        return tuple(waiting), missing


def missing_members(pod: Pod, name: str, missing: int) -> Decision:
    """Return the decision about a pod of which others of its group have not come yet; each that comes is a new try."""
    message = f"{missing} more pods of group {name} have to come before any of them is placed"
    return Decision(
        pod.uid, pod.key, Outcome.UNSCHEDULABLE, message=message, another_node_helps=False, rejected_by=("PodGroup",)
    )


def failed_together(pods: Sequence[Pod], decision: Decision) -> tuple[Decision, ...]:
    """Return the decisions about the pods of a group of which one does not fit."""
    if len(pods) == 1:
        return (decision,)
    message = f"pod {decision.pod}, which is placed together with this one: {decision.message}"
    others = replace(decision, verdicts={}, near_miss=None, warnings=(), message=message)
    return tuple(decision if pod.uid == decision.uid else replace(others, uid=pod.uid, pod=pod.key) for pod in pods)

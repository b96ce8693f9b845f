"""The conditions of Kubernetes' own PodGroups: that a group is scheduled, or why it is not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine.group_attempts import is_incomplete
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.groups import POD_GROUP_KINDS, GroupKey, PodGroupKind
from vgpu_scheduler.kube import Condition, PodGroup
from vgpu_scheduler.model import MESSAGE, ConditionReason, Decision, Outcome, counted, cut

_KINDS: Final = {kind.name: kind for kind in POD_GROUP_KINDS if kind.condition}
_SCHEDULED: Final = "Scheduled"


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """A condition to be written to a PodGroup.

    Attributes
    ----------
    key
        The group.
    kind, group
        The object that describes the group.
    condition
        The new condition.
    """

    key: GroupKey
    kind: PodGroupKind
    group: PodGroup
    condition: Condition


class GroupConditions:
    """Tells which PodGroups need another condition.

    As with kube-scheduler, a group that was scheduled once stays so, whatever happens to its pods; and a group of which
    too few pods exist gets no condition.

    Parameters
    ----------
    groups
        Knows the groups, and which of them have changed.
    scheduler_names
        Groups without pods of these schedulers are ignored.
    """

    def __init__(self, groups: PodGroups, scheduler_names: Collection[str]) -> None:
        self._groups = groups
        self._scheduler_names = scheduler_names
        self._failed: dict[GroupKey, Condition] = {}

    def tried(self, decisions: Sequence[Decision]) -> None:
        """Take in the decisions of an attempt; a group with placed pods gets no condition before they are bound."""
        first = decisions[0]
        key = self._groups.key_of(first.uid)
        if key is None or first.outcome in (Outcome.PLACED, Outcome.NOT_READY) or is_incomplete(first):
            return
        if not self._groups.note_change(key):
            return
        is_ours = first.outcome is Outcome.ERROR
        reason = ConditionReason.SCHEDULER_ERROR if is_ours else ConditionReason.UNSCHEDULABLE
        self._failed[key] = Condition("False", reason, cut(f"pod {first.pod}: {first.message}", MESSAGE))

    def take(self) -> list[GroupCondition]:
        """Return the conditions for PodGroups that have changed, each once, unless :meth:`not_written` is called."""
        changed, self._groups.changed = self._groups.changed, {}
        found = [each for key in changed if (each := self._of(key)) is not None]
        self._failed = {key: said for key, said in self._failed.items() if self._groups.object_of(key) is not None}
        return found

    def not_written(self, key: GroupKey) -> None:
        """Note that the condition of a PodGroup was not written."""
        self._groups.note_change(key)

    def _of(self, key: GroupKey) -> GroupCondition | None:
        group = self._groups.object_of(key)
        if group is None or (group.condition is not None and group.condition.status == "True"):
            self._failed.pop(key, None)
            return None
        condition = self._scheduled(key) or self._failed.get(key)
        if condition is None or condition == group.condition:
            return None
        return GroupCondition(key, _KINDS[group.kind], group, condition)

    def _scheduled(self, key: GroupKey) -> Condition | None:
        """Return the condition of a group of which as many pods are bound as it needs; None for any other."""
        found = self._groups.status(key)
        is_ours = any(pod.scheduler_name in self._scheduler_names for pod in self._groups.pods(key))
        if not is_ours or found.bound < max(found.minimum, 1):
            return None
        return Condition("True", _SCHEDULED, f"{counted(found.bound, 'pod')} bound, {found.minimum} needed")

"""Pod groups: which pods belong together, and how many of them have to be placed at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

from vgpu_scheduler.engine.pod_group_reader import PodGroupReader
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.groups import GROUP_SOURCES, POD_GROUP_KINDS, GroupKey
from vgpu_scheduler.groups import membership as membership_of
from vgpu_scheduler.kube import Pod, PodGroup
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.state import State

_WITH_CONDITION: Final = frozenset(kind.name for kind in POD_GROUP_KINDS if kind.condition)
"""The kinds of objects whose condition says whether their group is scheduled."""


class PodGroups(PodGroupReader):
    """Follows the groups of all pods that belong to one, and requeues their pods.

    Parameters
    ----------
    state, needs_scheduling, is_listed, policies
        See :class:`PodGroupReader`.
    prioritise
        Has the queue rank a pod by the priority of its group; with None, by its own.

    Attributes
    ----------
    changed
        The groups whose objects have a condition that may have to be updated.
    """

    def __init__(
        self,
        state: State,
        needs_scheduling: Callable[[Pod], bool],
        is_listed: Callable[[str], bool],
        prioritise: Callable[[str, int | None], None],
        policies: Policies,
    ) -> None:
        super().__init__(state, needs_scheduling, is_listed, policies)
        self._prioritise = prioritise
        self.changed: dict[GroupKey, None] = {}
        self._touched: set[GroupKey] | None = None
        """The groups that changed since :meth:`take_touched` was called last; None before the first call."""
        self._levels: defaultdict[GroupKey, Counter[int]] = defaultdict(Counter)
        """Number of pods of each group by priority."""
        self._staying: set[str] = set()
        """The UIDs of the pods that are bound, or have succeeded."""

    def observe(self, pod: Pod) -> None:
        """Take in a pod of any scheduler; if its group needs less now, requeue the pods of the group that wait."""
        membership = membership_of(pod)
        known = self._group_of.get(pod.uid)
        if known is not None and (membership is None or membership.key != known.key):
            self.forget(pod.uid)
        if membership is None:
            return
        self._group_of[pod.uid] = membership
        self._touch(membership.key)
        members = self._members.setdefault(membership.key, {})
        if members.get(pod.uid) != pod.priority:
            self._count_priority(membership.key, members.pop(pod.uid, None), -1)
            self._count_priority(membership.key, pod.priority, 1)
            members[pod.uid] = pod.priority
        if not self._size_is_unknowable(membership, pod):
            self._order(membership.key, pod.uid)
        if self._stays_placed(pod):
            self.bound(pod.uid)
        else:
            self._staying.discard(pod.uid)
            if pod.deleting or pod.terminal:
                self._wake(membership.key)

    def bound(self, uid: str) -> None:
        """Note that a pod is bound, or has succeeded, and requeue the waiting pods of its group."""
        membership = self._group_of.get(uid)
        if membership is not None and uid not in self._staying:
            self._staying.add(uid)
            self._wake(membership.key)
            self.note_change(membership.key)

    def unreserved(self, uid: str) -> None:
        """Note that a pod was unreserved, and requeue the waiting pods of its group."""
        membership = self._group_of.get(uid)
        if membership is not None:
            self._wake(membership.key)

    def forget(self, uid: str) -> None:
        """Note that a pod is gone, and requeue the waiting pods of its group."""
        self._staying.discard(uid)
        membership = self._group_of.pop(uid, None)
        if membership is None:
            return
        self._prioritise(uid, None)
        members = self._members[membership.key]
        self._count_priority(membership.key, members.pop(uid), -1)
        if not members:
            del self._members[membership.key], self._levels[membership.key]
            self._priorities.pop(membership.key, None)
            self._touch(membership.key)
            return
        if membership.key in self._priorities:
            self._order(membership.key)
        self._wake(membership.key)  # the pod may have raised the group's minimum, or kept the others near it

    def observe_object(self, group: PodGroup) -> None:
        """Take in an object that describes a group, and requeue the group's pods if its request changed."""
        self.served.add(group.kind)
        before = self.stores[group.kind].get(group.key)
        if self.stores[group.kind].put(group.key, group):
            if before is None or _asks(before) != _asks(group):
                self._wake_groups_of(group)
            for key in _keys(group):
                self.note_change(key)

    def remove_object(self, group: PodGroup, version: int | None = None) -> None:
        """Note that such an object is gone, as of a version (by default its own)."""
        gone_at = group.resource_version if version is None else version
        if self.stores[group.kind].remove(group.key, group.uid, gone_at):
            self._wake_groups_of(group)  # the pods wait for something else now
            for key in _keys(group):
                self.changed.pop(key, None)

    def cannot_list(self, kind: str) -> None:
        """Note that a kind of objects could not be listed: pods that name such an object wait, as it may exist."""
        if kind in self.stores and not self._is_listed(kind):
            self._unlisted.add(kind)

    def _wake_groups_of(self, group: PodGroup) -> None:
        for key in _keys(group):
            if key in self._members:
                self._order(key, *self._members[key])
                self._wake(key)
                self._note_holders(key)

    def _note_holders(self, key: GroupKey) -> None:
        """Note on the nodes of a group's pods that their priority may have changed."""
        for uid in self._members[key]:
            reservation = self._state.reservation(uid)
            row = None if reservation is None else self._state.nodes.row(reservation.node)
            if row is not None:
                self._state.nodes.note_holders(row)

    def note_change(self, key: GroupKey) -> bool:
        """Note that the condition of a group's object may have to be updated; return whether it has such an object."""
        group_object = self.object_of(key)
        has_condition = group_object is not None and group_object.kind in _WITH_CONDITION
        if has_condition:
            self.changed[key] = None
        return has_condition

    def _wake(self, key: GroupKey) -> None:
        """Requeue the waiting pods of a group."""
        self._touch(key)
        for uid in self._members.get(key, ()):
            if self._state.reservation(uid) is None:
                self._state.pending_events.pods[uid] = QueueEvent.POD_GROUP_UPDATE

    def _touch(self, key: GroupKey) -> None:
        if self._touched is not None:
            self._touched.add(key)

    def take_touched(self, *, anew: bool) -> set[GroupKey]:
        """Return the groups that changed since the last call; the first time, or with ``anew``, all of them."""
        touched, self._touched = self._touched, set()
        return set(self._members).union(touched or ()) if anew or touched is None else touched

    def _count_priority(self, key: GroupKey, priority: int | None, number: int) -> None:
        """Add to the number of a group's pods of a priority; None is ignored."""
        if priority is not None:
            levels = self._levels[key]
            levels[priority] += number
            if not levels[priority]:
                del levels[priority]

    def _order(self, key: GroupKey, *uids: str) -> None:
        """Have the queue rank the given pods by the priority of their group; all its pods if that has changed."""
        of_object = self.described_priority(key)
        priority = min(self._levels[key]) if of_object is None else of_object
        for uid in uids if self._priorities.get(key) == priority else self._members[key]:
            self._prioritise(uid, priority)
        self._priorities[key] = priority


def _keys(group: PodGroup) -> list[GroupKey]:
    """Return the groups that an object may describe: several sources may read the same kind."""
    sources = (source for source in GROUP_SOURCES if any(kind.name == group.kind for kind in source.kinds))
    return [GroupKey(source.name, group.namespace, group.name) for source in sources]


def _asks(group: PodGroup) -> tuple[int, int | None, tuple[str, ...], str]:
    """Return the fields of an object that affect its pods."""
    return group.minimum, group.priority, group.topology, group.unsupported

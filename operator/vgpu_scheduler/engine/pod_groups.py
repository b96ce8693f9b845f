"""Pod groups: which waiting pods belong together, and how many more of them have to be placed at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from vgpu_scheduler.engine.group_status import DOES_NOT_EXIST, GroupStatus
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.groups import (
    GROUP_SOURCES,
    POD_GROUP_KINDS,
    GroupKey,
    GroupSource,
    Membership,
    membership,
    topology,
)
from vgpu_scheduler.kube import Pod, PodGroup, VersionedStore
from vgpu_scheduler.model import TopologyConstraint
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.state import Phase, State

__all__ = ["PodGroups"]

_SOURCES: Final = {source.name: source for source in GROUP_SOURCES}
_TOLD: Final = frozenset(kind.name for kind in POD_GROUP_KINDS if kind.condition)
"""The kinds of objects that say whether their groups are scheduled."""


class PodGroups:
    """The groups of all pods that say that they belong to one.

    Parameters
    ----------
    state
        Knows the pods, and what they hold.
    needs_scheduling
        Tells whether a pod of ours has to be placed.
    is_listed
        Tells whether a kind of objects was listed.
    prioritise
        Has the turn of a pod come by the priority of its group; None for its own.
    policies
        Say how many pods a group needs where nobody else does.

    Attributes
    ----------
    stores
        The objects that describe groups, by the name of their kind.
    served
        The kinds that the API server is known to serve beside those that were listed. Where it serves none, nobody can
        make the object that a group needs, and its pods are placed by themselves.
    trusts_assumed
        Whether a pod that is placed is as good as bound: where nothing is really bound, as in what-if.
    changed
        The groups whose objects say whether they are scheduled, and may have to say something else since somebody has
        looked at them.
    """

    def __init__(
        self,
        state: State,
        needs_scheduling: Callable[[Pod], bool],
        is_listed: Callable[[str], bool],
        prioritise: Callable[[str, int | None], None],
        policies: Policies,
    ) -> None:
        self._state = state
        self._needs_scheduling = needs_scheduling
        self._is_listed = is_listed
        self._prioritise = prioritise
        self._policies = policies
        self.served: set[str] = set()
        self._unlisted: set[str] = set()
        self.trusts_assumed = False
        self.changed: dict[GroupKey, None] = {}
        self._touched: set[GroupKey] | None = None
        """The groups of which anything has changed since somebody has looked at them; None before somebody does."""
        self._members: dict[GroupKey, dict[str, int]] = {}
        """The pods of each group, by UID, with the priority of each."""
        self._levels: defaultdict[GroupKey, Counter[int]] = defaultdict(Counter)
        """How many pods of each group have each priority."""
        self._priorities: dict[GroupKey, int] = {}
        self._group_of: dict[str, Membership] = {}
        self._settled: set[str] = set()
        self.stores: dict[str, VersionedStore[str, PodGroup]] = {
            kind.name: VersionedStore() for kind in POD_GROUP_KINDS
        }

    # Observations ----------------------------------------------------------------------------------------------------

    def observe(self, pod: Pod) -> None:
        """Take in a pod, of whichever scheduler; where its group needs less now, those that wait are tried."""
        said = membership(pod)
        known = self._group_of.get(pod.uid)
        if known is not None and (said is None or said.key != known.key):
            self.forget(pod.uid)
        if said is None:
            return
        self._group_of[pod.uid] = said
        self._touch(said.key)
        members = self._members.setdefault(said.key, {})
        if members.get(pod.uid) != pod.priority:
            self._count_priority(said.key, members.pop(pod.uid, None), -1)
            self._count_priority(said.key, pod.priority, 1)
            members[pod.uid] = pod.priority
        if not self._nobody_completes(said, pod):
            self._order(said.key, pod.uid)
        if self._is_settled(pod):
            self.bound(pod.uid)
        else:
            self._settled.discard(pod.uid)
            if pod.deleting or pod.terminal:
                self._wake(said.key)

    def bound(self, uid: str) -> None:
        """Take in that a pod is bound, or has succeeded; those of its group that wait are tried."""
        said = self._group_of.get(uid)
        if said is not None and uid not in self._settled:
            self._settled.add(uid)
            self._wake(said.key)
            self.note_change(said.key)

    def given_back(self, uid: str) -> None:
        """Take in that a pod is not where it was placed any more; those of its group that wait are tried."""
        said = self._group_of.get(uid)
        if said is not None:
            self._wake(said.key)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone; those of its group that wait are tried."""
        self._settled.discard(uid)
        said = self._group_of.pop(uid, None)
        if said is not None:
            self._prioritise(uid, None)
            members = self._members[said.key]
            self._count_priority(said.key, members.pop(uid), -1)
            if not members:
                del self._members[said.key], self._levels[said.key]
                self._priorities.pop(said.key, None)
                self._touch(said.key)
                return
            if said.key in self._priorities:
                self._order(said.key)
            self._wake(said.key)  # it may have said that more are needed than the others say, or kept them near it

    def observe_object(self, group: PodGroup) -> None:
        """Take in an object that describes a group; its pods are tried."""
        self.served.add(group.kind)
        before = self.stores[group.kind].get(group.key)
        if self.stores[group.kind].put(group.key, group):
            if before is None or _asks(before) != _asks(group):
                self._wake_named(group)
            for key in _keys(group):
                self.note_change(key)

    def remove_object(self, group: PodGroup, version: int | None = None) -> None:
        """Take in that such an object is gone, as of a version; its own unless one is given."""
        gone_at = group.resource_version if version is None else version
        if self.stores[group.kind].remove(group.key, group.uid, gone_at):
            self._wake_named(group)  # what they wait for is another thing now
            for key in _keys(group):
                self.changed.pop(key, None)

    def cannot_list(self, kind: str) -> None:
        """Take in that a kind of objects could not be listed: whoever names one waits, for it may be there."""
        if kind in self.stores and not self._is_listed(kind):
            self._unlisted.add(kind)

    def _wake_named(self, group: PodGroup) -> None:
        for key in _keys(group):
            if key in self._members:
                self._order(key, *self._members[key])
                self._wake(key)
                self._note_holders(key)

    def _note_holders(self, key: GroupKey) -> None:
        """Note on the nodes of the pods of a group that their priority may be another one."""
        for uid in self._members[key]:
            held = self._state.reservation(uid)
            row = None if held is None else self._state.nodes.row(held.node)
            if row is not None:
                self._state.nodes.note_holders(row)

    def note_change(self, key: GroupKey) -> bool:
        """Note that the object of a group may have to say something else; return whether there is one that says it."""
        described = self.object_of(key)
        says_it = described is not None and described.kind in _TOLD
        if says_it:
            self.changed[key] = None
        return says_it

    def _wake(self, key: GroupKey) -> None:
        """Have the pods of a group be tried that wait."""
        self._touch(key)
        for uid in self._members.get(key, ()):
            if self._state.reservation(uid) is None:
                self._state.wakes.pods[uid] = QueueEvent.POD_GROUP_UPDATE

    def _touch(self, key: GroupKey) -> None:
        if self._touched is not None:
            self._touched.add(key)

    def take_touched(self, *, anew: bool) -> set[GroupKey]:
        """Return the groups of which anything has changed since the last time; all of them the first time, or anew."""
        touched, self._touched = self._touched, set()
        return set(self._members).union(touched or ()) if anew or touched is None else touched

    def _count_priority(self, key: GroupKey, priority: int | None, number: int) -> None:
        """Count pods of a priority; those of None are not counted."""
        if priority is not None:
            levels = self._levels[key]
            levels[priority] += number
            if not levels[priority]:
                del levels[priority]

    def _order(self, key: GroupKey, *uids: str) -> None:
        """Have the turns of some pods come by the priority of their group, and those of all where that has changed."""
        described = self.object_of(key)
        told = None if described is None else described.priority
        priority = min(self._levels[key]) if told is None else told
        for uid in uids if self._priorities.get(key) == priority else self._members[key]:
            self._prioritise(uid, priority)
        self._priorities[key] = priority

    # Questions -------------------------------------------------------------------------------------------------------

    def membership(self, pod: Pod) -> Membership | None:
        """Return what a pod says of its group; None where it is placed by itself, as nobody can complete that group."""
        said = self._group_of.get(pod.uid)
        return None if said is None or self._nobody_completes(said, pod) else said

    def priority(self, pod: Pod) -> int:
        """Return the priority by which a pod's turn comes: its group's, which is told or that of the lowest pod."""
        said = self.membership(pod)
        return pod.priority if said is None else self._priorities.get(said.key, pod.priority)

    def problem(self, pod: Pod) -> str:
        """Return why a pod can be no member of its group, or that group not be placed; empty if it can."""
        said = self._group_of.get(pod.uid)
        return "" if said is None else said.problem or _not_followed(self.object_of(said.key))

    def warning(self, pod: Pod) -> str:
        """Say that a group is none, as nobody can complete it; empty for any other pod, known or not."""
        said = membership(pod)
        if said is None or not self._nobody_completes(said, pod):
            return ""
        return (
            f"{said.said_by} names a PodGroup, and the API server serves none: pods of this group are placed one by"
            " one, so that some may run while others wait"
        )

    def incomplete_status(self, pod: Pod) -> GroupStatus | None:
        """Return how far the group of a pod is of which too few pods exist for any to be placed; None for any other.

        Nobody is looked at but the pod: as many may come one after the other.
        """
        said = self.membership(pod)
        if said is None or said.problem:
            return None
        described = self.object_of(said.key)
        minimum = _minimum(said.minimum, described, self._minimum_by_policy(pod, said, described))
        if len(self._members[said.key]) >= minimum:
            return None
        return GroupStatus(said.key, minimum, 0, 0, (pod,))

    def status_of(self, pod: Pod) -> GroupStatus | None:
        """Return how far the group of a pod is; None for a pod without a group that can be understood."""
        said = self.membership(pod)
        return None if said is None or said.problem else self.status(said.key)

    def status(self, key: GroupKey) -> GroupStatus:
        """Return how far a group is."""
        placed, bound, waiting = 0, 0, list[Pod]()
        said_by_waiting, said_by_placed = 0, 0
        described, by_policy, nodes = self.object_of(key), 0, set[str]()
        for member, said in self._known(key):
            held = self._state.reservation(member.uid)
            by_policy = max(by_policy, self._minimum_by_policy(member, said, described))
            if self._counts(member):
                placed += 1
                bound += self._is_settled(member)
                said_by_placed = max(said_by_placed, 0 if said.problem else said.minimum or 0)
                if held is not None:
                    nodes.add(held.node)
            elif not said.problem and held is None and self._needs_scheduling(member):
                waiting.append(member)
                said_by_waiting = max(said_by_waiting, said.minimum or 0)
        waiting.sort(key=lambda member: (member.name, member.uid))
        says_itself = any(said.minimum is not None and not said.problem for _, said in self._known(key))
        needs_object = described is None and not says_itself and not by_policy
        missing, why = self._missing(_SOURCES[key.source]) if needs_object else ("", "")
        said_by_pods = said_by_waiting or said_by_placed or 1
        minimum = _minimum(said_by_pods if says_itself else None, described, by_policy)
        bound = placed if self.trusts_assumed else bound
        return GroupStatus(
            key,
            minimum,
            placed,
            bound,
            tuple(waiting),
            missing,
            why,
            problem=_not_followed(described),
            topology=self._topology(key, described),
            nodes=tuple(sorted(nodes)),
        )

    def object_of(self, key: GroupKey) -> PodGroup | None:
        """Return the object that describes a group; None if there is none."""
        kinds = _SOURCES[key.source].kinds
        return next((found for kind in kinds if (found := self.stores[kind.name].get(str(key)))), None)

    def pods(self, key: GroupKey) -> Iterator[Pod]:
        """Yield the pods of a group that are known, of whichever scheduler."""
        return (pod for pod, _ in self._known(key))

    def runs(self, pod: Pod) -> bool:
        """Tell whether a pod is bound, and neither has ended nor is to end."""
        return self._is_settled(pod) and not pod.terminal

    def key_of(self, uid: str) -> GroupKey | None:
        """Return the group that a pod belongs to; None if it belongs to none."""
        said = self._group_of.get(uid)
        return None if said is None else said.key

    def _known(self, key: GroupKey) -> Iterator[tuple[Pod, Membership]]:
        """Yield the pods of a group that are known, with what they say of it."""
        for uid in self._members.get(key, ()):
            pod = self._state.pod(uid)
            if pod is not None:
                yield pod, self._group_of[uid]

    def _counts(self, pod: Pod) -> bool:
        """Tell whether a pod is placed and stays so, or has done what it was to do."""
        if pod.terminal or pod.deleting:
            return pod.phase == "Succeeded"
        return self._state.reservation(pod.uid) is not None

    def _topology(self, key: GroupKey, described: PodGroup | None) -> tuple[TopologyConstraint, ...]:
        """Return how near to each other the pods of a group are placed, as an object and they themselves say."""
        keys = () if described is None else described.topology
        field = "" if described is None else f"spec.schedulingConstraints.topology of {described.kind} {described.key}"
        of_object = (TopologyConstraint(each, required=True, said_by=field) for each in keys)
        of_pods = (each for member, _ in self._known(key) for each in topology(member))
        return tuple(dict.fromkeys((*of_object, *of_pods)))

    def _missing(self, source: GroupSource) -> tuple[str, str]:
        """Return the kind of which an object of a source is missing, and why; empty where it needs none."""
        kinds = [kind.name for kind in source.kinds]
        for kind in kinds:
            if kind in self._unlisted and not self._is_listed(kind):
                return kind, "cannot be read"
        served = next((kind for kind in kinds if kind in self.served or self._is_listed(kind)), "")
        if served:
            return served, DOES_NOT_EXIST
        return (kinds[0], "is of a kind that the API server does not serve") if source.needs_object else ("", "")

    def _is_settled(self, pod: Pod) -> bool:
        """Tell whether a pod that counts is bound, or has succeeded: nobody gives it back."""
        held = self._state.reservation(pod.uid)
        is_bound = bool(pod.node_name) or (held is not None and held.phase is Phase.CONFIRMED)
        return self._counts(pod) and (is_bound or pod.phase == "Succeeded")

    def _minimum_by_policy(self, pod: Pod, said: Membership, described: PodGroup | None) -> int:
        """Return how many pods a policy says that the group of a pod needs, where no object says it; 0 for none."""
        if described is not None or _SOURCES[said.key.source].needs_object:
            return 0
        return self._policies.resolve(pod).groups.minimum or 0

    def _nobody_completes(self, said: Membership, pod: Pod) -> bool:
        """Tell whether an object would have to say what the group of a pod needs, and there can be none."""
        source = _SOURCES[said.key.source]
        if said.minimum is not None or source.needs_object or self._minimum_by_policy(pod, said, None):
            return False
        known = self.served | self._unlisted
        return not any(kind.name in known or self._is_listed(kind.name) for kind in source.kinds)


def _minimum(said_by_pods: int | None, described: PodGroup | None, by_policy: int) -> int:
    """Return how many pods a group needs: as its pods say, else as its object says, else as a policy does, else one."""
    if said_by_pods is not None:
        return said_by_pods
    return by_policy or 1 if described is None else described.minimum


def _keys(group: PodGroup) -> list[GroupKey]:
    """Return the groups that an object may describe: several sources read some kinds."""
    sources = (source for source in GROUP_SOURCES if any(kind.name == group.kind for kind in source.kinds))
    return [GroupKey(source.name, group.namespace, group.name) for source in sources]


def _asks(group: PodGroup) -> tuple[int, int | None, tuple[str, ...], str]:
    """Return what of an object makes a difference to its pods."""
    return group.minimum, group.priority, group.topology, group.unsupported


def _not_followed(group: PodGroup | None) -> str:
    """Return what an object asks for that is not followed, so that its pods are not placed; empty for nothing."""
    if group is None or not group.unsupported:
        return ""
    return f"{group.kind} {group.key}: {group.unsupported} is not supported, so none of its pods is placed"

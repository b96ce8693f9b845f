"""What can be asked about pod groups: who is in them, how many of their pods are needed, and how many are placed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from vgpu_scheduler.engine.group_status import DOES_NOT_EXIST, GroupStatus
from vgpu_scheduler.engine.topology_sources import topology_of_object
from vgpu_scheduler.groups import GROUP_SOURCES, POD_GROUP_KINDS, GroupKey, Membership, topology
from vgpu_scheduler.groups import membership as membership_of
from vgpu_scheduler.kube import Pod, PodGroup, VersionedStore
from vgpu_scheduler.model import TopologyConstraint
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.state import Phase, State

_SOURCES: Final = {source.name: source for source in GROUP_SOURCES}


class PodGroupReader:
    """Read access to the groups of pods; ``PodGroups`` changes them.

    Parameters
    ----------
    state
        The cluster's state.
    needs_scheduling
        Tells whether a pod of ours has to be placed.
    is_listed
        Tells whether a kind of objects was listed.
    policies
        Say how many pods a group needs where neither pods nor objects do.

    Attributes
    ----------
    stores
        The objects that describe groups, by the name of their kind.
    served
        The kinds, beside those that were listed, that the API server is known to serve. Where it serves none, nobody
        can create the object that a group needs, and its pods are placed one by one.
    refused
        The kinds of which it is not known whether the API server serves them, as they may not be listed; set in
        what-if alone. Their groups are placed as those of kinds that are not served.
    unreadable
        What is wrong with the objects that are known and cannot be read, by their kind and ``namespace/name``; set in
        what-if alone.
    trusts_assumed
        Whether a placed pod counts as bound; set where no pod is really bound, as in what-if.
    """

    def __init__(
        self,
        state: State,
        needs_scheduling: Callable[[Pod], bool],
        is_listed: Callable[[str], bool],
        policies: Policies,
    ) -> None:
        self._state = state
        self._needs_scheduling = needs_scheduling
        self._is_listed = is_listed
        self._policies = policies
        self.served: set[str] = set()
        self.refused: set[str] = set()
        self.unreadable: dict[tuple[str, str], str] = {}
        self.trusts_assumed = False
        self.stores: dict[str, VersionedStore[str, PodGroup]] = {
            kind.name: VersionedStore() for kind in POD_GROUP_KINDS
        }
        self._unlisted: set[str] = set()
        """The kinds that could not be listed."""
        self._members: dict[GroupKey, dict[str, int]] = {}
        """The priority of each pod of each group, by UID."""
        self._priorities: dict[GroupKey, int] = {}
        """The priority by which the queue ranks the pods of each group."""
        self._group_of: dict[str, Membership] = {}
        """By the UID of the pod."""

    def membership(self, pod: Pod) -> Membership | None:
        """Return a pod's membership of its group; None if the pod is placed alone, as nobody can complete the group."""
        membership = self._group_of.get(pod.uid)
        return None if membership is None or self._size_is_unknowable(membership, pod) else membership

    def priority(self, pod: Pod) -> int:
        """Return the priority that ranks a pod: that of its group's object, else the lowest one of its pods.

        It counts in the queue, in the lanes of nodes, and for holds. For who may be evicted it counts only where the
        object sets it; see ``GroupDisruption.with_group_priority``.
        """
        membership = self.membership(pod)
        return pod.priority if membership is None else self._priorities.get(membership.key, pod.priority)

    def described_priority(self, key: GroupKey) -> int | None:
        """Return the priority that a group's object sets; None where there is no object, or it sets none."""
        group_object = self.object_of(key)
        return None if group_object is None else group_object.priority

    def problem(self, pod: Pod) -> str:
        """Return why a pod cannot be a member of its group, or why that group cannot be placed; empty if it can."""
        membership = self._group_of.get(pod.uid)
        return "" if membership is None else membership.problem or _unsupported_request(self.object_of(membership.key))

    def warning(self, pod: Pod) -> str:
        """Warn that a pod's group has no effect, as nobody can complete it; empty for any other pod, known or not."""
        membership = membership_of(pod)
        if membership is None or not self._size_is_unknowable(membership, pod):
            return ""
        alone = "pods of this group are placed one by one, so that some may run while others wait"
        named = f"{membership.said_by} names a PodGroup, a kind that"
        if any(kind.name in self.refused for kind in _SOURCES[membership.key.source].kinds):
            return f"{named} may not be listed here: unless it exists, {alone}"
        return f"{named} the API server does not serve: {alone}"

    def incomplete_status(self, pod: Pod) -> GroupStatus | None:
        """Return the status of a pod's group if too few of its pods exist to place any; None otherwise.

        It contains no other pod than this one: a large group arrives pod by pod, and each arrival must stay cheap.
        """
        membership = self.membership(pod)
        if membership is None or membership.problem:
            return None
        group_object = self.object_of(membership.key)
        minimum = _minimum(membership.minimum, group_object, self._minimum_by_policy(pod, membership, group_object))
        if len(self._members[membership.key]) >= minimum:
            return None
        return GroupStatus(membership.key, minimum, 0, 0, (pod,))

    def status_of(self, pod: Pod) -> GroupStatus | None:
        """Return the status of a pod's group; None for a pod without a valid group."""
        membership = self.membership(pod)
        return None if membership is None or membership.problem else self.status(membership.key)

    def status(self, key: GroupKey) -> GroupStatus:
        """Return the status of a group."""
        group_object = self.object_of(key)
        placed = bound = 0
        waiting: list[Pod] = []
        nodes: set[str] = set()
        by_policy = minimum_of_waiting = minimum_of_placed = 0
        pods_set_minimum = False
        for pod, membership in self._known(key):
            minimum = 0 if membership.problem else membership.minimum or 0
            pods_set_minimum |= membership.minimum is not None and not membership.problem
            by_policy = max(by_policy, self._minimum_by_policy(pod, membership, group_object))
            reservation = self._state.reservation(pod.uid)
            if self._is_placed(pod):
                placed += 1
                bound += self._stays_placed(pod)
                minimum_of_placed = max(minimum_of_placed, minimum)
                if reservation is not None:
                    nodes.add(reservation.node)
            elif not membership.problem and reservation is None and self._needs_scheduling(pod):
                waiting.append(pod)
                minimum_of_waiting = max(minimum_of_waiting, minimum)
        waiting.sort(key=lambda pod: (pod.name, pod.uid))
        by_pods = (minimum_of_waiting or minimum_of_placed or 1) if pods_set_minimum else None
        needs_object = group_object is None and not pods_set_minimum and not by_policy
        missing, why = self._missing(key) if needs_object else ("", "")
        return GroupStatus(
            key,
            _minimum(by_pods, group_object, by_policy),
            placed,
            placed if self.trusts_assumed else bound,
            tuple(waiting),
            missing,
            why,
            problem=_unsupported_request(group_object),
            topology=self._topology(key, group_object),
            nodes=tuple(sorted(nodes)),
        )

    def object_of(self, key: GroupKey) -> PodGroup | None:
        """Return the object that describes a group; None if there is none."""
        kinds = _SOURCES[key.source].kinds
        return next((found for kind in kinds if (found := self.stores[kind.name].get(str(key)))), None)

    def pods(self, key: GroupKey) -> Iterator[Pod]:
        """Yield the known pods of a group, of any scheduler."""
        return (pod for pod, _ in self._known(key))

    def runs(self, pod: Pod) -> bool:
        """Tell whether a pod is bound, and neither terminal nor terminating."""
        return self._stays_placed(pod) and not pod.terminal

    def key_of(self, uid: str) -> GroupKey | None:
        """Return the group that a pod belongs to; None if it belongs to none."""
        membership = self._group_of.get(uid)
        return None if membership is None else membership.key

    def _known(self, key: GroupKey) -> Iterator[tuple[Pod, Membership]]:
        """Yield the known pods of a group with their memberships."""
        for uid in self._members.get(key, ()):
            pod = self._state.pod(uid)
            if pod is not None:
                yield pod, self._group_of[uid]

    def _is_placed(self, pod: Pod) -> bool:
        """Tell whether a pod counts as placed: it holds a placement and is not terminating, or it has succeeded."""
        if pod.terminal or pod.deleting:
            return pod.phase == "Succeeded"
        return self._state.reservation(pod.uid) is not None

    def _topology(self, key: GroupKey, group_object: PodGroup | None) -> tuple[TopologyConstraint, ...]:
        """Return the topology constraints of a group, from its object and its pods."""
        of_object = () if group_object is None else topology_of_object(group_object)
        of_pods = (each for member, _ in self._known(key) for each in topology(member))
        return tuple(dict.fromkeys((*of_object, *of_pods)))

    def _missing(self, key: GroupKey) -> tuple[str, str]:
        """Return the kind of the object that a group lacks, and why; empty where it needs none."""
        source = _SOURCES[key.source]
        kinds = [kind.name for kind in source.kinds]
        for kind in kinds:
            if (kind, str(key)) in self.unreadable or (kind in self._unlisted and not self._is_listed(kind)):
                return kind, "cannot be read"
        served = next((kind for kind in kinds if kind in self.served or self._is_listed(kind)), "")
        if served:
            return served, DOES_NOT_EXIST
        return (kinds[0], "is of a kind that the API server does not serve") if source.needs_object else ("", "")

    def _stays_placed(self, pod: Pod) -> bool:
        """Tell whether a pod that counts as placed is bound, or has succeeded, so that its placement stays."""
        reservation = self._state.reservation(pod.uid)
        is_bound = bool(pod.node_name) or (reservation is not None and reservation.phase is Phase.CONFIRMED)
        return self._is_placed(pod) and (is_bound or pod.phase == "Succeeded")

    def _minimum_by_policy(self, pod: Pod, membership: Membership, group_object: PodGroup | None) -> int:
        """Return how many pods policies say that a pod's group needs where no object says it; 0 for none."""
        if group_object is not None or _SOURCES[membership.key.source].needs_object:
            return 0
        return self._policies.resolve(pod).groups.minimum or 0

    def _size_is_unknowable(self, membership: Membership, pod: Pod) -> bool:
        """Tell whether only a PodGroup could set the size, and its CRD is not installed."""
        source = _SOURCES[membership.key.source]
        if membership.minimum is not None or source.needs_object or self._minimum_by_policy(pod, membership, None):
            return False
        known = self.served | self._unlisted
        return not any(kind.name in known or self._is_listed(kind.name) for kind in source.kinds)


def _minimum(by_pods: int | None, group_object: PodGroup | None, by_policy: int) -> int:
    """Return how many pods a group needs, as set by its pods, its object or a policy, in this order; else one."""
    if by_pods is not None:
        return by_pods
    return by_policy or 1 if group_object is None else group_object.minimum


def _unsupported_request(group: PodGroup | None) -> str:
    """Say which request of an object is not supported, so that its pods are not placed; empty for none."""
    if group is None or not group.unsupported:
        return ""
    return f"{group.kind} {group.key}: {group.unsupported} is not supported, so none of its pods is placed"

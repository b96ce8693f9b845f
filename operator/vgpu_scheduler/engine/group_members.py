"""The waiting pods of a group that are placed together: their classes, and how many of them nodes have room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.domains import GroupRoom
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_capacity import capacity_for
from vgpu_scheduler.groups import rank
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision

_MANY: Final = 1_000_000
"""Upper bound of the pods on a node where nothing else bounds them."""


class UnplacedMembers(NamedTuple):
    """Pods of one class for which there is not enough room.

    Attributes
    ----------
    pod
        One of them.
    number
        How many of them wait.
    scarcest
        What nodes have the least of; see :class:`PodCapacity`.
    """

    pod: Pod
    number: int
    scarcest: str


class GroupMembers:
    """The waiting pods of a group.

    Parameters
    ----------
    algorithm
        Decides the pods.
    group
        The status of the group.

    Attributes
    ----------
    pods
        The waiting pods by UID.
    class_of
        The class of each pod, by UID: the order among pods of one class does not matter.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, group: GroupStatus) -> None:
        self._algorithm = algorithm
        self.group = group
        self.pods = {pod.uid: pod for pod in group.waiting}
        self._classes = {pod.uid: algorithm.classes.of(pod) for pod in group.waiting}
        self.class_of: dict[str, Hashable] = {
            uid: None if isinstance(found, RefusedClass) else found.node for uid, found in self._classes.items()
        }
        self._by_class: dict[Hashable, list[Pod]] = {}
        for pod in sorted(group.waiting, key=lambda pod: (rank(pod) or (), pod.name, pod.uid)):
            self._by_class.setdefault(self.class_of[pod.uid], []).append(pod)
        self._capacities = {
            kind: capacity_for(algorithm.classes, pods[0], _MANY) for kind, pods in self._by_class.items()
        }

    def placed_rows(self) -> NDArray[np.int64]:
        """Return the rows of the nodes on which pods of the group are placed, shape (n,)."""
        known = (self._algorithm.state.nodes.row(node) for node in self.group.nodes)
        return np.array([row for row in known if row is not None], dtype=np.int64)

    @cached_property
    def room(self) -> GroupRoom:
        """Upper bounds of how many pods fit; unlimited while room is kept for any pods, as these may be among them."""
        waiting = np.array([len(pods) for pods in self._by_class.values()], dtype=np.int64)
        max_pods = np.stack([each.counts for each in self._capacities.values()])
        max_pods = np.full_like(max_pods, _MANY) if self._algorithm.state.holds else max_pods
        return GroupRoom(waiting, max_pods, self.group.followed_by)

    def equivalence(self) -> Hashable:
        """Return a value that is equal for groups that get the same answer.

        Returns
        -------
        Hashable
            None if the group is unique: some of its pods are placed, have room of their own, are refused, or have
            constraints across nodes (what pods of the group say of each other is not part of their classes).
        """
        if self.group.placed:
            return None
        found = Counter[Hashable]()
        for pod in self.group.waiting:
            pod_class = self._classes[pod.uid]
            if (
                isinstance(pod_class, RefusedClass)
                or pod.nominated_node_name
                or self._algorithm.state.holds.get(pod.uid)
            ):
                return None
            if pod_class.cluster is not None:
                return None
            found[pod_class.equivalence(pod)] += 1
        # Quotas may admit each pod of a namespace alone, but not all of them together.
        return self.group.key.namespace, self.group.needed, self.group.followed_by, frozenset(found.items())

    @cached_property
    def hardest_first(self) -> list[Pod]:
        """The pods in the order in which they are placed: those that fit on the fewest nodes first.

        Ties: the most devices first, then the largest amounts of each. Pods of one class are ordered by their index,
        else by name.
        """
        return [pod for each in self._hardest_classes for pod in self._by_class[each]]

    @cached_property
    def _hardest_classes(self) -> list[Hashable]:
        """The classes of pods, the hardest to place first."""
        return sorted(self._by_class, key=self._hardness)

    def lacking(self) -> list[UnplacedMembers]:
        """Return the classes with more waiting pods than all nodes have room for, the hardest to place first."""
        counted = ((self._by_class[each], self._capacities[each]) for each in self._hardest_classes)
        return [
            UnplacedMembers(pods[0], len(pods), found.scarcest)
            for pods, found in counted
            if int(found.counts.sum()) < len(pods)
        ]

    def by_rank(self, decisions: Sequence[Decision], keys: Sequence[str]) -> list[tuple[Pod, NDArray[np.int64]]] | None:
        """Return the placed pods, each with the row of the node that it should have by its index.

        Nodes are ordered by their label values, then by name.

        Returns
        -------
        list or None
            None if the pods have these nodes already, or have no indexes.
        """
        node_of = {each.uid: each.placement.node for each in decisions if each.placement is not None}
        wanted = dict(node_of)
        for pods in self._by_class.values():
            theirs = [pod for pod in pods if pod.uid in node_of and rank(pod) is not None]
            places = sorted((node_of[pod.uid] for pod in theirs), key=lambda node: self._place(node, keys))
            wanted.update((pod.uid, node) for pod, node in zip(theirs, places, strict=True))
        if wanted == node_of:
            return None
        rows = ((uid, self._algorithm.state.nodes.row(node)) for uid, node in wanted.items())
        return [(self.pods[uid], np.array([row], dtype=np.int64)) for uid, row in rows if row is not None]

    def _place(self, node: str, keys: Sequence[str]) -> tuple[tuple[str, ...], str]:
        nodes = self._algorithm.state.nodes
        row, found = nodes.row(node), []
        for key in keys:
            number = -1 if row is None else int(nodes.labels.column(key).ids[row])
            found.append(nodes.labels.column(key).values[number] if number >= 0 else "")
        return tuple(found), node

    def _hardness(self, kind: Hashable) -> tuple[int, int, tuple[int, ...], str, str]:
        first = self._by_class[kind][0]
        claimed = self._algorithm.classes.claimed(first)
        if claimed is None:
            return 0, 0, (), first.name, first.uid  # the pod is refused, and its group with it
        claims = [claim for container in claimed.claims for claim in container.claims]
        amounts = max(((*claim.amounts, *claim.percent) for claim in claims), default=())
        fits_on, devices = int(np.count_nonzero(self._capacities[kind].counts)), sum(claim.count for claim in claims)
        return fits_on, -devices, tuple(-amount for amount in amounts), first.name, first.uid

"""Filters nodes with the pods that are nominated to them by preemption, and without.

As in kube-scheduler, pods of the same or higher priority that are nominated to a node count as present there (and only
there) when others are filtered. Since they may never arrive, a node has to pass without them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart
from vgpu_scheduler.engine.node_fit import NodeFit
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, ClusterEvent
from vgpu_scheduler.predicates import FilterError, Reason, Rejection, RejectionCodes
from vgpu_scheduler.state import Reservation, State

_DEVICES = "Devices"


class NominatedPods:
    """Filters nodes for a pod together with the pods that are nominated to them.

    Parameters
    ----------
    state
        The cluster's state.
    node_fit
        Tells what a nominated pod would hold. If it has to wait for cards, only its requests count.
    priority
        Returns the priority that ranks a pod: its group's, or its own.
    """

    def __init__(self, state: State, node_fit: NodeFit, priority: Callable[[Pod], int]) -> None:
        self._state = state
        self._node_fit = node_fit
        self._priority = priority

    def reject(self, pod: Pod, node: NodePart, cluster: ClusterPart | None, found: Filtered) -> None:
        """Record in ``found`` which nodes reject a pod beside the pods that are nominated to them.

        Parameters
        ----------
        node, cluster
            The filters of the pod; the columns stay unchanged.
        """
        for name in self._state.nominations if found.pre_filter_reason is None else ():
            row = self._state.nodes.row(name)
            if row is None or row not in found.rows:
                continue
            if (rejection := self.rejection_on(name, pod, node, cluster)) is not None:
                found.reject(row, rejection)

    def rejection_on(
        self,
        name: str,
        pod: Pod,
        node: NodePart,
        cluster: ClusterPart | None,
        without: Sequence[Reservation] = (),
        added: Sequence[Reservation] = (),
    ) -> Rejection | None:
        """Return why a node rejects a pod beside the pods that are nominated to it; None if it does not.

        None, too, if no nominated pods count.

        Parameters
        ----------
        without
            Reservations assumed to be gone there; across nodes they are not counted already.
        added
            Reservations assumed to be there; across nodes they are counted already.
        """
        row, others = self._state.nodes.row(name), self._count_for(pod, self._state.nominations.on(name))
        if row is None or not others:
            return None
        nominated: list[Reservation] = []
        for other in others:
            with self._state.counting_across_nodes(added=tuple(nominated)):
                reservation = self._node_fit.would_reserve(other, name, [*added, *nominated], without)
            nominated.append(reservation)
        with self._state.counting_across_nodes(added=nominated):
            in_use = self._state.node_usage_if.on(row, without, [*added, *nominated])
            return rejection_of(pod, row, node.if_in_use(self._state, row, in_use), cluster)

    def _count_for(self, pod: Pod, uids: Iterable[str]) -> list[Pod]:
        state, least = self._state, self._priority(pod)
        known = (state.pod(uid) for uid in uids if state.holds.get(uid) is None)  # holds are charged already
        waiting = (each for each in known if each and state.reservation(each.uid) is None)
        others = [
            (-own, each.uid, each) for each in waiting if each.uid != pod.uid and (own := self._priority(each)) >= least
        ]
        return [each for *_, each in sorted(others, key=lambda other: other[:2])]


def rejection_of(pod: Pod, row: int, node: NodePart, cluster: ClusterPart | None) -> Rejection | None:
    """Return why a node for which the node part has been evaluated rejects a pod; None if it does not."""
    rows = np.array([row], dtype=np.int64)
    if node.rejected[row] != RejectionCodes.PASSES:
        return node.predicates.rejections[int(node.rejected[row])]
    try:
        _, rejected = (rows, []) if cluster is None else cluster.evaluate(pod, rows)
    except FilterError as error:
        return Rejection((Reason(_DEVICES, str(error), ClusterEvent.NONE, resolvable=False),), resolvable=False)
    if rejected:
        rejections, _, codes = rejected[0]
        return rejections[int(codes[0])]
    if node.feasible[row]:
        return None
    return card_rejection(node.fit.counts[row])


def card_rejection(counts: NDArray[np.integer]) -> Rejection:
    """Return why the cards of a node reject a pod.

    Parameters
    ----------
    counts
        Number of cards by reason; shape (REASONS,).
    """
    reasons = tuple(CardReason(number) for number in np.flatnonzero(counts).tolist())
    return Rejection(reasons, any(reason.resolvable for reason in reasons))

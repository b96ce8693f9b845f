"""Room that a preemption made for another pod: nodes are filtered with that pod on them, and without.

As in kube-scheduler, pods of the same or higher priority that are nominated to a node count as present there, and only
there, when others are filtered; and since they may never arrive, a node has to pass without them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart
from vgpu_scheduler.engine.on_node import OnNode
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, ClusterEvent
from vgpu_scheduler.predicates import FilterError, Reason, Rejection, RejectionCodes
from vgpu_scheduler.state import Reservation, State

__all__ = ["NominatedPods", "card_rejection", "rejection_of"]

_DEVICES = "Devices"


class NominatedPods:
    """Filters nodes for a pod with those that are nominated to them.

    Parameters
    ----------
    state
        What is known.
    on_node
        Tells what a nominated pod would hold. Of one that has to wait for cards, only the requests count.
    """

    def __init__(self, state: State, on_node: OnNode) -> None:
        self._state = state
        self._on_node = on_node

    def reject(self, pod: Pod, node: NodePart, cluster: ClusterPart | None, found: Filtered) -> None:
        """Note in ``found`` which nodes do not let a pod pass beside the pods that are nominated to them.

        Parameters
        ----------
        node, cluster
            The filters of the pod; the columns stay as they are.
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
        """Return why a node does not let a pod pass beside the pods that are nominated to it; None if it does.

        None, too, if no nominated pods count for it.

        Parameters
        ----------
        without
            What is not in use there for the time of the question; it is not counted elsewhere, either.
        added
            What is in use there, too, for that time, and counted elsewhere.
        """
        row, others = self._state.nodes.row(name), self._count_for(pod, self._state.nominations.on(name))
        if row is None or not others:
            return None
        nominated: list[Reservation] = []
        for other in others:
            with self._state.counting_across_nodes(added=tuple(nominated)):
                held = self._on_node.would_reserve(other, name, [*added, *nominated], without)
            nominated.append(held)
        with self._state.counting_across_nodes(added=nominated):
            in_use = self._state.node_usage_if.on(row, without, [*added, *nominated])
            return rejection_of(pod, row, node.if_in_use(self._state, row, in_use), cluster)

    def _count_for(self, pod: Pod, uids: Iterable[str]) -> list[Pod]:
        state = self._state
        known = (state.pod(uid) for uid in uids if state.holds.get(uid) is None)  # what is kept for one is charged
        waiting = (each for each in known if each and state.reservation(each.uid) is None)
        others = [each for each in waiting if each.uid != pod.uid and each.priority >= pod.priority]
        return sorted(others, key=lambda each: (-each.priority, each.uid))


def rejection_of(pod: Pod, row: int, node: NodePart, cluster: ClusterPart | None) -> Rejection | None:
    """Return why a node does not let a pod pass, whose node part has been asked about it; None if it does."""
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
    """Return why the cards of a node keep a pod away.

    Parameters
    ----------
    counts
        How many cards give each reason, or 0 for those that none gives; shape (REASONS,).
    """
    cards = [CardReason(number) for number in np.flatnonzero(counts).tolist()]
    reasons = tuple(Reason(_DEVICES, card.text, card.helped_by, resolvable=card.resolvable) for card in cards)
    return Rejection(reasons, any(card.resolvable for card in cards))

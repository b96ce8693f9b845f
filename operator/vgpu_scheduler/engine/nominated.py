"""Room that a preemption made for another pod: nodes are filtered with that pod on them, and without.

As in kube-scheduler, pods of the same or higher priority that are nominated to a node count as present there, and only
there, when others are filtered; and since they may never arrive, a node has to pass without them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from vgpu_scheduler.allocators import count_reasons
from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart
from vgpu_scheduler.engine.on_node import OnNode
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import Reason, Rejection, Rejections
from vgpu_scheduler.state import State

__all__ = ["NominatedPods"]

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
            The filters of the pod; the columns stay up to date.
        """
        for name, uids in self._state.nominations if found.pre_filter_reason is None else ():
            row = self._state.nodes.row(name)
            others = list(self._count_for(pod, uids))
            if row is None or not others:
                continue
            with self._present(others, name):
                rejection = self._rejection(pod, row, node, cluster)
            node.refresh(self._state, np.array([row], dtype=np.int64))
            if rejection is not None:
                found.reject(row, rejection)

    def _count_for(self, pod: Pod, uids: Iterable[str]) -> Iterator[Pod]:
        known = (self._state.pod(uid) for uid in uids)
        waiting = (each for each in known if each and self._state.reservation(each.uid) is None)
        others = [each for each in waiting if each.uid != pod.uid and each.priority >= pod.priority]
        yield from sorted(others, key=lambda each: (-each.priority, each.uid))

    @contextmanager
    def _present(self, others: list[Pod], node: str) -> Iterator[None]:
        """Have pods hold what they would get of a node, one beside the other, for the time of a question."""
        with ExitStack() as questions:
            for other in others:
                questions.enter_context(self._state.having(self._on_node.would_hold(other, node)))
            yield

    def _rejection(self, pod: Pod, row: int, node: NodePart, cluster: ClusterPart | None) -> Rejection | None:
        rows = np.array([row], dtype=np.int64)
        node.refresh(self._state, rows)
        if node.rejected[row] != Rejections.PASSES:
            return node.predicates.rejections[int(node.rejected[row])]
        _, rejected = (rows, []) if cluster is None else cluster.evaluate(pod, rows)
        if rejected:
            rejections, _, codes = rejected[0]
            return rejections[int(codes[0])]
        if node.feasible[row]:
            return None
        cards = count_reasons(node.fit.counts[rows])
        return Rejection(
            tuple(Reason(_DEVICES, card.text, card.hint, resolvable=True) for card in cards), resolvable=True
        )

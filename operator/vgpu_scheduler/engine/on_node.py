"""Whether a pod fits on one node, what it would get there, may it stay where it was placed, and who blocks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.closed_nodes import ClosedNodes, ClosureCause
from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart, Refused, SchedulableClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement, Usage
from vgpu_scheduler.predicates import volume_plan
from vgpu_scheduler.state import InUse, Phase, Reservation

__all__ = ["OnNode", "pods_on_unknown_cards"]


class OnNode:
    """Asks one node about a pod.

    Parameters
    ----------
    classes
        What pods ask for, and of which state.
    closed_nodes
        The nodes whose device plugins serve nobody; none without it.
    """

    def __init__(self, classes: EquivalenceClasses, closed_nodes: ClosedNodes | None = None) -> None:
        self.state = classes.state
        self._classes = classes
        self._dialects = classes.dialects
        self._closed_nodes = closed_nodes

    def refit_assumed(self, pod: Pod, held: Reservation) -> Placement | None:
        """Return a placement of an assumed pod on its node in place of what it holds there; None if there is none."""
        if isinstance(self._classes.of(pod), Refused):  # made before anything is left out of what pods hold
            return None
        with self.state.counting_across_nodes(without=[held]):
            pod_class = self._classes.of(pod)
            if isinstance(pod_class, Refused):
                return None
            return self._placement_with(pod, pod_class, held.node, [held])

    def fits_without(self, pod: Pod, node: str, occupants: Iterable[str]) -> Placement | None:
        """Return a placement of a pod on a node if some pods were gone, or None if it would not go there.

        A node that is closed to the pod stays so. The ledger stays as it is.

        Parameters
        ----------
        occupants
            UIDs of pods; those that hold nothing make no difference.
        """
        return self.fits_once_gone(
            pod, node, [held for uid in occupants if (held := self.state.reservation(uid)) is not None]
        )

    def fits_once_gone(
        self, pod: Pod, node: str, gone: Sequence[Reservation], open_: Collection[str] | None = None
    ) -> Placement | None:
        """Return a placement of a pod on a node if what some pods hold there were free; see :meth:`fits_without`.

        Parameters
        ----------
        open_
            The UIDs of the pods whose room is free for it; without it, its own and those of lower priorities.
        """
        pod_class = self._classes.of(pod)
        if isinstance(pod_class, Refused) or node in self.closed_to(pod_class, pod):
            return None
        room = self.state.holds.open_to(node, pod.uid, pod.priority) if open_ is None else open_
        without, added = self.state.adjustment_if_gone(node, gone, room)
        if pod_class.cluster is None and not pod_class.limited:
            return self._placement_with(pod, pod_class, node, without, added)
        with self.state.counting_across_nodes(without, added):
            pod_class = self._classes.of(pod)  # what quotas leave is part of it
            if isinstance(pod_class, Refused):
                return None
            return self._placement_with(pod, pod_class, node, without, added)

    def would_reserve(
        self, pod: Pod, node: str, added: Sequence[Reservation] = (), without: Sequence[Reservation] = ()
    ) -> Reservation:
        """Return what a pod would hold on a node; of one that does not fit there, only the requests.

        Parameters
        ----------
        added
            Reservations that are taken to be there beside those of the state; elsewhere they are counted already.
        without
            Reservations of the state that are taken to be gone; elsewhere they are counted no more.
        """
        uses, spec, placement = dict[str, Usage](), pod.spec, None
        pod_class = self._classes.of(pod)
        if not isinstance(pod_class, Refused):
            placement = self._placement_with(pod, pod_class, node, without, added)
        if placement is not None and placement.dialect:
            uses = {placement.dialect: placement_usage(placement, self._classes.claims(pod))}
        return Reservation(pod.uid, pod.key, node, Phase.ASSUMED, uses, spec.requests, placement, ports=spec.host_ports)

    def _placement_with(
        self,
        pod: Pod,
        pod_class: SchedulableClass,
        node: str,
        without: Iterable[Reservation],
        added: Iterable[Reservation] = (),
    ) -> Placement | None:
        """Return a placement with other amounts in use of the node; what else pods count for is as it is counted."""
        row = self.state.nodes.row(node)
        if row is None:
            return None
        in_use = self.state.node_usage_if.on(row, [held for held in without if held.node == node], added)
        return self._placement_if_it_fits(
            pod, pod_class, row, pod_class.node.if_in_use(self.state, row, in_use), in_use
        )

    def _placement_if_it_fits(
        self, pod: Pod, pod_class: SchedulableClass, row: int, part: NodePart, in_use: InUse | None = None
    ) -> Placement | None:
        """Return what a pod gets of a node, of which its node part was asked; None if it does not fit.

        None, too, if the placement could not be written on the pod.
        """
        if not part.feasible[row] or not (pod_class.cluster is None or pod_class.cluster.lets(pod, row)):
            return None
        placement = self.placement(pod, pod_class, row, in_use)
        return None if metadata_problem(pod, self._dialects.encoded(placement, pod)) else placement

    def may_stay(self, pod: Pod, cluster: ClusterPart, placement: Placement) -> bool:
        """Tell whether what depends on more than its node still lets an assumed pod be where it was placed.

        Of what was to be done about its claims some may have been done since; something else must not be needed now.
        """
        row, held = self.state.nodes.row(placement.node), self.state.reservation(pod.uid)
        if row is None or held is None:
            return False
        with self.state.counting_across_nodes(without=[held]):
            return cluster.lets(pod, row) and volume_plan(pod, row, self.state).is_part_of(placement.volumes)

    def placement(self, pod: Pod, pod_class: SchedulableClass, row: int, in_use: InUse | None = None) -> Placement:
        """Return what a pod gets of a node that fits, with other amounts in use if they are given."""
        name, volumes = self.state.nodes.name(row), volume_plan(pod, row, self.state)
        if pod_class.node.allocator is None:
            return Placement(name, ((),) * len(pod_class.claimed.claims), volumes=volumes)
        dialect = pod_class.node.dialect
        columns = None if in_use is None else in_use.devices[dialect]
        containers = pod_class.node.allocator.place(self.state.matrix(dialect), row, columns)
        assert containers is not None, f"the cards of node {name} changed within a decision"
        return Placement(name, containers, dialect, volumes)

    def closed_to(self, pod_class: SchedulableClass, pod: Pod) -> Mapping[str, ClosureCause]:
        """Return the nodes where a pod would wait for its device plugin in vain, or be rejected, and why."""
        if not self._closed_nodes:
            return {}
        closed = dict.fromkeys(self._closed_nodes.kubelet_rejections.closed_to(pod), ClosureCause.REJECTED_BY_KUBELET)
        side, claims = self._dialects.node_side, pod_class.claimed.claims
        if pod_class.node.allocator is not None:
            serialized = side.serializes(claims)
            closed |= self._closed_nodes.closed_to(side.lock(claims), side.plugin_key(claims), serialized=serialized)
        return closed

    def open_to(self, pod_class: SchedulableClass, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out the rows of nodes that are closed to a pod."""
        closed = [row for name in self.closed_to(pod_class, pod) if (row := self.state.nodes.row(name)) is not None]
        return rows[~np.isin(rows, closed)] if closed else rows


ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotation keys and values of an object together (apimachinery's ``TotalAnnotationSizeLimitB``)."""
DECISION_ROOM = 8 * 1024
"""Bytes kept free for the decision record, which names up to five policies for each section, and the time stamps."""


def metadata_problem(pod: Pod, annotations: Mapping[str, str]) -> str:
    """Return why the annotations must not be written onto the pod, or an empty text."""
    merged = {**pod.annotations, **annotations}
    size = sum(map(len, map(str.encode, (*merged, *merged.values()))))
    if size + DECISION_ROOM > ANNOTATIONS_LIMIT:
        return (
            f"metadata.annotations would be {size} bytes with the allocation, more than the {ANNOTATIONS_LIMIT} that "
            "the API server accepts"
        )
    return ""


_ASKED: Final = 16
"""Of how many it is asked at most whether they are to blame."""
_NAMED: Final = 3


def pods_on_unknown_cards(on_node: OnNode, pod: Pod, part: NodePart, rows: NDArray[np.int64]) -> str:
    """Return a sentence about pods on closed cards without which a pod would fit; empty if there are none.

    Parameters
    ----------
    part
        What the pod asks of a node.
    rows
        The nodes that pass all filters but that for cards.
    """
    closing = on_node.state.closing_cards() if part.allocator is not None else []
    if not closing:
        return ""
    full = {on_node.state.nodes.name(row) for row in rows[~part.feasible[rows]].tolist()}
    suspects = [held for held in closing if held.node in full][:_ASKED]
    guilty = [held for held in suspects if on_node.fits_without(pod, held.node, [held.uid]) is not None][:_NAMED]
    named = ", ".join(f"{held.pod} on node {held.node}" for held in guilty)
    return f" Cards are closed because nobody can tell which of them these pods are on: {named}." if named else ""

"""Checks one node for a pod: whether it fits, its placement, whether it may stay there, and which pods block it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.closures import ClosureCause
from vgpu_scheduler.engine.equivalence import ClusterPart, NodePart, RefusedClass, SchedulableClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement, Usage, shown_pod
from vgpu_scheduler.predicates import volume_plan
from vgpu_scheduler.state import InUse, Phase, Reservation


class NodeFit:
    """Checks one node for a pod.

    Parameters
    ----------
    classes
        Reads what pods claim, and has the state.
    closed_nodes
        The closed nodes.
    priority
        Returns the priority that ranks a pod: its group's, or its own.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        closed_nodes: ClosedNodes,
        priority: Callable[[Pod], int],
    ) -> None:
        self.state = classes.state
        self._classes = classes
        self._dialects = classes.dialects
        self._closed_nodes = closed_nodes
        self._priority = priority

    def refit_assumed(self, pod: Pod, reservation: Reservation) -> Placement | None:
        """Return a new placement of an assumed pod on its node, not counting its reservation; None if there is none."""
        if isinstance(self._classes.of(pod), RefusedClass):  # make the class before any reservation is left out
            return None
        with self.state.counting_across_nodes(without=[reservation]):
            pod_class = self._classes.of(pod)
            if isinstance(pod_class, RefusedClass):
                return None
            return self._placement_with(pod, pod_class, reservation.node, [reservation])

    def fits_without(self, pod: Pod, node: str, occupants: Iterable[str]) -> Placement | None:
        """Return a placement of a pod on a node without the occupants; None if it would not be placed there.

        A node that is closed to the pod stays closed. The ledger stays unchanged.

        Parameters
        ----------
        occupants
            UIDs of pods; pods without reservations make no difference.
        """
        gone = [reservation for uid in occupants if (reservation := self.state.reservation(uid)) is not None]
        return self.fits_once_gone(pod, node, gone, self.state.holds.usable_by(node, pod.uid, self._priority(pod)))

    def fits_once_gone(
        self, pod: Pod, node: str, gone: Sequence[Reservation], usable_holds: Collection[str] | None = None
    ) -> Placement | None:
        """Return a placement of a pod on a node without the given reservations; see :meth:`fits_without`.

        Parameters
        ----------
        usable_holds
            The UIDs of the pods whose holds are free for the pod. By default its own and those of pods of lower
            priority than ``pod.priority``, which preemption has replaced where another one counts.
        """
        pod_class = self._classes.of(pod)
        if isinstance(pod_class, RefusedClass) or node in self.closed_to(pod_class, pod):
            return None
        room = self.state.holds.usable_by(node, pod.uid, pod.priority) if usable_holds is None else usable_holds
        without, added = self.state.adjustment_if_gone(node, gone, room)
        if pod_class.cluster is None and not pod_class.limited:
            return self._placement_with(pod, pod_class, node, without, added)
        with self.state.counting_across_nodes(without, added):
            pod_class = self._classes.of(pod)  # quota remainders are part of the class
            if isinstance(pod_class, RefusedClass):
                return None
            return self._placement_with(pod, pod_class, node, without, added)

    def would_reserve(
        self, pod: Pod, node: str, added: Sequence[Reservation] = (), without: Sequence[Reservation] = ()
    ) -> Reservation:
        """Return what a pod would hold on a node; if it does not fit there, only its requests.

        Parameters
        ----------
        added
            Reservations assumed to be on the node; across nodes they are counted already.
        without
            Reservations assumed to be gone; across nodes they are not counted any more.
        """
        uses, placement = dict[str, Usage](), None
        pod_class = self._classes.of(pod)
        if not isinstance(pod_class, RefusedClass):
            placement = self._placement_with(pod, pod_class, node, without, added)
        if placement is not None and placement.dialect:
            uses = {placement.dialect: Usage.of_placement(placement, self._classes.claims(pod))}
        return Reservation.of(pod, node, Phase.ASSUMED, uses, pod.spec.requests, placement)

    def _placement_with(
        self,
        pod: Pod,
        pod_class: SchedulableClass,
        node: str,
        without: Iterable[Reservation],
        added: Iterable[Reservation] = (),
    ) -> Placement | None:
        """Return a placement with other usage of the node; counts across nodes are as the caller has set them."""
        row = self.state.nodes.row(node)
        if row is None:
            return None
        in_use = self.state.node_usage_if.on(
            row, [reservation for reservation in without if reservation.node == node], added
        )
        return self._placement_if_it_fits(
            pod, pod_class, row, pod_class.node.if_in_use(self.state, row, in_use), in_use
        )

    def _placement_if_it_fits(
        self, pod: Pod, pod_class: SchedulableClass, row: int, part: NodePart, in_use: InUse | None = None
    ) -> Placement | None:
        """Return a placement on a node for which the node part has been evaluated; None if the pod does not fit.

        None, too, if the placement could not be written on the pod.
        """
        if not part.feasible[row] or not (pod_class.cluster is None or pod_class.cluster.lets(pod, row)):
            return None
        placement = self.placement(pod, pod_class, row, in_use)
        return None if metadata_problem(pod, self._dialects.encoded(placement, pod)) else placement

    def may_stay(self, pod: Pod, cluster: ClusterPart, placement: Placement) -> bool:
        """Tell whether the filters that depend on other nodes still let an assumed pod stay on its node.

        Some of its volume plan may have been carried out since, but it must not need anything else now.
        """
        row, reservation = self.state.nodes.row(placement.node), self.state.reservation(pod.uid)
        if row is None or reservation is None:
            return False
        with self.state.counting_across_nodes(without=[reservation]):
            return cluster.lets(pod, row) and volume_plan(pod, row, self.state).is_part_of(placement.volumes)

    def placement(self, pod: Pod, pod_class: SchedulableClass, row: int, in_use: InUse | None = None) -> Placement:
        """Return the placement of a pod on a node that fits, with the given usage instead of the present one."""
        name, volumes = self.state.nodes.name(row), volume_plan(pod, row, self.state)
        if pod_class.node.allocator is None:
            return Placement(name, ((),) * len(pod_class.claimed.claims), volumes=volumes)
        dialect = pod_class.node.dialect
        columns = None if in_use is None else in_use.devices[dialect]
        containers = pod_class.node.allocator.place(self.state.matrix(dialect), row, columns)
        assert containers is not None, f"the cards of node {name} changed within a decision"
        return Placement(name, containers, dialect, volumes)

    def closed_to(self, pod_class: SchedulableClass, pod: Pod) -> Mapping[str, ClosureCause]:
        """Return the nodes that are closed to a pod, with the cause."""
        if not self._closed_nodes:
            return {}
        closed = dict.fromkeys(self._closed_nodes.kubelet_rejections.closed_to(pod), ClosureCause.REJECTED_BY_KUBELET)
        side, claims = self._dialects.node_side, pod_class.claimed.claims
        if pod_class.node.allocator is not None:
            serialized = side.serializes(claims)
            closed |= self._closed_nodes.closed_to(side.lock(claims), side.plugin_key(claims), serialized=serialized)
        return closed

    def without_closed(self, pod_class: SchedulableClass, pod: Pod, rows: NDArray[np.int64]) -> NDArray[np.int64]:
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


_MOST_SUSPECTS: Final = 16
"""Maximum number of pods that are tried as the cause."""
_NAMED: Final = 3


def pods_on_unknown_cards(node_fit: NodeFit, pod: Pod, part: NodePart, rows: NDArray[np.int64]) -> str:
    """Name pods on closed cards without which a pod would fit, in a sentence for its readers; empty if there are none.

    Parameters
    ----------
    part
        The node part of the pod.
    rows
        The nodes that pass all filters but the card filter.
    """
    closing = node_fit.state.closing_cards() if part.allocator is not None else []
    if not closing:
        return ""
    full = {node_fit.state.nodes.name(row) for row in rows[~part.feasible[rows]].tolist()}
    suspects = [reservation for reservation in closing if reservation.node in full][:_MOST_SUSPECTS]
    guilty = [
        reservation
        for reservation in suspects
        if node_fit.fits_without(pod, reservation.node, [reservation.uid]) is not None
    ][:_NAMED]
    named = ", ".join(f"{shown_pod(pod.namespace, each.pod, each.uid)} on node {each.node}" for each in guilty)
    return f" Cards are closed because it is not known which of them these pods use: {named}." if named else ""

"""What placements that are assumed rest on, so that most need no second look before they are bound."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.kube import Pod, PodSpec
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["Assumptions"]

_Basis = tuple[PodSpec, Mapping[str, str], int, int]
"""What a pod asks for (spec and annotations), the version of its node's columns, the number of its list of devices."""


class Assumptions:
    """The pods with an assumed placement, each with what it was decided on.

    Parameters
    ----------
    nodes, matrices
        What is known of the nodes, and of their devices by dialect; it is only read.
    """

    def __init__(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> None:
        self._nodes = nodes
        self._matrices = matrices
        self._bases: dict[str, _Basis] = {}
        self._device_lists: dict[str, int] = {}
        self._lists = 0
        """Counts the lists of all nodes: one of a node that is made anew never has the number of an earlier one."""

    def note(self, pod: Pod, node: str) -> None:
        """Note that a placement on a node holds for the pod and the node as they are now."""
        self._bases[pod.uid] = self._basis(pod, node)

    def drop(self, uid: str) -> None:
        """Forget a pod that is assumed no more."""
        self._bases.pop(uid, None)

    def devices_listed(self, node: str) -> None:
        """Note that the list of devices of a node has changed."""
        self._lists += 1
        self._device_lists[node] = self._lists

    def node_went(self, node: str) -> None:
        """Forget a node that is gone; what rests on its list of devices does not hold any more."""
        self._device_lists.pop(node, None)

    def holds(self, held: Reservation, pod: Pod) -> bool:
        """Tell whether an assumed placement needs no second look; see :meth:`State.unchanged_since_assumed`."""
        row = self._nodes.row(held.node)
        if row is None or self._bases.get(held.uid) != self._basis(pod, held.node):
            return False
        for devices in self._matrices.values():
            if devices.unexplained(row):
                return False  # somebody may be anywhere on a card of the node
            if devices.over_capacity(row):
                return False
        if self._nodes.ports.contested(row, held.ports):
            return False
        return not self._over_allocatable(row, held.requests)

    def _basis(self, pod: Pod, node: str) -> _Basis:
        row = self._nodes.row(node)
        version = -1 if row is None else int(self._nodes.static_version[row])
        return (pod.spec, pod.annotations, version, self._device_lists.get(node, 0))

    def _over_allocatable(self, row: int, requests: Mapping[str, int]) -> bool:
        used, allocatable, columns = self._nodes.used, self._nodes.allocatable, self._nodes.resources
        known = (columns[name] for name in ("pods", *requests) if name in columns)
        return any(used[row, column] > allocatable[row, column] for column in known)

    def copy(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> Assumptions:
        """Return an independent copy over copies of what is known."""
        twin = Assumptions(nodes, matrices)
        twin._bases = dict(self._bases)
        twin._device_lists = dict(self._device_lists)
        twin._lists = self._lists
        return twin

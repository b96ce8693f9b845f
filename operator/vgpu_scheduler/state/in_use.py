"""What would be in use of a node if some pods were gone, or others were there: for questions, not for the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import DeviceColumns
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.node_resources import HostPorts
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["HypotheticalUsage", "InUse"]


@dataclass(frozen=True, slots=True)
class InUse:
    """The amounts in use that a fit compares what nodes have with.

    Attributes
    ----------
    resources
        What is used of each resource of each node row; shape as ``NodeTable.used``.
    ports
        The host ports that are taken.
    devices
        The devices of each dialect with what is used of them.
    """

    resources: NDArray[np.int64]
    ports: HostPorts
    devices: Mapping[str, DeviceColumns]


class HypotheticalUsage:
    """Says what would be in use of one node at a time.

    It has columns of its own, of which only the row that was asked about last means anything: a question costs what is
    on its node, and the ledger, its versions and what was computed from it stay as they are.

    Parameters
    ----------
    nodes, matrices
        What is in use now.
    """

    def __init__(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> None:
        self._nodes = nodes
        self._matrices = matrices
        self._resources = np.empty((0, 0), dtype=np.int64)
        self._devices: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}

    def on(self, row: int, without: Iterable[Reservation] = (), added: Iterable[Reservation] = ()) -> InUse:
        """Return what would be in use of a node; void when the next question is asked.

        Parameters
        ----------
        row
            The row of the node.
        without
            Reservations there that would be gone.
        added
            Reservations that would be there, too.
        """
        changes = [*((held, -1) for held in without), *((held, 1) for held in added)]
        used = self._nodes.used
        if self._resources.shape != used.shape:
            self._resources = np.empty_like(used)
        self._resources[row] = used[row]
        for held, sign in changes:
            self._nodes.resources.charge_in(self._resources[row], held.requests, held.pods, sign)
        devices = {name: self._charged(name, matrix, row, changes) for name, matrix in self._matrices.items()}
        ports = self._nodes.ports
        if any(held.ports for held, _ in changes):
            ports = ports.on_row(row)
            for held, sign in changes:
                ports.charge(row, held.ports, sign)
        return InUse(self._resources, ports, devices)

    def charge(self, in_use: InUse, row: int, held: Reservation, sign: int) -> None:
        """Add (``sign`` = 1) or take back (-1) a reservation in what was just said to be in use of a node.

        It must have been among those that were gone, or are there, too.
        """
        self._nodes.resources.charge_in(in_use.resources[row], held.requests, held.pods, sign)
        if held.ports:
            in_use.ports.charge(row, held.ports, sign)
        for name, columns in in_use.devices.items():
            self._charge_devices(name, row, held, sign, columns)

    def _charge_devices(self, dialect: str, row: int, held: Reservation, sign: int, columns: DeviceColumns) -> None:
        matrix = self._matrices[dialect]
        for device, amounts in held.charges_on(dialect, matrix, row):
            matrix.charge(device, amounts, sign, columns)

    def _charged(
        self, dialect: str, matrix: DeviceMatrix, row: int, changes: Iterable[tuple[Reservation, int]]
    ) -> DeviceColumns:
        columns = matrix.columns
        own = self._devices.get(dialect)
        if own is None or own[0].shape != columns.used.shape:
            own = self._devices[dialect] = np.empty_like(columns.used), np.empty_like(columns.explained)
        cards = slice(int(columns.first[row]), int(columns.last[row]))
        own[0][cards], own[1][cards] = columns.used[cards], columns.explained[cards]
        supposed = columns._replace(used=own[0], explained=own[1])
        for held, sign in changes:
            self._charge_devices(dialect, row, held, sign, supposed)
        return supposed

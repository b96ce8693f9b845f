"""Hypothetical usage of a node: as if some pods were gone, or others were there. The ledger stays unchanged."""

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


@dataclass(frozen=True, slots=True)
class InUse:
    """The used amounts that a fit compares with the capacity of nodes.

    Attributes
    ----------
    resources
        Used amounts of each resource of each node row; shape as ``NodeTable.used``.
    ports
        The host ports that are taken.
    devices
        The devices of each dialect with their used amounts.
    """

    resources: NDArray[np.int64]
    ports: HostPorts
    devices: Mapping[str, DeviceColumns]


class HypotheticalUsage:
    """Computes hypothetical usage, one node at a time.

    It has columns of its own in which only the row of the last call is valid. A call costs only what is on that node,
    and leaves the ledger, its versions and caches unchanged.

    Parameters
    ----------
    nodes, matrices
        The current usage.
    """

    def __init__(self, nodes: NodeTable, matrices: Mapping[str, DeviceMatrix]) -> None:
        self._nodes = nodes
        self._matrices = matrices
        self._resources = np.empty((0, 0), dtype=np.int64)
        self._devices: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}

    def on(self, row: int, without: Iterable[Reservation] = (), added: Iterable[Reservation] = ()) -> InUse:
        """Return the hypothetical usage of a node; valid until the next call.

        Parameters
        ----------
        row
            The row of the node.
        without
            Reservations on the node to leave out.
        added
            Reservations to add.
        """
        changes = [*((reservation, -1) for reservation in without), *((reservation, 1) for reservation in added)]
        used = self._nodes.used
        if self._resources.shape != used.shape:
            self._resources = np.empty_like(used)
        self._resources[row] = used[row]
        for reservation, sign in changes:
            self._nodes.resources.charge_in(self._resources[row], reservation.requests, reservation.pods, sign)
        devices = {name: self._charged(name, matrix, row, changes) for name, matrix in self._matrices.items()}
        ports = self._nodes.ports
        if any(reservation.ports for reservation, _ in changes):
            ports = ports.on_row(row)
            for reservation, sign in changes:
                ports.charge(row, reservation.ports, sign)
        return InUse(self._resources, ports, devices)

    def charge(self, in_use: InUse, row: int, reservation: Reservation, sign: int) -> None:
        """Add a reservation to the usage that was just returned for a node (``sign`` = 1), or take it back (-1).

        The reservation must have been among ``without`` or ``added``.
        """
        self._nodes.resources.charge_in(in_use.resources[row], reservation.requests, reservation.pods, sign)
        if reservation.ports:
            in_use.ports.charge(row, reservation.ports, sign)
        for name, columns in in_use.devices.items():
            self._charge_devices(name, row, reservation, sign, columns)

    def _charge_devices(
        self, dialect: str, row: int, reservation: Reservation, sign: int, columns: DeviceColumns
    ) -> None:
        matrix = self._matrices[dialect]
        for device, amounts in reservation.charges_on(dialect, matrix, row):
            matrix.charge(device, amounts, sign, columns)

    def _charged(
        self, dialect: str, matrix: DeviceMatrix, row: int, changes: Iterable[tuple[Reservation, int]]
    ) -> DeviceColumns:
        columns = matrix.columns
        own = self._devices.get(dialect)
        if own is None or own[0].shape != columns.used.shape:
            own = self._devices[dialect] = np.empty_like(columns.used), np.empty_like(columns.consistent)
        cards = slice(int(columns.first[row]), int(columns.last[row]))
        own[0][cards], own[1][cards] = columns.used[cards], columns.consistent[cards]
        supposed = columns._replace(used=own[0], consistent=own[1])
        for reservation, sign in changes:
            self._charge_devices(dialect, row, reservation, sign, supposed)
        return supposed

"""Resources of nodes as columns, and host ports: allocatable amounts, and what pods use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import ANY_ADDRESS, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, HostPort

_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)

# One pod counts at most this much (2**52 bytes are 4 PiB), so that only thousands of absurd requests could overflow the
# int64 sum of a node.
_MOST_PER_POD: Final = 1 << 52


class NodeResources:
    """Amounts per node row and resource, cpu in milli and all else in whole units.

    Columns exist for resources that some node offers. Requests for other resources are kept aside until a column
    appears, so pods cannot make the table wider.

    Parameters
    ----------
    rows
        Number of rows.
    """

    def __init__(self, rows: int) -> None:
        self._columns: dict[str, int] = {name: index for index, name in enumerate(_FIRST)}
        self._aside: dict[int, Counter[str]] = {}
        # One contiguous line per resource: filters read few resources of many nodes.
        self._allocatable = np.zeros((len(_FIRST), rows), dtype=np.int64)
        self._used = np.zeros_like(self._allocatable)

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> Mapping[str, int]:
        """Column of each resource that has one."""
        return self._columns

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """Allocatable amounts of each row; shape (rows, resources). Columns are contiguous, rows are not."""
        return self._allocatable.T

    @property
    def used(self) -> NDArray[np.int64]:
        """What is charged to each row; shape (rows, resources)."""
        return self._used.T

    def offered(self, rows: NDArray[np.bool_]) -> frozenset[str]:
        """Return the resources of which one of the rows has more than 0."""
        most = self._allocatable[:, rows].max(axis=1, initial=0)
        return frozenset(name for name, column in self._columns.items() if most[column] > 0)

    # Changing --------------------------------------------------------------------------------------------------------

    def column(self, name: str) -> int:
        """Return the column of a resource, added if there is none."""
        column = self._columns.get(name)
        return self._add(name) if column is None else column

    def offer(self, row: int, allocatable: Mapping[str, int]) -> None:
        """Replace the allocatable amounts of a row."""
        for name in allocatable:
            self.column(name)
        self._allocatable[:, row] = 0
        for name, amount in allocatable.items():
            self._allocatable[self._columns[name], row] = amount

    def charge(self, row: int, requests: Mapping[str, int], pods: int, sign: int) -> None:
        """Count requests and pods on a row (``sign`` = 1), or take back exactly what was counted (-1)."""
        for name, amount in self.charge_in(self._used[:, row], requests, pods, sign):
            self._charge_aside(row, name, amount)

    def charge_in(
        self, used: NDArray[np.int64], requests: Mapping[str, int], pods: int, sign: int
    ) -> list[tuple[str, int]]:
        """Count requests and pods, or take them back, in a row of this table or of a copy; shape (resources,).

        Returns
        -------
        list
            The resources without a column, with their amounts.
        """
        aside = []
        for name, amount in requests.items():
            change = sign * min(amount, _MOST_PER_POD)
            column = self._columns.get(name)
            if column is not None:
                used[column] += change
            else:
                aside.append((name, change))
        used[self._columns[PODS]] += sign * pods
        return aside

    def clear(self, row: int) -> None:
        """Set the allocatable and the used amounts of a row to nothing."""
        self._aside.pop(row, None)
        self._allocatable[:, row] = 0
        self._used[:, row] = 0

    def grow(self, rows: int) -> None:
        """Make room for more rows."""
        width = ((0, 0), (0, rows - self._used.shape[1]))
        self._allocatable = np.pad(self._allocatable, width)
        self._used = np.pad(self._used, width)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _charge_aside(self, row: int, name: str, change: int) -> None:
        aside = self._aside.setdefault(row, Counter())
        aside[name] += change
        if not aside[name]:
            del aside[name]
        if not aside:
            del self._aside[row]

    def _add(self, name: str) -> int:
        column = self._columns[name] = len(self._columns)
        width = ((0, 1), (0, 0))
        self._allocatable = np.pad(self._allocatable, width)
        self._used = np.pad(self._used, width)
        for row, aside in list(self._aside.items()):
            self._used[column, row] = aside.pop(name, 0)
            if not aside:
                del self._aside[row]
        return column


_Taken = dict[tuple[str, int], Counter[str]]
"""Per protocol and port, how many pods take it on each address."""

_NONE: Final[_Taken] = {}


class HostPorts:
    """The host ports that pods take, by node row.

    A port is taken for a protocol on an address; on 0.0.0.0 it is taken on all addresses. Holders are counted, because
    two pods can hold the same port if they were bound without a scheduler.
    """

    def __init__(self) -> None:
        self._taken: dict[int, _Taken] = {}

    def charge(self, row: int, ports: Sequence[HostPort], sign: int) -> None:
        """Take ports of a node for a pod (``sign`` = 1), or give them back (-1)."""
        taken = self._taken.setdefault(row, {}) if ports else _NONE
        for port in ports:
            holders = taken.setdefault((port.protocol, port.port), Counter())
            holders[port.ip] += sign
            if not holders[port.ip]:
                del holders[port.ip]
            if not holders:
                del taken[port.protocol, port.port]
        if ports and not taken:
            del self._taken[row]

    def clear(self, row: int) -> None:
        """Forget all ports that are taken on a node."""
        self._taken.pop(row, None)

    def conflicts(self, rows: NDArray[np.int64], ports: Sequence[HostPort]) -> NDArray[np.bool_]:
        """Return on which nodes one of the ports is taken; shape as ``rows``."""
        return np.fromiter((self._conflicts(row, ports) for row in rows.tolist()), np.bool_, rows.shape[0])

    def _conflicts(self, row: int, ports: Sequence[HostPort]) -> bool:
        taken = self._taken.get(row, _NONE)
        for port in ports if taken else ():
            holders = taken.get((port.protocol, port.port))
            if holders and (port.ip == ANY_ADDRESS or ANY_ADDRESS in holders or port.ip in holders):
                return True
        return False

    def contested(self, row: int, ports: Sequence[HostPort]) -> bool:
        """Tell whether another pod on the node also takes one of these ports, which one pod there already takes."""
        taken = self._taken.get(row, _NONE)
        for port in ports:
            holders = taken.get((port.protocol, port.port), Counter())
            addresses = holders if port.ip == ANY_ADDRESS else (port.ip, ANY_ADDRESS)
            if sum(holders[ip] for ip in addresses) > 1:
                return True
        return False

    def on(self, row: int) -> frozenset[tuple[str, str, int, int]]:
        """Return the ports taken on a node, for comparison: protocol, address, port, number of pods."""
        return frozenset(
            (protocol, ip, port, count)
            for (protocol, port), holders in self._taken.get(row, _NONE).items()
            for ip, count in holders.items()
        )

    def on_row(self, row: int) -> HostPorts:
        """Return an independent copy of one node's ports."""
        twin = HostPorts()
        taken = self._taken.get(row)
        if taken:
            twin._taken[row] = {port: holders.copy() for port, holders in taken.items()}
        return twin

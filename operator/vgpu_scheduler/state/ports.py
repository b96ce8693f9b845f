"""Which ports of each node are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import ANY_ADDRESS, HostPort

__all__ = ["HostPorts"]

_Taken = dict[tuple[str, int], Counter[str]]
"""Per protocol and port, how many pods take it on each address."""

_NONE: Final[_Taken] = {}


class HostPorts:
    """The host ports that pods take, by node row.

    A port is taken for a protocol on an address; on the address 0.0.0.0 it is taken on all addresses. Two pods may
    hold the same port at once where something else than a scheduler has bound them, so holders are counted.
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
        """Forget all that is taken on a node."""
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
        """Tell whether somebody beside the pod that takes these ports of a node takes one of them, too."""
        taken = self._taken.get(row, _NONE)
        for port in ports:
            holders = taken.get((port.protocol, port.port), Counter())
            addresses = holders if port.ip == ANY_ADDRESS else (port.ip, ANY_ADDRESS)
            if sum(holders[ip] for ip in addresses) > 1:
                return True
        return False

    def on(self, row: int) -> frozenset[tuple[str, str, int, int]]:
        """Return what is taken on a node, to be compared: protocol, address, port, and by how many."""
        return frozenset(
            (protocol, ip, port, count)
            for (protocol, port), holders in self._taken.get(row, _NONE).items()
            for ip, count in holders.items()
        )

    def copy(self) -> HostPorts:
        """Return an independent copy."""
        twin = HostPorts()
        twin._taken = {
            row: {port: holders.copy() for port, holders in taken.items()} for row, taken in self._taken.items()
        }
        return twin

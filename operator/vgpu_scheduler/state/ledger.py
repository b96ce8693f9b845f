"""The ledger: what is used of every device, as plain values to be shown and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_scheduler.model import Amounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable

__all__ = ["Ledger", "differences", "over_capacity", "read_ledger"]

Ledger = dict[str, dict[str, Amounts]]
"""Node name to UUID to used amounts; devices with nothing used are left out.

A UUID that two dialects have used amounts of has the name of the later one before it, as in ``volcano/GPU-1``.
"""

Matrices = Mapping[str, DeviceMatrix]


def read_ledger(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> Ledger:
    """Return the used amounts of every device in use, of the nodes among these names."""
    result: Ledger = {}
    for name in names:
        row = nodes.row(name)
        if row is None:
            continue
        used: dict[str, Amounts] = {}
        for dialect, devices in matrices.items():
            for uuid, amounts in devices.usage(row):
                if any(amounts):
                    used[f"{dialect}/{uuid}" if uuid in used else uuid] = amounts
        if used:
            result[name] = used
    return result


def differences(ours: Ledger, theirs: Ledger) -> dict[str, tuple[Ledger, Ledger]]:
    """Return, for each node where two ledgers differ, what either says of it."""
    return {
        name: ({name: ours.get(name, {})}, {name: theirs.get(name, {})})
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    }


def over_capacity(nodes: NodeTable, matrices: Matrices, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the devices used beyond what they have, by node."""
    crowded = [matrix for matrix in matrices.values() if matrix.any_over_capacity()]
    if not crowded:
        return {}
    result = {}
    for name in names:
        row = nodes.row(name)
        over = [uuid for matrix in crowded for uuid in matrix.over_capacity(row)] if row is not None else []
        if over:
            result[name] = over
    return result

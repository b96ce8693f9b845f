"""Numba kernels over the device matrix: Fit, card order and node score, and the choice of the best node.

Kernels take columns (numpy arrays) and write into columns that the caller owns; they allocate nothing per node. Each
has a naive twin in ``tests/naive`` that says the same in plain Python.
"""

from vgpu_scheduler.kernels.hami import (
    CORES,
    KEY_INDEX,
    KEY_NUMA,
    KEY_SCORE,
    KEY_USED,
    MEMORY,
    NO_FIT,
    REASONS,
    SLOTS,
    DeviceColumns,
    FitResult,
    Request,
    Scratch,
    fit_nodes,
    score_cards,
)
from vgpu_scheduler.kernels.select import select_best, stale_rows

__all__ = [
    "CORES",
    "KEY_INDEX",
    "KEY_NUMA",
    "KEY_SCORE",
    "KEY_USED",
    "MEMORY",
    "NO_FIT",
    "REASONS",
    "SLOTS",
    "DeviceColumns",
    "FitResult",
    "Request",
    "Scratch",
    "fit_nodes",
    "score_cards",
    "select_best",
    "stale_rows",
]

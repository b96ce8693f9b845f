"""Numba kernels over the device matrix: Fit, card order and node score, and the choice of the best node.

Kernels take columns (numpy arrays) and write into columns that the caller owns; they allocate nothing per node. Each
has a naive twin in ``tests/naive`` that says the same in plain Python.
"""

from vgpu_scheduler.kernels.binpack import WeighedResources, binpack_nodes
from vgpu_scheduler.kernels.demand import PodDemand
from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareDemand, ShareTerms, deviceshare_nodes, share_score
from vgpu_scheduler.kernels.fragmentation import CardScratch, fragmentation_nodes
from vgpu_scheduler.kernels.hami import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    CORES,
    KEY_CORES_LEFT,
    KEY_INDEX,
    KEY_MEMORY_LEFT,
    KEY_NUMA,
    KEY_SCORE,
    KEY_USED,
    KEY_USED_MEMORY,
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
from vgpu_scheduler.kernels.shares import ShareRequest, ShareScratch, fit_shares, score_devices

__all__ = [
    "BARRED_BY_POLICY",
    "BARRED_BY_UUID",
    "CORES",
    "KEY_CORES_LEFT",
    "KEY_INDEX",
    "KEY_MEMORY_LEFT",
    "KEY_NUMA",
    "KEY_SCORE",
    "KEY_USED",
    "KEY_USED_MEMORY",
    "MEMORY",
    "NO_FIT",
    "NO_SHARE",
    "REASONS",
    "SLOTS",
    "CardScratch",
    "DeviceColumns",
    "FitResult",
    "PodDemand",
    "Request",
    "Scratch",
    "ShareDemand",
    "ShareRequest",
    "ShareScratch",
    "ShareTerms",
    "WeighedResources",
    "binpack_nodes",
    "deviceshare_nodes",
    "fit_nodes",
    "fit_shares",
    "fragmentation_nodes",
    "score_cards",
    "score_devices",
    "select_best",
    "share_score",
    "stale_rows",
]

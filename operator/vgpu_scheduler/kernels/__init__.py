"""Numba kernels over the device matrix: Fit, card order and node score, and the choice of the best node.

Kernels take columns (numpy arrays) and write into columns that the caller owns; they allocate nothing per node. Each
has a naive twin in ``tests/naive`` that says the same in plain Python.
"""

from vgpu_scheduler.kernels.binpack import WeighedResources, binpack_nodes
from vgpu_scheduler.kernels.demand import PodDemand
from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareDemand, ShareTerms, deviceshare_nodes, share_score
from vgpu_scheduler.kernels.fragmentation import CardScratch, fragmentation_nodes
from vgpu_scheduler.kernels.hami import fit_nodes
from vgpu_scheduler.kernels.order import score_cards
from vgpu_scheduler.kernels.partitions import NO_PIECE, is_explained
from vgpu_scheduler.kernels.select import select_best, stale_rows
from vgpu_scheduler.kernels.shares import ShareRequest, ShareScratch, fit_shares, score_devices
from vgpu_scheduler.kernels.tables import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    CORES,
    FIRST_SLICE,
    KEY_CORES_LEFT,
    KEY_INDEX,
    KEY_MEMORY_LEFT,
    KEY_NUMA,
    KEY_SCORE,
    KEY_USED,
    KEY_USED_MEMORY,
    MEMORY,
    NO_QUOTA,
    PEAK,
    PLACED,
    QUOTA_CORES,
    QUOTA_MEMORY,
    REASONS,
    SLOTS,
    UNLIMITED,
    DeviceColumns,
    FitResult,
    LinkScratch,
    Request,
    Scratch,
    link_scratch,
)
from vgpu_scheduler.kernels.topology import choose_linked

__all__ = [
    "BARRED_BY_POLICY",
    "BARRED_BY_UUID",
    "CORES",
    "FIRST_SLICE",
    "KEY_CORES_LEFT",
    "KEY_INDEX",
    "KEY_MEMORY_LEFT",
    "KEY_NUMA",
    "KEY_SCORE",
    "KEY_USED",
    "KEY_USED_MEMORY",
    "MEMORY",
    "NO_PIECE",
    "NO_QUOTA",
    "NO_SHARE",
    "PEAK",
    "PLACED",
    "QUOTA_CORES",
    "QUOTA_MEMORY",
    "REASONS",
    "SLOTS",
    "UNLIMITED",
    "CardScratch",
    "DeviceColumns",
    "FitResult",
    "LinkScratch",
    "PodDemand",
    "Request",
    "Scratch",
    "ShareDemand",
    "ShareRequest",
    "ShareScratch",
    "ShareTerms",
    "WeighedResources",
    "binpack_nodes",
    "choose_linked",
    "deviceshare_nodes",
    "fit_nodes",
    "fit_shares",
    "fragmentation_nodes",
    "is_explained",
    "link_scratch",
    "score_cards",
    "score_devices",
    "select_best",
    "share_score",
    "stale_rows",
]

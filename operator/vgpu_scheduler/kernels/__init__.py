"""Numba kernels over the device matrix: Fit, card order and node score, and the choice of the best node.

Kernels take columns (numpy arrays) and write into columns that the caller owns; they allocate nothing per node. Each
has a naive twin in ``tests/naive`` that says the same in plain Python.
"""

from vgpu_scheduler.kernels.binpack import WeighedResources, binpack_nodes
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns, Role, role_row
from vgpu_scheduler.kernels.demand import PodDemand
from vgpu_scheduler.kernels.deviceshare import (
    NO_SHARE,
    ShareAsk,
    ShareDemand,
    ShareTerms,
    deviceshare_nodes,
    share_score,
)
from vgpu_scheduler.kernels.fragmentation import CardScratch, NodeCpu, fragmentation_nodes
from vgpu_scheduler.kernels.hami import fit_nodes
from vgpu_scheduler.kernels.order import score_cards
from vgpu_scheduler.kernels.pieces import is_explained
from vgpu_scheduler.kernels.priced import POINTS_PER_CARD, TERMS, PricedScratch, Term, priced_nodes
from vgpu_scheduler.kernels.prices import PERCENT, CardPrices, PriceScratch, price_scratch, price_shares
from vgpu_scheduler.kernels.request import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    KEY_CORES_LEFT,
    KEY_INDEX,
    KEY_MEMORY_LEFT,
    KEY_NUMA,
    KEY_SCORE,
    KEY_USED,
    KEY_USED_MEMORY,
    NO_PIECE,
    NO_QUOTA,
    OTHER_MODE,
    PEAK,
    QUOTA_CORES,
    QUOTA_MEMORY,
    REASONS,
    UNLIMITED,
    Candidates,
    ClaimOnNode,
    FitResult,
    LinkScratch,
    Request,
    Scratch,
    link_scratch,
)
from vgpu_scheduler.kernels.rules import Check, Selection
from vgpu_scheduler.kernels.select import select_best, stale_rows
from vgpu_scheduler.kernels.shares import ShareRequest, ShareScratch, fit_shares, score_devices
from vgpu_scheduler.kernels.topology import best_linked

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
    "NO_PIECE",
    "NO_QUOTA",
    "NO_SHARE",
    "OTHER_MODE",
    "PEAK",
    "PERCENT",
    "POINTS_PER_CARD",
    "QUOTA_CORES",
    "QUOTA_MEMORY",
    "REASONS",
    "SLOTS",
    "TERMS",
    "UNLIMITED",
    "Candidates",
    "CardPrices",
    "CardScratch",
    "Check",
    "ClaimOnNode",
    "DeviceColumns",
    "FitResult",
    "LinkScratch",
    "NodeCpu",
    "PodDemand",
    "PriceScratch",
    "PricedScratch",
    "Request",
    "Role",
    "Scratch",
    "Selection",
    "ShareAsk",
    "ShareDemand",
    "ShareRequest",
    "ShareScratch",
    "ShareTerms",
    "Term",
    "WeighedResources",
    "best_linked",
    "binpack_nodes",
    "deviceshare_nodes",
    "fit_nodes",
    "fit_shares",
    "fragmentation_nodes",
    "is_explained",
    "link_scratch",
    "price_scratch",
    "price_shares",
    "priced_nodes",
    "role_row",
    "score_cards",
    "score_devices",
    "select_best",
    "share_score",
    "stale_rows",
]

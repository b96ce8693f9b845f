"""Cards on one node: which of them a claim gets."""

from vgpu_scheduler.allocators.base import Allocator, FitColumns
from vgpu_scheduler.allocators.choice import Budget, Budgets, CardChoice, CardLimits, ShareOrder, Strategy, Weights
from vgpu_scheduler.allocators.fit_rules import ALL_CHECKS, PLAIN_CHECKS, FitRules, Selection, Whole
from vgpu_scheduler.allocators.hami import CardRules, HamiAllocator, count_reasons, verdict
from vgpu_scheduler.allocators.order import (
    BEST_FIT,
    BINPACK,
    DEVICE_POLICIES,
    MUTEX,
    SPREAD,
    TOPOLOGY,
    CardOrder,
    OrderKind,
    card_order,
    policy_words,
)
from vgpu_scheduler.allocators.share_order import share_terms
from vgpu_scheduler.allocators.shares import ShareAllocator, ShareDimensions

__all__ = [
    "ALL_CHECKS",
    "BEST_FIT",
    "BINPACK",
    "DEVICE_POLICIES",
    "MUTEX",
    "PLAIN_CHECKS",
    "SPREAD",
    "TOPOLOGY",
    "Allocator",
    "Budget",
    "Budgets",
    "CardChoice",
    "CardLimits",
    "CardOrder",
    "CardRules",
    "FitColumns",
    "FitRules",
    "HamiAllocator",
    "OrderKind",
    "Selection",
    "ShareAllocator",
    "ShareDimensions",
    "ShareOrder",
    "Strategy",
    "Weights",
    "Whole",
    "card_order",
    "count_reasons",
    "policy_words",
    "share_terms",
    "verdict",
]

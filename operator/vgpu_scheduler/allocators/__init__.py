"""Cards on one node: which of them a claim gets."""

from vgpu_scheduler.allocators.base import Allocator, FitColumns
from vgpu_scheduler.allocators.choice import Budget, Budgets, CardChoice, CardLimits, ShareOrder, Strategy, Weights
from vgpu_scheduler.allocators.fit_rules import NVIDIA_RULES, PLAIN_CHECKS, PLAIN_RULES, FitRules, Whole
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
from vgpu_scheduler.kernels import Check, Selection

__all__ = [
    "BEST_FIT",
    "BINPACK",
    "DEVICE_POLICIES",
    "MUTEX",
    "NVIDIA_RULES",
    "PLAIN_CHECKS",
    "PLAIN_RULES",
    "SPREAD",
    "TOPOLOGY",
    "Allocator",
    "Budget",
    "Budgets",
    "CardChoice",
    "CardLimits",
    "CardOrder",
    "CardRules",
    "Check",
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

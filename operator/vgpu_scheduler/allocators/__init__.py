"""The choice of the cards on one node that a claim gets."""

from vgpu_scheduler.allocators.base import Allocator, CardNeed, FitColumns, Lacking, count_reasons, verdict
from vgpu_scheduler.allocators.choice import (
    CardChoice,
    CardLimits,
    QuotaRemainder,
    QuotaRemainders,
    ShareOrder,
    Strategy,
    Weights,
)
from vgpu_scheduler.allocators.fit_rules import NVIDIA_RULES, PLAIN_CHECKS, PLAIN_RULES, FitRules, WholeCardRule
from vgpu_scheduler.allocators.hami import HamiAllocator, NamedCards
from vgpu_scheduler.allocators.order import (
    CardOrder,
    card_order,
)
from vgpu_scheduler.allocators.request import amounts_of, pod_demand, share_terms
from vgpu_scheduler.allocators.share_choice import DeviceWish, JointOrder, PartitionOrder, ScopeOrder, ShareChoice
from vgpu_scheduler.allocators.shares import DeviceShareAllocator, ShareDimensions
from vgpu_scheduler.kernels import Check, Selection

__all__ = [
    "NVIDIA_RULES",
    "PLAIN_CHECKS",
    "PLAIN_RULES",
    "Allocator",
    "CardChoice",
    "CardLimits",
    "CardNeed",
    "CardOrder",
    "Check",
    "DeviceShareAllocator",
    "DeviceWish",
    "FitColumns",
    "FitRules",
    "HamiAllocator",
    "JointOrder",
    "Lacking",
    "NamedCards",
    "PartitionOrder",
    "QuotaRemainder",
    "QuotaRemainders",
    "ScopeOrder",
    "Selection",
    "ShareChoice",
    "ShareDimensions",
    "ShareOrder",
    "Strategy",
    "Weights",
    "WholeCardRule",
    "amounts_of",
    "card_order",
    "count_reasons",
    "pod_demand",
    "share_terms",
    "verdict",
]

"""Cards on one node: which of them a claim gets."""

from vgpu_scheduler.allocators.hami import CardRules, FitColumns, HamiAllocator, count_reasons, verdict
from vgpu_scheduler.allocators.order import DEVICE_POLICIES, TOPOLOGY, CardOrder, OrderKind, card_order, policy_words

__all__ = [
    "DEVICE_POLICIES",
    "TOPOLOGY",
    "CardOrder",
    "CardRules",
    "FitColumns",
    "HamiAllocator",
    "OrderKind",
    "card_order",
    "count_reasons",
    "policy_words",
    "verdict",
]

"""The order in which Volcano tries the cards of a node, as sort keys."""

from __future__ import annotations

from vgpu_scheduler.allocators import CardOrder, card_order
from vgpu_scheduler.kernels import KEY_INDEX, KEY_USED, KEY_USED_MEMORY
from vgpu_scheduler.model import BEST_FIT, OrderKind

# The last card of the sorted list is tried first: equal cards go by ascending index, so that key descends.
_ORDERS = {
    "binpack": CardOrder((KEY_USED_MEMORY, -KEY_INDEX)),
    "spread": CardOrder((-KEY_USED, -KEY_INDEX)),
    BEST_FIT: card_order(BEST_FIT, OrderKind.NUMA_FIRST, numa_bind=False),
}
_ANY_OTHER = CardOrder((KEY_INDEX,))


def volcano_order(policy: str) -> CardOrder:
    """Translate a card policy.

    Parameters
    ----------
    policy
        ``binpack``: most memory in use first, then the lowest index. ``spread``: fewest shares in use first, then the
        lowest index. ``bestFit``, which is not Volcano's: as everywhere. Anything else: the highest index first.
    """
    return _ORDERS.get(policy, _ANY_OTHER)

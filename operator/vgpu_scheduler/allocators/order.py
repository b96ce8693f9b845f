"""The order in which the cards of a node are tried: translates policy words to sort keys.

A card order is a list of keys, most significant first, that sorts the cards ascending; the LAST card is tried first.
Two generations exist. The documented order sorts by NUMA node, then by score; HAMi 2.10 sorts by score first, unless
the pod binds to a NUMA node.

Policies have one more word than HAMi's annotations: ``bestFit`` first tries the card that the claim fits tightest.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.kernels import KEY_CORES_LEFT, KEY_INDEX, KEY_MEMORY_LEFT, KEY_NUMA, KEY_SCORE, KEY_USED
from vgpu_scheduler.model import BEST_FIT, BINPACK, MUTEX, NUMA, SPREAD, TOPOLOGY, OrderKind, policy_words

_CHAIN_KEYS = {BINPACK: KEY_SCORE, SPREAD: -KEY_SCORE, NUMA: KEY_NUMA}


@dataclass(frozen=True, slots=True)
class CardOrder:
    """Sort keys of the cards, whether only unused cards are tried, and whether links decide among candidates."""

    keys: tuple[int, ...]
    mutex: bool = False
    topology: bool = False


def card_order(policy: str, kind: OrderKind, *, numa_bind: bool) -> CardOrder:
    """Translate a device policy, as HAMi 2.10 reads it.

    Parameters
    ----------
    policy
        ``binpack``, ``spread``, ``mutex``, ``numa``, ``topology-aware`` or a comma-separated list; anything else
        orders like ``spread``. A single word is compared exactly, words of a list are trimmed. ``bestFit``, which is
        not HAMi's and only valid alone, orders by what the claim would leave of a card: memory, then cores, each in the
        unit of its dimension; ties go to the later card in canonical order.
    kind
        The generation of orders for ``binpack`` and ``spread``.
    numa_bind
        Whether the pod binds the cards of a container to one NUMA node.
    """
    words = policy_words(policy)
    mutex, topology = MUTEX in words, TOPOLOGY in words
    if "," in policy or policy == NUMA:
        return CardOrder(_chain(words, numa_bind=numa_bind), mutex, topology)
    if policy == MUTEX:
        return CardOrder((-KEY_USED, KEY_NUMA), mutex, topology)
    if policy == BEST_FIT:
        # For NUMA binding the cards of a NUMA node must be contiguous; the lowest node is first, as for binpack.
        return CardOrder((*((-KEY_NUMA,) if numa_bind else ()), -KEY_MEMORY_LEFT, -KEY_CORES_LEFT))
    packed = policy == BINPACK
    if numa_bind or kind is OrderKind.NUMA_FIRST:
        keys = (-KEY_NUMA, KEY_SCORE) if packed else (KEY_NUMA, -KEY_SCORE)
    else:
        keys = (KEY_SCORE if packed else -KEY_SCORE, KEY_NUMA)
    return CardOrder(keys, mutex, topology)


def share_card_order(*, numa_bind: bool) -> CardOrder:
    """Return the order of Koordinator's device score: the highest first, then the lowest index.

    If the cards of a container are bound to one NUMA node, the lowest node comes first.
    """
    keys = (KEY_SCORE, -KEY_INDEX)
    return CardOrder((-KEY_NUMA, *keys) if numa_bind else keys)


def _chain(words: tuple[str, ...], *, numa_bind: bool) -> tuple[int, ...]:
    keys = [_CHAIN_KEYS[word] for word in dict.fromkeys(words) if word in _CHAIN_KEYS]
    keys = keys or [-KEY_SCORE]
    if numa_bind:
        keys = [KEY_NUMA, *(key for key in keys if key != KEY_NUMA)]
    return (*keys, KEY_INDEX)

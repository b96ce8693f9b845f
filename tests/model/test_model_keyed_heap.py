"""Keys in the order of their ranks, whatever was changed and deleted before."""

from __future__ import annotations

import numpy as np
import pytest

from vgpu_scheduler.model import KeyedHeap


@pytest.mark.parametrize("seed", range(20))
def test_the_first_key_is_that_of_the_least_rank_and_of_equal_ones_the_first_that_was_added(seed: int) -> None:
    rng, heap, ranks = np.random.default_rng(seed), KeyedHeap[str, int](), dict[str, int]()
    for _ in range(2000):
        key, rank = f"k{rng.integers(12)}", int(rng.integers(4))
        first = min(ranks, key=ranks.__getitem__, default=None)
        match int(rng.integers(8)):
            case 0:
                assert heap.delete(key) == (ranks.pop(key, None) is not None)
            case 1:
                popped = heap.pop()
                assert (popped and (popped.key, popped.rank)) == (first and (first, ranks.pop(first)))
            case 2:
                peeked = heap.peek()
                assert (peeked and (peeked.key, peeked.rank)) == (first and (first, ranks[first]))
            case _:
                heap.add_or_update(key, rank)
                ranks.pop(key, None)
                ranks[key] = rank
        assert len(heap) == len(ranks)
    heap.clear()
    assert not heap
    assert heap.pop() is None


def test_items_of_former_ranks_do_not_pile_up() -> None:
    heap = KeyedHeap[str, int]()
    for rank in range(10_000):
        heap.add_or_update("a", rank)
        heap.add_or_update(f"b{rank}", rank)
        heap.delete(f"b{rank}")
    assert len(heap) == 1
    assert len(heap._heap) <= 66

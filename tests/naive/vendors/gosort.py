"""The order in which Go's ``sort.Sort`` leaves elements that are equal: of more than twelve it is not the one before.

Pattern-defeating quicksort, as in Go's library, for the lengths that nodes have (its heap sort is left out).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

INSERTION = 12
"""Up to this length it is an insertion sort, which keeps equal elements in order."""


def go_sort(items: list[T], key: Callable[[T], Any]) -> None:
    """Sort in place."""
    _Sort(items, [key(item) for item in items]).sort(0, len(items), len(items).bit_length())


class _Sort:
    def __init__(self, items: list[Any], keys: list[Any]) -> None:
        self.items, self.keys = items, keys

    def less(self, i: int, j: int) -> bool:
        return bool(self.keys[i] < self.keys[j])

    def swap(self, i: int, j: int) -> None:
        for row in (self.items, self.keys):
            row[i], row[j] = row[j], row[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while b - a > INSERTION:
            length = b - a
            assert limit, "Go would go on with a heap sort"
            if not balanced:
                self.break_patterns(a, b)
                limit -= 1
            pivot, increasing = self.choose_pivot(a, b)
            if balanced and partitioned and increasing and all(not self.less(i, i - 1) for i in range(a + 1, b)):
                return
            if a > 0 and not self.less(a - 1, pivot):
                a = self.partition_equal(a, b, pivot)
                continue
            middle, partitioned = self.partition(a, b, pivot)
            left, right = middle - a, b - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle
        for i in range(a + 1, b):
            for j in range(i, a, -1):
                if not self.less(j, j - 1):
                    break
                self.swap(j, j - 1)

    def choose_pivot(self, a: int, b: int) -> tuple[int, bool]:
        """The middle one of three, and whether those were in order."""
        assert b - a < 50, "Go would look at nine"
        quarter = (b - a) // 4
        chosen = [a + quarter, a + 2 * quarter, a + 3 * quarter]
        swaps = 0
        for i in (0, 1, 0):
            if self.less(chosen[i + 1], chosen[i]):
                chosen[i], chosen[i + 1] = chosen[i + 1], chosen[i]
                swaps += 1
        return chosen[1], swaps == 0

    def partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        self.swap(a, pivot)
        i, j, swapped = a + 1, b - 1, False
        while True:
            while i <= j and self.less(i, a):
                i += 1
            while i <= j and not self.less(j, a):
                j -= 1
            if i > j:
                break
            self.swap(i, j)
            i, j, swapped = i + 1, j - 1, True
        self.swap(j, a)
        return j, not swapped

    def partition_equal(self, a: int, b: int, pivot: int) -> int:
        self.swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self.less(a, i):
                i += 1
            while i <= j and self.less(a, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i, j = i + 1, j - 1

    def break_patterns(self, a: int, b: int) -> None:
        length = b - a
        random, mask = length, (1 << length.bit_length()) - 1
        start = a + length // 4 * 2 - 1
        for i in range(3):
            random ^= random << 13 & (2**64 - 1)
            random ^= random >> 7
            random ^= random << 17 & (2**64 - 1)
            other = random & mask
            self.swap(start + i, a + (other - length if other >= length else other))

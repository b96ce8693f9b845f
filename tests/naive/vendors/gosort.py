"""The order in which Go's ``sort.Sort`` leaves elements that are equal: of more than twelve it is not the one before.

Pattern-defeating quicksort, step by step as Go's library does it: which of equal elements comes first depends on each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

INSERTION = 12
"""Up to this length it is an insertion sort, which keeps equal elements in order."""

LONG = 50
"""From this length on a pivot is chosen among nine, and a list that is nearly sorted is put right by hand."""

ALL_SWAPPED = 12
"""How often two of the nine are swapped if they come in descending order."""


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
            if not limit:
                self.heap_sort(a, b)
                return
            if not balanced:
                self.break_patterns(a, b)
                limit -= 1
            pivot, swaps = self.choose_pivot(a, b)
            if swaps == ALL_SWAPPED:
                for i in range(length // 2):
                    self.swap(a + i, b - 1 - i)
                pivot, swaps = b - 1 - (pivot - a), 0
            if balanced and partitioned and swaps == 0 and self.nearly_sorted(a, b):
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

    def choose_pivot(self, a: int, b: int) -> tuple[int, int]:
        """The middle one of three, and how often two were not in order; in a long list each is the middle of three."""
        quarter, swaps = (b - a) // 4, 0
        chosen = [a + quarter, a + 2 * quarter, a + 3 * quarter]
        if b - a >= LONG:
            for place, i in enumerate(chosen):
                chosen[place], more = self.median(i - 1, i, i + 1)
                swaps += more
        pivot, more = self.median(*chosen)
        return pivot, swaps + more

    def median(self, *places: int) -> tuple[int, int]:
        chosen, swaps = list(places), 0
        for i in (0, 1, 0):
            if self.less(chosen[i + 1], chosen[i]):
                chosen[i], chosen[i + 1] = chosen[i + 1], chosen[i]
                swaps += 1
        return chosen[1], swaps

    def nearly_sorted(self, a: int, b: int) -> bool:
        """Put right up to five elements of a long list; whether it is sorted then."""
        i = a + 1
        for _ in range(5):
            while i < b and not self.less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < LONG:
                return False
            self.swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
        return False

    def heap_sort(self, a: int, b: int) -> None:
        length = b - a
        for root in range((length - 1) // 2, -1, -1):
            self.sift_down(root, length, a)
        for last in range(length - 1, -1, -1):
            self.swap(a, a + last)
            self.sift_down(0, last, a)

    def sift_down(self, root: int, end: int, first: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

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

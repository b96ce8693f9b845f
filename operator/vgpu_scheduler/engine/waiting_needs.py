"""Whom a changed node may help: what unschedulable pods need at least, held against that node all at once.

Thousands of pods may wait that all ask for something else. When a card becomes free, a few columns over the classes of
these pods tell which of them could use it, so that only those are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import CardNeed
from vgpu_scheduler.engine.equivalence import Claimed
from vgpu_scheduler.engine.queued_pod import UnschedulableClass
from vgpu_scheduler.kube import CPU, MEMORY, Pod
from vgpu_scheduler.state import State

__all__ = ["WaitingNeeds"]

_MOST_NODES: Final = 64
"""Of more nodes that change at once each may help everybody."""
_FIRST: Final = 64
_NOBODY: Final = -1
_CPU, _MEMORY, _DIALECT, _VENDOR = range(4)
_AMOUNT, _PERCENT, _END = 4, 7, 10
"""Columns: of the first dimensions of a card, the amounts and the percentages that are needed."""
_DIMENSIONS: Final = _PERCENT - _AMOUNT
_WHOLE: Final = 100


class WaitingNeeds:
    """What each class of unschedulable pods needs of a node at least.

    Parameters
    ----------
    state
        What is known.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._dialects: dict[str, int] = {}
        self._slots: dict[UnschedulableClass, int] = {}
        self._keys: list[UnschedulableClass] = []
        self._needs = np.zeros((_END, _FIRST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[UnschedulableClass]:
        return iter(self._keys)

    def put(self, key: UnschedulableClass, pod: Pod, claimed: Claimed, need: CardNeed | None) -> None:
        """Take in what the pods of a class need.

        Parameters
        ----------
        pod, claimed
            One of them, and what it asks of devices.
        need
            What one card must have for it; None if that cannot be said.
        """
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._keys)
            self._keys.append(key)
            if slot == self._needs.shape[1]:
                self._needs = np.pad(self._needs, ((0, 0), (0, slot)))
        needs = self._needs[:, slot]
        needs[:] = 0
        needs[_CPU], needs[_MEMORY] = (pod.spec.requests.get(name, 0) for name in (CPU, MEMORY))
        needs[_DIALECT] = _NOBODY
        if need is not None:
            needs[_DIALECT] = self._dialects.setdefault(claimed.dialect, len(self._dialects))
            needs[_VENDOR] = self._state.matrix(claimed.dialect).vendor_number(need.vendor)
            needs[_AMOUNT:_PERCENT], needs[_PERCENT:] = need.amounts[:_DIMENSIONS], need.percent[:_DIMENSIONS]

    def discard(self, key: UnschedulableClass) -> None:
        """Forget a class, if it is known."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return
        last = self._keys.pop()
        if slot < len(self._keys):
            self._keys[slot], self._slots[last] = last, slot
            self._needs[:, slot] = self._needs[:, len(self._keys)]

    def helped_by(self, rows: NDArray[np.int64]) -> list[UnschedulableClass]:
        """Return the classes that one of some node rows may have room for, whatever else that node may say."""
        if not self._keys or not rows.size:
            return []
        if rows.size > _MOST_NODES:
            return list(self._keys)
        needs = self._needs[:, : len(self._keys)]
        found = np.zeros(len(self._keys), dtype=np.bool_)
        for row in rows.tolist():
            found |= self._may_hold(needs, row)
        return [self._keys[slot] for slot in np.flatnonzero(found).tolist()]

    def _may_hold(self, needs: NDArray[np.int64], row: int) -> NDArray[np.bool_]:
        """Tell which classes a node may have room for, shape (classes,)."""
        nodes = self._state.nodes
        free = nodes.allocatable[row] - nodes.used[row]
        enough: NDArray[np.bool_] = (needs[_CPU] <= free[nodes.resources[CPU]]) | (needs[_CPU] == 0)
        enough &= (needs[_MEMORY] <= free[nodes.resources[MEMORY]]) | (needs[_MEMORY] == 0)
        for dialect, number in self._dialects.items():
            theirs = np.flatnonzero(needs[_DIALECT] == number)
            enough[theirs] &= self._has_card(needs[:, theirs], row, dialect)
        return enough

    def _has_card(self, needs: NDArray[np.int64], row: int, dialect: str) -> NDArray[np.bool_]:
        """Tell which classes a card of a node may have enough for, shape (classes,)."""
        columns = self._state.matrix(dialect).columns
        cards = slice(int(columns.first[row]), int(columns.last[row]))
        vendor, pieces = columns.vendor[cards], columns.partitioned[cards]
        total, used = columns.total[cards, :_DIMENSIONS], columns.used[cards, :_DIMENSIONS]
        enough = needs[_VENDOR][:, None] == vendor
        for dimension in range(total.shape[1]):
            amounts, percent = needs[_AMOUNT + dimension][:, None], needs[_PERCENT + dimension][:, None]
            asked = np.where(amounts > 0, amounts, total[:, dimension] * percent // _WHOLE)
            # How much a piece of a card has is not what the card has.
            enough &= (asked == 0) | (asked <= total[:, dimension] - used[:, dimension]) | pieces
        answer: NDArray[np.bool_] = enough.any(axis=1)
        return answer

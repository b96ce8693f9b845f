"""Whose turn it is at each node: lanes, and units that wait to be first in all of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

from vgpu_scheduler.binding.clock import Clock
from vgpu_scheduler.binding.lanes import BindUnit, Item, Lane, Stage

_MOST_FRUITLESS: Final = 16
"""Pods of a lane that are asked at a time whether they fit elsewhere, and do not."""
_MOST_GONE: Final = 64
"""Pods of a lane that go elsewhere at a time."""


class Waiting(Protocol):
    """What becomes of pods that wait."""

    async def clear(self, item: Item) -> bool:
        """Take away a lock that nobody uses, for a unit that would wait for it; False if its node is closed."""

    def is_served(self, item: Item) -> bool:
        """Tell whether the node side would serve a pod at once; a unit commits when all of its pods would be."""

    def holds(self, item: Item) -> bool:
        """Tell whether a placement holds now; asked of all pods of a unit right before it commits."""

    def give_back(self, item: Item, delay: float | None) -> None:
        """Have a pod decided anew, after so many seconds at least; None means at once."""

    def go_elsewhere(self, item: Item, slow: Collection[str]) -> bool:
        """Have a pod of which nothing was sent wait at a node that is not slow; False if it fits at none."""

    def tell_why(self, item: Item, why: str) -> None:
        """Tell a pod why its turn does not come."""

    def bind_at_once(self, item: Item) -> None:
        """Bind a pod that waits in no lane; its unit has committed."""


class Turns:
    """The lanes of all nodes.

    Parameters
    ----------
    waiting
        What becomes of pods that wait.
    clock
        The time.
    longest_wait
        Seconds that a pod waits for its turn before it is decided anew.
    patience
        Seconds between looks at a node that does not move.
    slow_after
        Seconds after which a turn that does not end makes its node slow: who waits there goes elsewhere.
    expired
        Called when a pod has waited too long.
    """

    def __init__(
        self,
        waiting: Waiting,
        clock: Clock,
        longest_wait: float,
        patience: float,
        slow_after: float,
        expired: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._clock = clock
        self._longest_wait = longest_wait
        self._patience = patience
        self._slow_after = slow_after
        self._expired = expired
        self._lanes: dict[str, Lane] = {}
        self._moved: dict[str, asyncio.Event] = {}

    @property
    def depths(self) -> list[int]:
        """How many pods wait at each node."""
        return [len(lane) for lane in self._lanes.values()]

    def join(self, unit: BindUnit) -> list[str]:
        """Have the pods of a unit wait in the lanes of their nodes; return the nodes whose lanes are new."""
        opened = []
        for item in unit.items:
            if not item.node:
                continue
            if item.node not in self._lanes:
                self._lanes[item.node] = Lane()
                self._moved[item.node] = asyncio.Event()
                opened.append(item.node)
            self._lanes[item.node].push(item)
            self.moved(item.node)
        if not any(item.node for item in unit.items):
            self._commit(unit)
        return opened

    def moved(self, node: str) -> None:
        """Note that a node, a pod on it or its lane is not what it was: whoever waits there looks again."""
        event = self._moved.get(node)
        if event is not None:
            event.set()

    async def next(self, node: str) -> Item | None:
        """Wait for the next turn at a node; None when nobody waits there any more."""
        lane = self._lanes[node]
        lane.turn = None
        while len(lane):
            unit = lane.head.unit
            if len(unit.items) > 1 and unit.stage is Stage.WAITING:
                item = lane.head
                if not await self._waiting.clear(item):
                    self.give_back(item, None)
                if not len(lane) or lane.head is not item:
                    continue  # others came or went meanwhile
            if unit.stage is Stage.COMMITTED or self._commit(unit):
                return lane.begin(self._clock.monotonic())
            if unit.stage is Stage.GIVEN_BACK:
                continue
            self.expire(node)
            if len(lane) and lane.head.unit is unit:
                await self.wait(node)
        return None

    async def wait(self, node: str) -> None:
        """Wait until a node, a pod on it or its lane is not what it was, or until the patience is over."""
        event = self._moved[node]
        event.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):  # wait_for loses cancellations before Python 3.12
                await event.wait()

    def expire(self, node: str) -> None:
        """Give back the pods of a lane that have waited too long."""
        for item in self._lanes[node].expired(self._clock.monotonic() - self._longest_wait):
            if item.unit.stage is not Stage.GIVEN_BACK:
                self._expired()
                self.give_back(item)

    def _slow_nodes(self) -> frozenset[str]:
        """Return the nodes where a turn has not ended for long."""
        now = self._clock.monotonic()
        return frozenset(node for node, lane in self._lanes.items() if self._is_slow(lane, now))

    def _is_slow(self, lane: Lane, now: float) -> bool:
        return lane.turn is not None and now - lane.since >= self._slow_after

    def look_after(self, node: str, why: str) -> None:
        """Look at those that wait at a node while a turn goes on.

        Those that have waited too long are given back. Once the node is slow, those of which nothing was sent go
        elsewhere, where they fit; the others are told why they wait. Pods of larger units stay with their unit.

        Parameters
        ----------
        why
            Why the turn does not end.
        """
        self.expire(node)
        lane, now = self._lanes[node], self._clock.monotonic()
        if not self._is_slow(lane, now) or now - lane.looked_at < self._patience:
            return
        lane.looked_at = now
        slow, fruitless, gone = self._slow_nodes(), 0, 0
        waiting = [
            item
            for item in filter(None, (lane.turn, *lane.all()))
            if not item.unit.bindings and item.unit.stage is not Stage.GIVEN_BACK
        ]
        for item in sorted(waiting, key=lambda item: item.asked):
            if len(item.unit.items) == 1 and fruitless < _MOST_FRUITLESS:
                item.asked = now
                if self._waiting.go_elsewhere(item, slow):
                    gone += 1
                    if gone == _MOST_GONE:
                        lane.looked_at = now - self._patience  # the others go next time, so that nothing else waits
                        return
                    continue
                fruitless += 1
            self._waiting.tell_why(item, why)

    def leave(self, item: Item) -> None:
        """Take a pod out of its lane that goes elsewhere; whoever works on it stops."""
        item.unit.stage = Stage.GIVEN_BACK
        self._lanes[item.node].leave(item)

    def goes_on(self, node: str) -> None:
        """Note that the plugins of a node serve the pod whose turn it is: what it waited for has come."""
        self._lanes[node].since = self._clock.monotonic()

    def give_back(self, item: Item, delay: float | None = 0.0) -> None:
        """Give back a pod that is not bound: with all of its unit, unless a Binding of that was sent."""
        unit = item.unit
        if unit.stage is Stage.GIVEN_BACK:
            return
        if not unit.bindings:
            unit.stage = Stage.GIVEN_BACK
        for member in [item] if unit.bindings else unit.items:
            if member.node in self._lanes:
                self._lanes[member.node].remove([member])
                self.moved(member.node)
            self._waiting.give_back(member, delay)

    def give_all_back(self) -> None:
        """Give back all pods whose turn has not come, and have those look again whose turn it is."""
        for node, lane in self._lanes.items():
            for item in lane.all():
                self.give_back(item)
            self.moved(node)

    def close(self, node: str) -> None:
        """Close the lane of a node; whatever broke it off, who waited in it is not left behind."""
        for item in self._lanes[node].all():
            self.give_back(item)
        del self._lanes[node], self._moved[node]

    def _commit(self, unit: BindUnit) -> bool:
        """Let a unit go that is first in every lane that it uses; one that does not hold any more is given back."""
        nodes = {item.node for item in unit.items if item.node}
        for node in nodes:
            lane = self._lanes[node]
            if lane.turn is not None or lane.head.unit is not unit:
                return False
        if len(unit.items) > 1:
            if not all(self._waiting.is_served(item) for item in unit.items if item.node):
                return False
            if not all(self._waiting.holds(item) for item in unit.items):
                self.give_back(unit.items[0])
                return False
        unit.stage = Stage.COMMITTED
        for node in nodes:
            self._lanes[node].commit(unit)
            self.moved(node)
        for item in unit.items:
            if not item.node:
                self._waiting.bind_at_once(item)
        return True

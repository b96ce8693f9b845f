"""Pods that wait for room, and what became of them: a queue in the order of arrival in which nobody holds up others.

Whenever a pod leaves, those that wait are tried again in the order in which they came, and whoever fits is placed. A
pod stays for its time from when it is placed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.packing import PackingError
from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.traces import (
    LIFETIMES,
    WARM_UP,
    CardLocation,
    Fleet,
    FreeResources,
    Placer,
    Room,
    Run,
    TracePod,
)

NEVER: Final = float("inf")
WHOLE_NODE: Final = 8
"""Cards of the nodes that are counted by themselves: the largest of openb."""
_NOBODY: Final = np.iinfo(np.int64).max
_ENDS, _COMES, _BEGINS, _OVER = range(4)  # what happens at the same time happens in this order


# The queue -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stay:
    """A time that a pod spent in one place.

    Attributes
    ----------
    number
        Of the pod, in the order of arrival.
    start, end
        In mean lifetimes; the end is infinite where the pod is still there at the end of the replay.
    """

    number: int
    location: CardLocation
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What comes, to whom.

    Attributes
    ----------
    fleet
        Its order decides between equals.
    pods
        In the order of arrival.
    come
        When each comes, in mean lifetimes.
    lasting
        For how long each stays once it is placed; infinite where that is beyond the end in any case.
    """

    fleet: Fleet
    pods: Sequence[TracePod]
    come: Sequence[float]
    lasting: Sequence[float]

    @classmethod
    def of(cls, run: Run) -> Demand:
        """Return the pods of a run in which pods leave: at the same times, with the same lifetimes."""
        pods = len(run.arrivals.pods)
        come, lasting = [0.0] * pods, [NEVER] * pods
        for step, time in zip(run.arrivals.steps, run.arrivals.times.tolist(), strict=True):
            if step >= 0:
                come[step] = time
            else:
                lasting[~step] = time - come[~step]
        return cls(run.fleet, run.arrivals.pods, come, lasting)


class _Waiting:
    """Pods that wait, and which of them fit on a node: a kind of equal pods is looked at once.

    All of them fit on no node, but for one that was just left: only there has to be looked.
    """

    def __init__(self, demand: Demand) -> None:
        fleet, kinds = demand.fleet, list(dict.fromkeys(demand.pods))
        self.room = Room.of(fleet)
        self._kinds = {pod: kind for kind, pod in enumerate(kinds)}
        asked = np.array([(pod.cpu, pod.memory, pod.cards, pod.share) for pod in kinds], dtype=np.int64).T
        self._cpu, self._memory, self._cards, self._share = asked
        self._allowed = np.array([fleet.allowed(pod) for pod in kinds])
        self._models = fleet.card_models
        self._queues: list[deque[int]] = [deque() for _ in kinds]
        self._first = np.full(len(kinds), _NOBODY)

    def add(self, number: int, pod: TracePod) -> None:
        """Have a pod wait."""
        kind = self._kinds[pod]
        if not self._queues[kind]:
            self._first[kind] = number
        self._queues[kind].append(number)

    def has_equal(self, pod: TracePod) -> bool:
        """Tell whether a pod waits that asks for the same."""
        return bool(self._queues[self._kinds[pod]])

    def next_for(self, node: int) -> int | None:
        """Return the first pod that fits on a node, which does not wait any more; None where none does."""
        room = self.room
        passing = (room.cards[node] >= self._share[:, None]) & (room.shares[node] >= 1) & self._allowed_on(node)
        fits = (self._cpu <= room.cpu[node]) & (self._memory <= room.memory[node]) & (room.pods[node] >= 1)
        fits &= (self._first != _NOBODY) & (passing.sum(axis=1) >= self._cards)
        if not fits.any():
            return None
        kind = int(np.where(fits, self._first, _NOBODY).argmin())
        queue = self._queues[kind]
        number = queue.popleft()
        self._first[kind] = queue[0] if queue else _NOBODY
        return number

    def _allowed_on(self, node: int) -> NDArray[np.bool_]:
        models = self._models[node]
        found: NDArray[np.bool_] = self._allowed[:, models] & (models >= 0)
        return found

    def book(self, pod: TracePod, location: CardLocation, sign: int) -> None:
        """Take in that a pod has its place, or has left it."""
        room, node, cards = self.room, location.node, list(location.cards)
        room.cpu[node] -= sign * pod.cpu
        room.memory[node] -= sign * pod.memory
        room.pods[node] -= sign
        room.cards[node, cards] -= sign * pod.share
        room.shares[node, cards] -= sign


def serve(demand: Demand, placer: Placer, until: float = LIFETIMES) -> list[Stay]:
    """Place pods as they come and as room is left; return where each was, and from when to when, in that order.

    Raises
    ------
    PackingError
        If the policy does not place a pod that fits.
    """
    waiting = _Waiting(demand)
    leaving: list[tuple[float, int]] = []
    there: dict[int, tuple[Stay, int]] = {}
    stays: list[Stay] = []
    attempts = count()  # who was refused is another one to the policy when it is asked again

    def placed(number: int, now: float) -> bool:
        pod, attempt = demand.pods[number], next(attempts)
        location = placer.place(attempt, pod)
        if location is None:
            return False
        waiting.book(pod, location, 1)
        there[number] = Stay(number, location, now, NEVER), attempt
        if (end := now + demand.lasting[number]) < until:
            heappush(leaving, (end, number))
        return True

    def leave(now: float) -> None:
        _, gone = heappop(leaving)
        left, attempt = there.pop(gone)
        stays.append(Stay(gone, left.location, left.start, now))
        placer.remove(attempt)
        waiting.book(demand.pods[gone], left.location, -1)
        while (number := waiting.next_for(left.location.node)) is not None:
            if not placed(number, now):
                raise PackingError(f"{demand.pods[number]} waits although node {left.location.node} has room")

    for number, (pod, come) in enumerate(zip(demand.pods, demand.come, strict=True)):
        while leaving and leaving[0][0] <= come:
            leave(leaving[0][0])
        if waiting.has_equal(pod) or not placed(number, come):
            waiting.add(number, pod)
    while leaving:
        leave(leaving[0][0])
    return sorted([*stays, *(stay for stay, _ in there.values())], key=lambda stay: (stay.start, stay.number))


# What it came to -----------------------------------------------------------------------------------------------------


SIZES: Final[Mapping[str, Callable[[TracePod], bool]]] = {
    "no card": lambda pod: pod.cards == 0,
    "less than a card": lambda pod: pod.cards == 1 and pod.share < WHOLE,
    "one card": lambda pod: pod.cards == 1 and pod.share == WHOLE,
    "2 to 4": lambda pod: 2 <= pod.cards <= 4,
    "more": lambda pod: pod.cards > 4,
}


@dataclass(frozen=True, slots=True)
class Waits:
    """How long pods of a size waited that came after the warm-up; those that were never placed until the end.

    Attributes
    ----------
    times
        In mean lifetimes, in the order of arrival.
    never
        How many were never placed.
    """

    times: Sequence[float]
    never: int

    @property
    def mean(self) -> float:
        """The mean, 0 where nobody came."""
        return fmean(self.times) if self.times else 0.0

    @property
    def p95(self) -> float:
        """What 95 percent waited at most, 0 where nobody came."""
        return float(np.percentile(self.times, 95.0, method="higher")) if self.times else 0.0


@dataclass(slots=True)
class Service:
    """What a replay came to: means over time after the warm-up.

    Attributes
    ----------
    waits
        By size.
    allocation
        Percent of the cards that were given out.
    free_nodes
        Nodes that nobody used, and those with eight cards among them.
    moved
        Pods that were in a second place.
    evicted
        Stays that ended before their time was over.
    """

    waits: dict[str, Waits] = field(default_factory=dict)
    allocation: float = 0.0
    free_nodes: tuple[float, float] = (0.0, 0.0)
    moved: int = 0
    evicted: int = 0


def _events(demand: Demand, stays: Sequence[Stay], until: float) -> Iterator[tuple[float, int, int]]:
    """Yield when something happens, what, and the number of the stay, or of the pod that comes."""
    found = [(stay.end, _ENDS, at) for at, stay in enumerate(stays) if stay.end < until]
    found += [(come, _COMES, number) for number, come in enumerate(demand.come)]
    found += [(stay.start, _BEGINS, at) for at, stay in enumerate(stays)]
    yield from sorted(found)


def assess(demand: Demand, stays: Sequence[Stay], warm_up: float = WARM_UP, until: float = LIFETIMES) -> Service:
    """Audit the stays, which is to do them again on plain numbers, and measure them.

    Raises
    ------
    AuditError
        If a pod was where there was no room for it.
    PackingError
        If a pod was there before it came, or waited although it would have fitted.
    """
    free, found = FreeResources(demand.fleet), Service()
    audit = _Audit(demand, free)
    used, nodes, large, before = 0.0, 0.0, 0.0, 0.0
    for time, what, at in [*_events(demand, stays, until), (until, _OVER, 0)]:
        lasted = max(time, warm_up) - max(before, warm_up)
        used += free.used * lasted
        nodes += len(audit.idle) * lasted
        large += audit.large * lasted
        if time > before:
            audit.check()
        before = time
        if what == _COMES:
            audit.comes(at)
        elif what != _OVER:
            audit.moves(stays[at], begins=what == _BEGINS)
    found.allocation = 100.0 * used / demand.fleet.capacity / (until - warm_up)
    found.free_nodes = (nodes / (until - warm_up), large / (until - warm_up))
    starts: dict[int, float] = {}
    for stay in stays:
        found.moved += int(stay.number in starts)
        found.evicted += int(stay.end < min(stay.start + demand.lasting[stay.number], until))
        starts.setdefault(stay.number, stay.start)
    for size, belongs in SIZES.items():
        came = [
            (number, time)
            for number, (pod, time) in enumerate(zip(demand.pods, demand.come, strict=True))
            if time >= warm_up and belongs(pod)
        ]
        times = [starts.get(number, until) - time for number, time in came]
        found.waits[size] = Waits(times, sum(number not in starts for number, _ in came))
    return found


class _Audit:
    """Who waits, and which nodes nobody uses.

    Parameters
    ----------
    free
        What is free, which is kept up to date.

    Attributes
    ----------
    idle
        Nodes that nobody uses.
    large
        How many of them have eight cards.
    """

    def __init__(self, demand: Demand, free: FreeResources) -> None:
        self._demand = demand
        self._free = free
        self._empty = [node.pods for node in demand.fleet.nodes]
        self._is_large = [len(node.models) == WHOLE_NODE for node in demand.fleet.nodes]
        self.idle = set(range(len(self._empty)))
        self.large = sum(self._is_large)
        self._waiting: dict[TracePod, set[int]] = {}
        self._came: set[int] = set()
        self._left: set[int] = set()
        self._new: set[TracePod] = set()

    def comes(self, number: int) -> None:
        """Take in that a pod came: it waits until it is placed."""
        pod = self._demand.pods[number]
        self._came.add(number)
        waits = self._waiting.setdefault(pod, set())
        if not waits:
            self._new.add(pod)
        waits.add(number)

    def moves(self, stay: Stay, *, begins: bool) -> None:
        """Take in that a stay begins or ends."""
        pod, node = self._demand.pods[stay.number], stay.location.node
        if begins:
            if stay.number not in self._came:
                raise PackingError(f"pod {stay.number} was placed before it came")
            self._free.take(pod, stay.location)
            self._waiting[pod].discard(stay.number)
        else:
            self._free.release(pod, stay.location)
            self._left.add(node)
        idle = self._free.room.pods[node] == self._empty[node]
        if idle != (node in self.idle):
            (self.idle.add if idle else self.idle.discard)(node)
            self.large += self._is_large[node] * (1 if idle else -1)

    def check(self) -> None:
        """Look whether a pod waits that would fit: a new kind anywhere, the others where somebody has left."""
        for pod in self._new:
            if self._waiting[pod]:
                self._free.reject(pod)
        if self._free.withheld:
            raise PackingError(f"pods waited that had room: {self._new}")
        for node in self._left:
            for pod, numbers in self._waiting.items():
                if numbers and self._fits(pod, node):
                    raise PackingError(f"{pod} waited although node {node} had room")
        self._new.clear()
        self._left.clear()

    def _fits(self, pod: TracePod, node: int) -> bool:
        room, models = self._free.room, self._demand.fleet.nodes[node].models
        if room.cpu[node] < pod.cpu or room.memory[node] < pod.memory or room.pods[node] < 1:
            return False
        left, shares = room.cards[node].tolist(), room.shares[node].tolist()
        usable = (
            left[card] >= pod.share and shares[card] >= 1 and (not pod.models or model in pod.models)
            for card, model in enumerate(models)
        )
        found: int = sum(usable)
        return found >= pod.cards

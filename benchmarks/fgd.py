"""Fragmentation gradient descent, the baseline of ``packing``: each pod goes where it fragments the free cards least.

Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent (USENIX ATC
2023), section 4, written from the paper. The score of a node is how much less fragmentation it has with the pod than
without it, through a sigmoid, cut to a whole number from 0 to 100, so that one point is 40 thousandths of a card. The
first node of equal ones is taken, and the first card: the published numbers rest on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces import CardLocation, Fleet, Room, TracePod, TypicalPod

_NEVER: Final = -1
_TEN: Final = 10.0  # thousandths of a card in a percent of it
Ints = NDArray[np.int64]
Mix = tuple[Ints, Ints, Ints, Ints, NDArray[np.float64]]
"""Typical pods by column: cpu, cards, share, allowed models as bits, weight."""


class FgdPlacer:
    """Places pods by fragmentation gradient descent.

    Parameters
    ----------
    fleet
        Its order decides between equals.
    mix
        The pods by which fragmentation is measured.
    """

    def __init__(self, fleet: Fleet, mix: Sequence[TypicalPod]) -> None:
        self._fleet = fleet
        self._room = Room.of(fleet)
        models = fleet.card_models
        self._models = np.where(models >= 0, 1 << np.maximum(models, 0), 0)
        pods = [typical.pod for typical in mix]
        self._mix: Mix = (
            np.array([pod.cpu for pod in pods], dtype=np.int64),
            np.array([pod.cards for pod in pods], dtype=np.int64),
            np.array([pod.share for pod in pods], dtype=np.int64),
            np.array([self._bits(pod) for pod in pods], dtype=np.int64),
            np.array([typical.weight for typical in mix]),
        )
        self._version = np.zeros(len(fleet.nodes), dtype=np.int64)
        self._known: dict[TracePod, tuple[Ints, Ints, Ints]] = {}
        self._placed: dict[int, tuple[TracePod, CardLocation]] = {}

    def place(self, number: int, pod: TracePod) -> CardLocation | None:
        """Place a pod; None where it fits nowhere."""
        if pod not in self._known:
            nodes = len(self._fleet.nodes)
            never, zero = np.full(nodes, _NEVER), np.zeros(nodes, dtype=np.int64)
            self._known[pod] = (never, zero, zero.copy())
        versions, scores, cards = self._known[pod]
        room, asked = self._room, (pod.cpu, pod.memory, pod.cards, pod.share, self._bits(pod))
        node = _best(
            asked, self._mix, self._models, (room.cpu, room.memory, room.pods, room.cards, room.shares),
            self._version, versions, scores, cards,
        )  # fmt: skip
        if node < 0:
            return None
        chosen = tuple(index for index in range(self._models.shape[1]) if cards[node] >> index & 1)
        location = CardLocation(int(node), chosen)
        self._placed[number] = (pod, location)
        self._book(pod, location, 1)
        return location

    def remove(self, number: int) -> None:
        """Take a pod away."""
        self._book(*self._placed.pop(number), -1)

    def _book(self, pod: TracePod, location: CardLocation, sign: int) -> None:
        room, node, cards = self._room, location.node, list(location.cards)
        room.cpu[node] -= sign * pod.cpu
        room.memory[node] -= sign * pod.memory
        room.pods[node] -= sign
        room.cards[node, cards] -= sign * pod.share
        room.shares[node, cards] -= sign
        self._version[node] += 1

    def _bits(self, pod: TracePod) -> int:
        return sum(1 << number for number, allowed in enumerate(self._fleet.allowed(pod)) if allowed)


@njit(cache=True)
def _best(asked: Any, mix: Any, models: Any, room: Any, version: Any, versions: Any, scores: Any, cards: Any) -> int:
    """Return the first node with the highest score, -1 where none fits; scores are computed where a node changed."""
    best, at = _NEVER, -1
    for node in range(version.shape[0]):
        if versions[node] != version[node]:
            scores[node], cards[node] = _score(asked, mix, models[node], room, node)
            versions[node] = version[node]
        if scores[node] > best:
            best, at = scores[node], node
    return at


@njit(cache=True)
def _score(asked: Any, mix: Any, models: Any, room: Any, node: int) -> tuple[int, int]:
    """Return the score of a node, -1 where the pod does not fit, and the cards that it would have, as bits."""
    cpu, memory, count, share, bits = asked
    free_cpu, free_memory, free_pods, free_cards, shares = room
    if free_cpu[node] < cpu or free_memory[node] < memory or free_pods[node] < 1:
        return _NEVER, 0
    left = free_cards[node].copy()
    before = _fragments(mix, models, free_cpu[node], left)
    if count == 0:
        return _points(before - _fragments(mix, models, free_cpu[node] - cpu, left)), 0
    best, chosen, found, taken = _NEVER, 0, 0, 0
    for card in range(left.shape[0]):
        if left[card] < share or shares[node, card] < 1 or not models[card] & bits:
            continue
        if count > 1:
            if found < count:
                found, taken = found + 1, taken | 1 << card
            continue
        left[card] -= share
        points = _points(before - _fragments(mix, models, free_cpu[node] - cpu, left))
        left[card] += share
        if points > best:
            best, chosen = points, 1 << card
    if count > 1 and found == count:
        for card in range(left.shape[0]):
            if taken >> card & 1:
                left[card] -= share
        return _points(before - _fragments(mix, models, free_cpu[node] - cpu, left)), taken
    return best, chosen


@njit(cache=True)
def _fragments(mix: Any, models: Any, cpu: int, left: Any) -> float:
    """Return what of the free cards of a node typical pods cannot use, in percent of a card."""
    cpus, counts, least, allowed, weights = mix
    total = 0.0
    for pod in range(cpus.shape[0]):
        idle, usable, passing = 0, 0, 0
        for card in range(left.shape[0]):
            if left[card] > 0:
                idle += left[card]
                if left[card] >= least[pod] and models[card] & allowed[pod]:
                    usable += left[card]
                    passing += 1
        fits = cpu >= cpus[pod] and counts[pod] > 0 and passing >= counts[pod]
        total += weights[pod] * (idle - usable if fits else idle)
    return total


@njit(cache=True)
def _points(less: float) -> int:
    """Return whole points for so much less fragmentation, in percent of a card."""
    return int(100.0 / (1.0 + np.exp(-less * _TEN / 1000.0)))

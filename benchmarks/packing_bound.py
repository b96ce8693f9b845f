"""How much of the cards anybody could give out who knows all pods beforehand: the bound of a linear program.

Nodes of the same cards and cpu are one kind, whose cpu is shared by all of them; of pods there may be parts; memory,
and how many pods may share a card, do not count. Cards do: a column of the program is what is on one node, found by
dynamic programming for the prices of the moment, and whole cards of one pod are on one node. It is solved by the
simplex method; prices, whatever they are, prove a bound, so that neither rounding nor an early end makes it too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.traces import TraceNode, TracePod

NEAR: Final = 1e-4
"""The program is solved when what is proved is so near to what is reached, as a part of all cards."""
ROUNDS: Final = 4000
"""It ends after so many rounds in any case."""
REWARD: Final = 10.0 * WHOLE
"""What the program gains with a pod that has to be placed, in percent of a card; it is taken off what it proves."""
_LEAST: Final = 1e-7
_ANEW: Final = 100  # rounds after which the inverse is computed anew
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Kinds of pods, by column.

    Attributes
    ----------
    gain
        What each of them is worth, in percent of a card.
    may
        Whether they may be on a kind of nodes; kind of nodes by kind of pods.
    """

    count: Floats
    gain: Floats
    cpu: Floats
    cards: Ints
    share: Ints
    may: NDArray[np.bool_]


def most(nodes: Sequence[TraceNode], pods: Sequence[TracePod], must: Sequence[TracePod] = ()) -> float:
    """Return what of the cards can be given out at most, in percent.

    Parameters
    ----------
    pods
        All that come.
    must
        Those among them that have to be placed.
    """
    kinds = Counter((node.cpu, node.models) for node in nodes)
    program = _Program(kinds, _asked(list(kinds), Counter(pods), Counter(must)))
    capacity = WHOLE * sum(len(node.models) for node in nodes)
    return 100.0 * min(program.solve(NEAR * capacity) - REWARD * len(must), capacity) / capacity


def _asked(kinds: Sequence[tuple[int, tuple[str, ...]]], pods: Counter[TracePod], must: Counter[TracePod]) -> _Asked:
    rows = [(pod, float(must[pod]), pod.demand + REWARD) for pod in must]
    rows += [(pod, float(some - must[pod]), float(pod.demand)) for pod, some in pods.items() if some > must[pod]]
    rows = [row for row in rows if row[2] > 0]
    asked = [pod for pod, _, _ in rows]
    may = [[_may_be_on(pod, cpu, models) for pod in asked] for cpu, models in kinds]
    return _Asked(
        np.array([some for _, some, _ in rows]),
        np.array([gain for _, _, gain in rows]),
        np.array([float(pod.cpu) for pod in asked]),
        np.array([pod.cards for pod in asked], dtype=np.int64),
        np.array([pod.share for pod in asked], dtype=np.int64),
        np.array(may, dtype=np.bool_).reshape(len(kinds), len(rows)),
    )


def _may_be_on(pod: TracePod, cpu: int, models: Sequence[str]) -> bool:
    of_its_own = models if not pod.models else [model for model in models if model in pod.models]
    return pod.cpu <= cpu and pod.cards <= len(of_its_own)


class _Program:
    """The program, and where its solution stands.

    There is a row for each kind of pods (no more than there are), one for each kind of nodes, and one for its cpu.
    """

    def __init__(self, kinds: Counter[tuple[int, tuple[str, ...]]], asked: _Asked) -> None:
        self._asked = asked
        self._pods, self._kinds = len(asked.count), len(kinds)
        self._nodes = np.array([float(some) for some in kinds.values()])
        cpu = self._nodes * np.array([float(cpu) for cpu, _ in kinds])
        self._cards = [len(models) for _, models in kinds]
        self._right = np.concatenate((asked.count, self._nodes, cpu))
        rows = self._right.size
        self._basis: Floats = np.eye(rows)
        self._inverse: Floats = np.eye(rows)
        self._gains: Floats = np.zeros(rows)
        self._reached = self._right * (1.0 + 1e-7 * np.random.default_rng(0).random(rows))  # no two rows end at once
        self._start = self._reached.copy()
        self._plain = np.flatnonzero(asked.cards == 0)
        self._sizes = _Sizes(asked)

    def solve(self, near: float) -> float:
        """Return what is proved to be the most that can be gained."""
        proved = float(self._asked.gain @ self._asked.count)
        for turn in range(ROUNDS):
            prices = self._gains @ self._inverse
            of_pods, of_cpu = np.maximum(prices[: self._pods], 0.0), np.maximum(prices[-self._kinds :], 0.0)
            left = np.where(self._asked.may, self._asked.gain - of_pods - of_cpu[:, None] * self._asked.cpu, -np.inf)
            found = self._sizes.best(left, self._cards)
            proved = min(proved, self._proof(of_pods, of_cpu, left, np.array([worth for worth, _ in found])))
            if proved - float(self._gains @ self._reached) <= near:
                break
            if not sum([self._enter(gain, column) for gain, column in self._candidates(prices, left, found)]):
                break
            if turn % _ANEW == _ANEW - 1:
                self._inverse = np.asarray(np.linalg.inv(self._basis), dtype=np.float64)
                self._reached = np.maximum(self._inverse @ self._start, 0.0)
        return proved

    def _proof(self, of_pods: Floats, of_cpu: Floats, left: Floats, worth: Floats) -> float:
        """Return what cannot be gained more than: the rows at their prices, and what nodes are worth beyond these."""
        asked, prices = self._asked, of_pods.copy()
        if self._plain.size:
            prices[self._plain] += np.maximum(left[:, self._plain].max(axis=0), 0.0)
        cpu = self._right[-self._kinds :]
        return float(prices @ asked.count + of_cpu @ cpu + np.maximum(worth, 0.0) @ self._nodes)

    def _candidates(
        self, prices: Floats, left: Floats, found: Sequence[tuple[float, Floats]]
    ) -> Iterator[tuple[float, Floats]]:
        """Yield what may enter the solution, with its gain: rows that are left, nodes, and pods without cards."""
        for row in np.flatnonzero(prices < -_LEAST).tolist():
            yield 0.0, np.eye(1, prices.size, row)[0]
        of_nodes = prices[self._pods : -self._kinds]
        for kind in np.argsort([of_nodes[kind] - worth for kind, (worth, _) in enumerate(found)], kind="stable"):
            pods = found[kind][1]
            yield float(self._asked.gain @ pods), self._column(pods, int(kind), 1.0)
        for pod in self._plain.tolist():
            kind = int(left[:, pod].argmax())
            if left[kind, pod] > _LEAST:
                yield float(self._asked.gain[pod]), self._column(np.eye(1, self._pods, pod)[0], kind, 0.0)

    def _column(self, pods: Floats, kind: int, nodes: float) -> Floats:
        column = np.zeros(self._right.size)
        column[: self._pods] = pods
        column[self._pods + kind] = nodes
        column[self._pods + self._kinds + kind] = self._asked.cpu @ pods
        return column

    def _enter(self, gain: float, column: Floats) -> bool:
        """Bring a column into the solution, if something is gained by it."""
        if gain - float(self._gains @ (self._inverse @ column)) <= _LEAST:
            return False
        along = self._inverse @ column
        rows = np.flatnonzero(along > _LEAST)
        if not rows.size:
            return False
        row = int(rows[np.argmin(self._reached[rows] / along[rows])])
        step = self._reached[row] / along[row]
        self._reached = np.maximum(self._reached - step * along, 0.0)
        self._reached[row] = step
        pivot = self._inverse[row] / along[row]
        self._inverse -= np.outer(along, pivot)
        self._inverse[row] = pivot
        self._basis[:, row], self._gains[row] = column, gain
        return True


class _Sizes:
    """What is best on a node of each kind, for what pods are worth there.

    A card has the best shares that fill it, and so has each card that no pod has together with others.
    """

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        shared = (asked.cards == 1) | ((asked.cards > 1) & (asked.share < WHOLE))
        self._shares = [(size, np.flatnonzero(shared & (asked.share == size))) for size in _values(asked.share[shared])]
        joined = (asked.cards > 1) & (asked.share == WHOLE)
        self._joined = [(some, np.flatnonzero(joined & (asked.cards == some))) for some in _values(asked.cards[joined])]

    def best(self, left: Floats, cards: Sequence[int]) -> list[tuple[float, Floats]]:
        """Return for each kind of nodes, with so many cards, what one is worth, and what is on it."""
        each = left / np.maximum(self._asked.cards, 1)  # pods with shares of several cards may be on several nodes
        worth = [(size, each[:, pods].max(axis=1)) for size, pods in self._shares]
        filled = np.zeros((left.shape[0], WHOLE + 1))
        for percent in range(1, WHOLE + 1):
            filled[:, percent] = filled[:, percent - 1]
            for size, gained in worth:
                if size <= percent:
                    np.maximum(filled[:, percent], filled[:, percent - size] + gained, out=filled[:, percent])
        return [self._on(some, left[kind], each[kind], filled[kind]) for kind, some in enumerate(cards)]

    def _on(self, cards: int, left: Floats, each: Floats, filled: Floats) -> tuple[float, Floats]:
        joined = [(some, pods[left[pods].argmax()]) for some, pods in self._joined if some <= cards]
        worth = [0.0]
        for number in range(1, cards + 1):
            ways = [worth[number - some] + left[pod] for some, pod in joined if some <= number]
            worth.append(max([worth[number - 1] + filled[WHOLE], *ways]))
        pods, number, single = np.zeros(left.size), cards, 0
        while number:
            for some, pod in joined:
                if some <= number and worth[number - some] + left[pod] == worth[number]:
                    pods[pod] += 1.0
                    number -= some
                    break
            else:
                number, single = number - 1, single + 1
        if single:
            for pod in self._filling(each, filled):
                pods[pod] += single / max(int(self._asked.cards[pod]), 1)
        return worth[cards], pods

    def _filling(self, each: Floats, filled: Floats) -> Iterator[int]:
        """Yield what a card is filled with."""
        percent = WHOLE
        while percent:
            for size, pods in self._shares:
                pod = int(pods[each[pods].argmax()])
                if size <= percent and each[pod] > 0 and filled[percent - size] + each[pod] == filled[percent]:
                    yield pod
                    percent -= size
                    break
            else:
                percent -= 1


def _values(of: Ints) -> list[int]:
    found: list[int] = np.unique(of).tolist()
    return found

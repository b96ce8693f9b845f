"""The score of nodes in points, for being combined with what somebody would like of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.scorers import CompiledScorer, NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.state import State

NO_FIT = FitColumns.empty(0)


@dataclass(frozen=True)
class Given(CompiledScorer):
    """Scores 0 to 20 that are given, of which the lowest win if it is turned."""

    name: str
    scores: tuple[int, ...]
    turned: bool = False
    ranks_plain_pods: bool = True

    @property
    def direction(self) -> float:
        return -1.0 if self.turned else 1.0

    def compile(self, workload: ScoredPod) -> CompiledScorer:
        return self

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        return np.array(self.scores, dtype=np.float64)[rows]

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        return 100.0 - 5.0 * raw if self.turned else 5.0 * raw


def points(*scorers: tuple[Given, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what ranks the nodes, and the points."""
    ranking = NodeRanking([WeightedScorer(*each) for each in scorers], ScoredPod({}, ()))
    number = len(scorers[0][0].scores) if scorers else 3
    score = ranking.score(State({"hami": 3}), np.arange(number, dtype=np.int64), NO_FIT)
    return score, ranking.points(score)


some = st.lists(st.tuples(st.lists(st.integers(0, 20), min_size=4, max_size=4), st.booleans(),
                          st.integers(-3, 3)), min_size=1, max_size=3)  # fmt: skip


@given(some)
def test_points_keep_the_order_and_lie_between_0_and_100(scorers: list[tuple[list[int], bool, int]]) -> None:
    given_ones = [
        (Given(str(number), tuple(scores), turned), weight) for number, (scores, turned, weight) in enumerate(scorers)
    ]
    score, found = points(*given_ones)
    assert ((found >= 0) & (found <= 100)).all()
    for one in range(4):
        for other in range(4):
            if score[one] > score[other] + 1e-9:
                assert found[one] > found[other]


@pytest.mark.parametrize(
    ("scorers", "expected"),
    [
        ([(Given("a", (0, 10, 20)), 7)], [0, 50, 100]),
        ([(Given("a", (0, 10, 20), turned=True), 7)], [100, 50, 0]),
        ([(Given("a", (0, 10, 20)), -7)], [100, 50, 0]),
        ([(Given("a", (0, 10, 20)), 3), (Given("b", (20, 20, 0)), 1)], [25, 62.5, 75]),
        ([(Given("a", (0, 10, 20)), 3), (Given("b", (20, 20, 0)), -1)], [0, 37.5, 100]),
        ([(Given("a", (0, 10, 20)), 0)], [100, 100, 100]),
    ],
)
def test_several_are_the_mean_by_weight(scorers: list[tuple[Given, int]], expected: list[float]) -> None:
    assert points(*scorers)[1].tolist() == expected

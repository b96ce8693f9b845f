"""How scorers combine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.scorers import CompiledScorer, NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.state import State


@dataclass(frozen=True)
class Fixed(CompiledScorer):
    """A scorer whose raw scores are given; a tenth of them is out of 100."""

    name: str
    raw: tuple[float, ...]
    direction: float = 1.0
    ranks_plain_pods: bool = True

    def compile(self, workload: ScoredPod) -> CompiledScorer:
        return self

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        return np.array(self.raw)[rows]

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        return raw / 10 if self.direction > 0 else 100 - raw / 10


STATE, FIT, ROWS = State({"hami": 3}), FitColumns.empty(3), np.arange(3)
POD = ScoredPod({}, ())


def scores(*entries: WeightedScorer) -> list[float]:
    found: list[float] = NodeRanking(entries, POD).score(STATE, ROWS, FIT).tolist()
    return found


def test_one_alone_orders_by_its_own_scale_and_weight() -> None:
    assert scores(WeightedScorer(Fixed("a", (1, 2, 3)), 5)) == [5, 10, 15]
    assert scores(WeightedScorer(Fixed("a", (1, 2, 3)), -1)) == [-1, -2, -3]
    assert scores(WeightedScorer(Fixed("a", (1, 2, 3), -1.0))) == [-1, -2, -3]


def test_several_are_normalised_weighted_and_added() -> None:
    one, two = Fixed("a", (100, 200, 300)), Fixed("b", (1000, 500, 0), -1.0)
    assert scores(WeightedScorer(one, 2), WeightedScorer(two, 3)) == [20, 190, 360]


def test_a_weight_of_0_switches_off_and_leaves_the_other_alone() -> None:
    off = WeightedScorer(Fixed("b", (9, 9, 9)), 0)
    assert scores(WeightedScorer(Fixed("a", (1, 2, 3))), off) == [1, 2, 3]
    assert scores(off) == [0, 0, 0]
    assert scores() == [0, 0, 0]


def test_the_order_of_the_list_does_not_change_the_sum() -> None:
    entries = [WeightedScorer(Fixed(n, (0.1 * w, 7.7 / w, 1e17 / w)), w) for n, w in (("a", 3), ("b", 7), ("c", 11))]
    assert scores(*entries) == scores(*entries[::-1]) == scores(entries[1], entries[0], entries[2])


def test_the_parts_add_up_to_the_score() -> None:
    ranking = NodeRanking([WeightedScorer(Fixed("a", (10, 20, 30)), 2), WeightedScorer(Fixed("b", (5, 5, 5)))], POD)
    parts = ranking.explain(STATE, 2, FIT)
    assert [(p.scorer, p.raw, p.normalised, p.weight, p.value) for p in parts] == [
        ("a", 30, 3, 2, 6), ("b", 5, 0.5, 1, 0.5)
    ]  # fmt: skip
    assert sum(part.value for part in parts) == pytest.approx(ranking.score(STATE, ROWS, FIT)[2])

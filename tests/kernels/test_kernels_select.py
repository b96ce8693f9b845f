"""The choice of a node and of what to look at again, against plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu_scheduler.kernels import select_best, stale_rows

scores = st.sampled_from([-30.0, 0.0, 0.5, 7.0, 7.000001, 30.0])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[bool], list[float], list[int]]:
    size = draw(st.integers(0, 12))
    rows = draw(st.lists(st.sampled_from(range(size)), unique=True)) if size else []
    feasible = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    score = draw(st.lists(scores, min_size=size, max_size=size))
    return rows, feasible, score, list(draw(st.permutations(range(size))))


@settings(max_examples=300, deadline=None)
@given(tables())
def test_select_best(table: tuple[list[int], list[bool], list[float], list[int]]) -> None:
    rows, feasible, score, rank = table
    fitting = [row for row in rows if feasible[row]]
    expected = min(fitting, key=lambda row: (-score[row], rank[row]), default=-1)
    found = select_best(
        np.array(rows, dtype=np.int64), np.array(feasible, dtype=np.bool_), np.array(score), np.array(rank, np.int64)
    )
    assert found == expected


def test_equal_scores_go_to_the_first_name() -> None:
    rows, feasible = np.arange(3), np.ones(3, dtype=np.bool_)
    score, rank = np.full(3, 5.0), np.array([2, 0, 1])
    for order in ([0, 1, 2], [2, 1, 0]):
        assert select_best(rows[order], feasible, score, rank) == 1


def test_none_feasible() -> None:
    nothing = np.zeros(3, dtype=np.bool_)
    assert select_best(np.arange(3), nothing, np.ones(3), np.arange(3)) == -1


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_stale_rows(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 10))
    rows = data.draw(st.lists(st.sampled_from(range(size)), unique=True))
    versions = st.lists(st.integers(-1, 3), min_size=size, max_size=size)
    version, seen = data.draw(versions), data.draw(versions)
    expected = [row for row in rows if version[row] != seen[row]]
    now_seen = [version[row] if row in rows else seen[row] for row in range(size)]
    column, out = np.array(seen, dtype=np.int64), np.full(size, -9, dtype=np.int64)
    arrays = np.array(rows, dtype=np.int64), np.array(version, dtype=np.int64)
    found = stale_rows(*arrays, column, out)
    assert out[:found].tolist() == expected
    assert (out[found:] == -9).all()
    assert column.tolist() == now_seen
    assert stale_rows(*arrays, column, out) == 0

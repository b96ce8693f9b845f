"""Entries of node rows stay what they are, whatever is written for other rows."""

from __future__ import annotations

import numpy as np
import pytest

from vgpu_scheduler.state import RowSegments

ABSENT = -1


@pytest.mark.parametrize("seed", range(20))
def test_entries_are_those_that_were_written_last(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = RowSegments((np.int64, 0), (np.float64, 2), size=int(rng.integers(1, 8)), absent=ABSENT)
    wanted: dict[int, list[int]] = {}
    rows = 0
    for _ in range(200):
        rows = max(rows, int(rng.integers(1, 12)))
        made.ensure_rows(rows)
        row, entries = int(rng.integers(rows)), rng.integers(1000, size=int(rng.integers(0, 6)))
        where = made.replace(row, entries.size)
        made.columns[0][where] = entries
        made.columns[1][where] = entries[:, np.newaxis] / [1, 2]
        wanted[row] = entries.tolist()
        for number in range(rows):
            first, last = int(made.first[number]), int(made.last[number])
            expected = wanted.get(number, [])
            assert (first == ABSENT) == (not expected)
            assert made.columns[0][first:last].tolist() == expected
            assert made.columns[1][first:last].tolist() == [[each, each / 2] for each in expected]
    assert made.columns[0].shape[0] <= max(8, 4 * 12 * 6), "gaps are closed"

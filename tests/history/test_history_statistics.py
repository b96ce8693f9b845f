"""Quantiles and sums over time, which the back-test and the shadow share."""

from __future__ import annotations

import numpy as np
import pytest

from vgpu_scheduler.history.statistics import integrals, quantiles
from vgpu_scheduler.shadow.summary import WaitingTimes


@pytest.mark.parametrize(
    ("values", "half", "most"),
    [
        ([], 0.0, 0.0),
        ([7], 7.0, 7.0),
        ([0, 100], 0.0, 100.0),
        ([1, 2, 3], 2.0, 3.0),
        (list(range(1, 11)), 5.0, 9.0),
        (list(range(1, 12)), 6.0, 10.0),
    ],
)
def test_half_and_nine_of_ten_waited_no_longer(values: list[int], half: float, most: float) -> None:
    """They are values that somebody waited: no means of two."""
    found = WaitingTimes.of(reversed(values))
    assert (found.median, found.most_of_ten) == (half, most)
    if values:
        assert sum(each <= most for each in values) >= 0.9 * len(values)
        assert sum(each < most for each in values) < 0.9 * len(values)


def test_what_counts_several_times_is_there_as_often() -> None:
    values, counts = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 4.0])
    assert quantiles(values, (0.2, 0.5), counts) == quantiles(np.array([1.0, 3.0, 3.0, 3.0, 3.0]), (0.2, 0.5))
    assert quantiles(values, (0.5,), np.zeros(3)) == [0.0]


def test_a_value_holds_from_its_time_to_the_next_one() -> None:
    times, values = np.array([10.0, 20.0]), np.array([2.0, 5.0])
    found = integrals(times, values, np.array([0.0, 10.0, 15.0, 30.0]))
    assert found.tolist() == [0.0, 10.0, 10.0 + 50.0]
    assert integrals(np.array([]), np.array([]), np.array([0.0, 1.0])).tolist() == [0.0]

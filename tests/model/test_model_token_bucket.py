"""Tokens are there at first, are taken one by one, and come again with time, never more than at first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.model import TokenBucket


def test_so_many_at_once_and_then_one_after_another() -> None:
    bucket = TokenBucket(2, 10.0, 100.0)
    assert [bucket.take(100.0) for _ in range(3)] == [True, True, False]
    assert [bucket.has_token(now) for now in (109.0, 110.0)] == [False, True]
    assert [bucket.take(110.0), bucket.take(110.0)] == [True, False]
    assert [bucket.take(1000.0) for _ in range(3)] == [True, True, False]


@given(st.lists(st.floats(0.0, 30.0), max_size=50), st.integers(1, 4))
def test_no_more_than_at_first_and_those_that_came_meanwhile(pauses: list[float], capacity: int) -> None:
    bucket, now, taken = TokenBucket(capacity, 7.0, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= capacity + now / 7.0 + 1e-9

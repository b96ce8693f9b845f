"""What is remembered is bounded in number, and in bytes where its keys hold what others wrote."""

from __future__ import annotations

from functools import partial

from vgpu_scheduler.engine.recent import MOST, Recent, weight_of_texts


def test_the_least_recently_used_are_forgotten() -> None:
    forgotten: list[int] = []
    recent: Recent[int] = Recent(2, forgotten.append)
    for key in (1, 2, 1, 3):
        assert recent.get(key, partial(int, key)) == key
    assert forgotten == [2]
    assert recent.get(1, lambda: 9) == 1


def test_how_many_are_remembered_may_change() -> None:
    room, forgotten = [3], list[int]()
    recent: Recent[int] = Recent(lambda: room[0], forgotten.append)
    for key in (1, 2, 3):
        recent.get(key, partial(int, key))
    assert forgotten == []
    room[0] = 2
    recent.get(4, lambda: 4)
    assert forgotten == [1, 2]


def test_keys_are_bounded_in_bytes() -> None:
    forgotten: list[int] = []
    recent: Recent[int] = Recent(1000, forgotten.append, weight_of_texts)
    half = "x" * (MOST // 2)
    for number in range(4):
        recent.get((half, number), partial(int, number))
    assert forgotten == [0, 1]
    recent.get(("x" * (2 * MOST), 9), lambda: 9)
    assert forgotten == [0, 1, 2, 3]
    assert recent.get(("x" * (2 * MOST), 9), lambda: 0) == 9  # the last one is kept, however large
    recent.get(("small", 1), lambda: 1)
    assert forgotten[-1] == 9


def test_texts_count_wherever_they_are_in_a_key() -> None:
    assert weight_of_texts((1, "abc", b"de", None, ("f", ("g",)))) == 7

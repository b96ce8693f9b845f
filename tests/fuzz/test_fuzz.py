"""Each target survives its corpus, changes of it and the largest inputs, in a time that grows no faster than these."""

from __future__ import annotations

import gc
import logging
import time
import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutating import CORPUS, Edit, applied, corpus
from tests.fuzz.report import FOUND, PAGE
from tests.fuzz.running import bounded, mutate_blindly
from tests.fuzz.targets import BY_NAME, TARGETS, Growing, Target

LARGEST_RATIO = 10.0
"""Of the times of two inputs, one of which is four times as large; what is quadratic takes sixteen times as long."""
STEP = 4
AT_LEAST = 0.004
"""Seconds below which a time says nothing."""

edits = st.builds(
    Edit, st.integers(0, 63), st.floats(0, 1, exclude_max=True), st.floats(0, 1), st.integers(0, (1 << 16) - 1)
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Without the log: it tells of each object that cannot be read."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_corpus(target: Target) -> None:
    inputs = corpus(target.name)
    assert inputs
    for name, data in inputs:
        assert len(data) <= target.most, name
        with bounded():
            target.run(data)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_few_changes_of_the_corpus(target: Target) -> None:
    _change(target, 15)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_many_changes_of_the_corpus(target: Target) -> None:
    _change(target, 200)


def _change(target: Target, times: int) -> None:
    inputs = [data for _, data in corpus(target.name)]

    @settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(inputs) | st.binary(max_size=64), st.lists(edits, max_size=8))
    def survives(data: bytes, changes: list[Edit]) -> None:
        with bounded():
            target.run(applied(data, changes, min(target.most, 1 << 17)))

    survives()


FORMS = [(target, form) for target in TARGETS for form in target.growing]


@pytest.mark.long
@pytest.mark.parametrize(("target", "form"), FORMS, ids=[f"{target.name}: {form.name}" for target, form in FORMS])
def test_time_grows_no_faster_than_inputs(target: Target, form: Growing) -> None:
    assert any(_ratio(target, form, first) < LARGEST_RATIO for first in (20_000, 60_000, 80_000))


def _ratio(target: Target, form: Growing, first: int) -> float:
    """Return how much longer the largest input takes than one of a quarter of its size, neither of them seen before."""
    small = min(_seconds(target, form.of(target.most // STEP, first + 10_000 * turn)) for turn in range(2))
    return _seconds(target, form.of(target.most, first + 20_000)) / max(small, AT_LEAST)


def _seconds(target: Target, data: bytes) -> float:
    gc.collect()
    gc.disable()  # what it costs depends on what else the process holds
    try:
        began = time.process_time()
        target.run(data)
        return time.process_time() - began
    finally:
        gc.enable()


def test_what_grows_quadratically_is_noticed() -> None:
    def quadratic(data: bytes) -> None:
        for _ in data[::8]:
            data.count(b"x")

    slow = Target("slow", "", "", "", quadratic, 1 << 17, (Growing("as", "", "a"),))
    assert _ratio(slow, slow.growing[0], 0) > LARGEST_RATIO


def test_the_runner_tells_what_it_finds() -> None:
    def broken(data: bytes) -> None:
        assert b":" not in data

    target = Target("allocation", "", "", "", broken, 1 << 12, ())
    ran = mutate_blindly(target, 5, 1)
    assert ran.finding is not None
    assert "AssertionError" in ran.error


def test_each_target_has_its_corpus_and_each_finding_its_input() -> None:
    assert {path.name for path in CORPUS.iterdir()} == BY_NAME.keys()
    found = tomllib.loads(FOUND.read_text())
    assert all((CORPUS / name).is_file() for name in found)
    assert all(text in PAGE.read_text() for text in found.values())
    assert all(f"| {name} |" in PAGE.read_text() for name in BY_NAME)

"""The benchmark of forecasts: how ranges are counted, and that it is skipped aloud where the trace is not."""

from __future__ import annotations

import sys
from math import inf

import pytest
from benchmarks import forecast
from tests.history.recorded import BEGAN, waiting


def asked(wait: float, *drawn: float) -> forecast.Asked:
    return forecast.Asked(forecast.CAME, BEGAN, waiting("pod"), 0.0, wait, drawn)


def test_ranges_are_counted() -> None:
    hour = 3600.0
    questions = [
        asked(hour, *([0.0] * 4), *([2 * hour] * 5)),
        asked(9 * hour, *([0.0] * 4), *([2 * hour] * 5)),
        asked(9 * hour, *([0.0] * 4), *([inf] * 5)),
        asked(9 * hour, *([inf] * 9)),
    ]

    found = forecast.held(questions, [each.drawn for each in questions])

    assert found == forecast.Held(4, 0.25, 0.25, 2 / 3, 2.0)


def test_without_the_trace_it_says_that_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(forecast.DATA, raising=False)
    monkeypatch.setattr(sys, "argv", ["forecast"])
    forecast.main()
    assert capsys.readouterr().out.startswith("skipped: neither OPENB_DATA")

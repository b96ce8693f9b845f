"""The page about back-tests: its example gives what it shows, and its settings and metrics are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.history.recorded import BEGAN, played, written

from vgpu_scheduler.cli import main
from vgpu_scheduler.history import Header
from vgpu_scheduler.settings import setting_infos
from vgpu_scheduler.telemetry import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "backtest.md").read_text()


def block(language: str, containing: str) -> str:
    """Return the block of the page that has a text."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = [each for each in found if containing in each]
    return str(text)


def test_the_example_gives_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("history"), played(5, pods=100, hours=12.0), Header(BEGAN, "7c9e6679", 1, "0.1.0")).close()
    Path("packed-cards.yaml").write_text(block("yaml", "packed-cards"))
    command, _, shown = block("console", "--log history").partition("\n")

    result = CliRunner().invoke(main, shlex.split(command.removeprefix("$ vgpu-scheduler ")))

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == shown.splitlines()


def test_settings_and_metrics_of_the_page_are_there() -> None:
    settings = {".".join(info.path) for info in setting_infos()}
    named = set(re.findall(r"`(history\.[a-z_]+)`", PAGE))
    assert named == {name for name in settings if name.startswith("history.")}
    for metric in (catalogue.HISTORY_ROWS, catalogue.HISTORY_FAILURES):
        assert metric.name in PAGE

"""The example on the page of the shadow is what the command prints of what the test has watched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.live_cluster import run
from tests.shadow.example import write_example

PAGE = Path(__file__).parents[2] / "docs" / "shadow.md"
EXAMPLE = re.compile(r"(?<=<!-- BEGIN example -->\n).*?(?=<!-- END example -->)", re.DOTALL)
COMMAND = re.compile(r"^\$ vgpu-scheduler ((?:shadow snapshot|explain) .*?)(?: > (\S+))?$", re.MULTILINE)


def quoted(report: str) -> str:
    """Return of a report what the page shows: its numbers, and the first of the pods that waited."""
    numbers, missed, *_ = report.split("\n## ")
    lines = [line for line in missed.splitlines() if not line.startswith("| default/")]
    first = [line for line in missed.splitlines() if line.startswith("| default/")][:3]
    at = lines.index(next(line for line in lines if line.startswith("|---"))) + 1
    shown = [line for line in numbers.splitlines() if line.startswith("|")]
    return "\n".join(["", *shown, "", *lines[at - 2 : at], *first, ""]) + "\n"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shadow")
    write_example(folder)
    return folder


def test_the_example_is_what_the_command_prints(state: Path) -> None:
    found = EXAMPLE.search(PAGE.read_text())
    assert found is not None
    assert found[0] == quoted(run("shadow", "report", "--state", str(state)).stdout)


def test_what_is_claimed_can_be_looked_into_as_the_page_says(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shadow").symlink_to(state)
    (first, file), (second, _) = COMMAND.findall(PAGE.read_text())
    (tmp_path / file).write_text(run(*first.split()).stdout)
    assert "default/kept7 goes to n0, GPU-n0-0" in run(*second.split()).stdout
    assert run("shadow", "snapshot", "--state", "shadow", "--at", "2025-01-01T00:00:00Z").exit_code == 2

"""``explain`` and ``simulate --pending`` say how long a pod will wait: from a snapshot, or from the leader's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.forecast.snapshots import WHOLE, dated, ended, listed
from tests.history.recorded import BEGAN, history, known_at_start, waiting, written
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli import main
from vgpu_scheduler.history import Arrived, Decided, Departed, Header


def snapshot(path: Path, *ends: dict[str, Any]) -> str:
    """Write a cluster of one card that a pod has had for 10 minutes, and another one wants."""
    objects = [
        node("a", cards=1),
        dated(running("first", "a", "GPU-a-0", 16384), 600.0, 600.0),
        dated(pod("new", WHOLE), 60.0),
    ]
    (path / "cluster.json").write_text(listed([*objects, *ends]))
    return str(path / "cluster.json")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def known(tmp_path: Path) -> str:
    """Return a snapshot in which ten pods have run for 20 minutes."""
    return snapshot(tmp_path, *(ended(f"old-{n}", 3000.0, 1200.0) for n in range(10)))


def test_explain_says_how_long_a_pod_waits(known: str) -> None:
    result = run("explain", "new", "--forecast", "--cluster", known)

    assert result.exit_code == 1, result.output
    rests = "(run times are those of 10 pods of the same namespace that ask for the same)"
    wanted = f"It waits about 10 minutes more, in 8 of 10 cases {rests}."
    assert wanted in result.stdout.splitlines()
    found = json.loads(run("explain", "new", "--forecast", "--cluster", known, "-o", "json").stdout)["forecast"]
    assert found == {
        "leastSeconds": 600,
        "mostSeconds": 600,
        "probability": 0.8,
        "draws": 99,
        "durations": {"class": "request", "pods": 10},
    }


def test_simulate_says_it_of_pods_that_find_no_place(known: str) -> None:
    result = run("simulate", "--pending", "--forecast", "--cluster", known)

    assert result.exit_code == 1, result.output
    assert "default/new: It waits about 10 minutes more, in 8 of 10 cases" in result.stdout
    (found,) = json.loads(run("simulate", "--pending", "--forecast", "--cluster", known, "-o", "json").stdout)
    assert found["forecast"]["leastSeconds"] == 600


def test_where_nothing_is_known_it_is_said_and_no_number(tmp_path: Path) -> None:
    result = run("explain", "new", "--forecast", "--cluster", snapshot(tmp_path))

    assert "How long it will wait cannot be estimated: it does not fit now, and the run time of no pod is known." in (
        result.stdout.splitlines()
    )
    found = json.loads(run("explain", "new", "--forecast", "--cluster", snapshot(tmp_path), "-o", "json").stdout)
    assert list(found["forecast"]) == ["unknown"]


def test_nothing_is_forecast_unless_it_is_asked(known: str) -> None:
    for asked in (("explain", "new"), ("simulate", "--pending")):
        result = run(*asked, "--cluster", known)
        assert "waits about" not in result.output
        assert "forecast" not in run(*asked, "--cluster", known, "-o", "json").stdout


@pytest.mark.long
def test_the_log_knows_what_the_snapshot_does_not(tmp_path: Path) -> None:
    events = []
    for number in range(20):
        old = waiting(f"old-{number}", resources={"limits": {GPU: "1", MEMORY: "16384", CORES: "0"}})
        events += [Arrived(BEGAN, old), Decided(BEGAN, old.uid, "a"), Departed(BEGAN + 900, old.uid)]
    events.sort(key=lambda event: event.at)
    folder = tmp_path / "history"
    folder.mkdir()
    story = history([], events)
    written(
        folder, type(story)(story.began, story.ended, known_at_start([]), story.events), Header(BEGAN, "r", 1)
    ).close()

    result = run("explain", "new", "--cluster", snapshot(tmp_path), "--log", str(folder))

    assert "It waits about 5 minutes more, in 8 of 10 cases (run times are those of 20 pods" in result.stdout, (
        result.output
    )


def test_a_log_that_is_none_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("")
    result = run("explain", "new", "--cluster", snapshot(tmp_path), "--log", str(tmp_path / "x.parquet"))
    assert result.exit_code == 2
    assert "x.parquet" in result.stderr
    result = run("simulate", "-f", snapshot(tmp_path), "--log", str(tmp_path))
    assert "--forecast and --log are for --pending" in result.stderr

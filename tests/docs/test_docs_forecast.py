"""The page about forecasts: its example gives what it shows, on a cluster that is made here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.forecast.snapshots import WHOLE, dated, ended, listed
from tests.whatif.test_whatif_remedies import node, pod, running

from vgpu_scheduler.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "forecast.md").read_text()
MINUTE = 60.0


def cluster() -> str:
    """Return a cluster of two cards whose jobs take half an hour on average; two wait, and one asks for too much."""
    rng = np.random.default_rng(7)
    objects = [node("a", cards=2)]
    for number, seconds in enumerate(rng.exponential(30 * MINUTE, 40).tolist()):
        objects.append(ended(f"train-{number}", 20 * 3600.0 - number * 1200.0, seconds))
    objects += [
        dated(running("train-40", "a", "GPU-a-0", 16384), 25 * MINUTE, 25 * MINUTE),
        dated(running("train-41", "a", "GPU-a-1", 16384), 5 * MINUTE, 5 * MINUTE),
        dated(pod("train-42", WHOLE), 3 * MINUTE),
        dated(pod("train-43", WHOLE), 2 * MINUTE),
        dated(pod("large", {**WHOLE, "nvidia.com/gpu": 3}), MINUTE),
    ]
    return listed(objects)


@pytest.mark.long
def test_the_example_gives_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.json").write_text(cluster())
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = [each for each in blocks if "--cluster cluster.json" in each]
    command, _, shown = block.partition("\n")

    result = CliRunner().invoke(main, shlex.split(command.removeprefix("$ vgpu-scheduler ")))

    assert result.exit_code == 1, result.output
    assert result.stdout.splitlines() == shown.splitlines()

"""What is said where a file has less than one thinks, and how long lines are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli.cluster.messages import wrapped

NO_POD = "there is no Pod among the objects: the answer assumes that nobody uses cards"


def write(path: Path, *objects: object) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.mark.parametrize("command", [["top", "nodes"], ["top", "models"], ["defrag"], ["simulate", "-f", "w.yaml"]])
def test_a_file_without_pods_is_no_cluster_in_which_none_runs(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = pod("w", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler")
    write(Path("w.yaml"), asked)
    nodes = write(Path("nodes.yaml"), node("a"))
    assert run(*command, "--cluster", nodes).stderr.count(NO_POD) == 1
    both = write(Path("both.yaml"), node("a"), running("x", "a", "GPU-a-0", 1000))
    assert NO_POD not in run(*command, "--cluster", both).stderr
    no_pods = write(Path("pods.yaml"), {"kind": "PodList", "apiVersion": "v1", "items": []}, node("a"))
    assert NO_POD not in run(*command, "--cluster", no_pods).stderr, "these are all that there are"


def test_what_a_selector_leaves_out_is_not_said_to_be_missing(tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.yaml", node("a"), running("x", "a", "GPU-a-0", 1000))
    for name in ("nodes", "models"):
        named = {"nodes": "a", "models": "A100"}[name]
        told = run("top", name, named, "-l", "pool=x", "--cluster", file).stderr
        assert f"there is no {name[:-1]} {named} with cards among those that match pool=x" in told


@pytest.mark.parametrize("seed", range(20))
def test_items_of_lists_are_no_wider_than_a_terminal_and_lose_no_word(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(30, 120))
    words = ["x" * int(rng.integers(1, 20)) for _ in range(int(rng.integers(1, 60)))]
    table = "NODE  " + "CARD  " * 40
    shown = wrapped(f"first:\n  - {' '.join(words)}\n\n{table}", width).splitlines()
    assert (shown[0], shown[-2:]) == ("first:", ["", table])
    items = shown[1:-2]
    assert all(len(line) <= width for line in items)
    assert " ".join(items).split()[1:] == words
    assert all(line.startswith("    ") for line in items[1:])

"""How checkouts are measured beside each other: their own modules, in turns, on a cluster described as data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import decisions, waiting
from benchmarks.checkouts import OURS, Checkout, Compared, Step, checkouts, comparison, in_turns, replayed
from benchmarks.replay import replay


def steps(nodes: int, pods: int) -> Iterator[Step]:
    """Yield what has pods placed on a small cluster, each with a volume."""
    kind = decisions.Kind("mounts", pods, distinct=True, mounts=True)
    for number in range(nodes):
        yield "observe", "Node", decisions.node(number)
    for pod in decisions.pods(kind):
        yield from decisions.bound_claim(pod["metadata"]["name"])
        yield "observe", "Pod", pod
        yield "place", kind.name


def lines(found: Iterator[Step]) -> Iterator[str]:
    return map(json.dumps, found)


@pytest.mark.long
def test_what_is_described_as_data_is_replayed_in_a_process_of_its_own() -> None:
    turns = replayed(steps(3, 7), [OURS], 4)
    (samples,) = turns[OURS.name]  # one that is alone has one turn
    assert {label: len(found) for label, found in samples.items()} == {"mounts": 7}
    assert all(wall > 0.0 and cpu >= 0.0 for wall, cpu in samples["mounts"])


def test_pods_that_are_not_placed_as_described_end_the_measurement() -> None:
    with pytest.raises(RuntimeError, match="mounts: 0/1 nodes are available"):
        replay(lines(steps(1, 1)))  # the volume lies in another zone
    with pytest.raises(RuntimeError, match="mounts: no pod waits"):
        replay(lines(iter([("place", "mounts")])))
    some = [step for step in steps(2, 1) if step[0] != "place"]
    with pytest.raises(RuntimeError, match="first: 1 pods were placed"):
        replay(lines(iter([*some, ("reject", "first")])))


def test_what_waits_is_told_of_nodes_that_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "NODES", 4)
    monkeypatch.setattr(waiting, "FREED", 2)
    samples = replay(lines(waiting.steps(5)))
    counts = {label: len(found) for label, found in samples.items()}
    assert counts == {"first": 1, "placed": 2, "rest": 1, "burst": 2 * 2 + 1}


def test_a_checkout_replays_with_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "operator" / "renamed").mkdir(parents=True)
    (tmp_path / "operator" / "renamed" / "__init__.py").write_text("ANSWER = 7.0\n")
    theirs = "import json, renamed; print(json.dumps({'label': [[renamed.ANSWER, 1.0]]}))\n"
    (tmp_path / "benchmarks" / "replay.py").write_text(theirs)
    assert Checkout("before", tmp_path).replay(tmp_path / "steps") == {"label": [(7.0, 1.0)]}
    (tmp_path / "benchmarks" / "replay.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(subprocess.CalledProcessError):
        Checkout("before", tmp_path).replay(tmp_path / "steps")


def test_a_folder_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"--against {tmp_path}: that is no checkout of this project"):
        checkouts(tmp_path)


def test_a_checkout_with_another_python_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "operator" / "vgpu_scheduler").mkdir(parents=True)
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho /elsewhere 3.99\n")
    own.chmod(0o755)
    with pytest.raises(ValueError, match=rf"--against {tmp_path}: Python there is /elsewhere 3.99, here "):
        checkouts(tmp_path)


def test_turns_go_forth_and_back() -> None:
    assert list(in_turns("ab", 4)) == list("abbaabba")
    assert list(in_turns("a", 4)) == ["a"]


def test_slower_is_what_was_slower_in_every_turn() -> None:
    noise = Compared("a decision", "ms", (1.0, 1.4), (1.3, 1.5))
    slower = Compared("a start", "s", (10.0, 11.0), (11.5, 12.5))
    assert (noise.slower, slower.slower) == (False, True)
    head, _, first, second = comparison([noise, slower])
    assert head.startswith("| less is better")
    assert first == "| a decision | 1.2 ms | 1.4 ms | 1.17 |  |"
    assert second == "| a start | 10.5 s | 12 s | 1.14 | **slower in every turn** |"
    assert not comparison([])

"""``-l`` and ``-o name`` of the commands that are about objects, on random clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.listed_clusters import cluster, labels, matches, selector, write
from tests.cli.live_cluster import run


@pytest.fixture
def drawn(seed: int, tmp_path: Path) -> tuple[list[dict[str, Any]], str, str]:
    """Return the objects of a cluster, the file that they are in, and a selector."""
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"] |= {"namespace": "default", "labels": labels(rng)}
            each["spec"].setdefault("schedulerName", "vgpu-scheduler")
    return objects, write(objects, tmp_path), selector(rng)


@pytest.mark.parametrize("seed", range(50))
def test_all_pods_with_some_labels_are_explained(seed: int, drawn: tuple[list[dict[str, Any]], str, str]) -> None:
    del seed
    objects, path, chosen = drawn
    pods = [each["metadata"] for each in objects if each["kind"] == "Pod"]
    names = sorted(f"default/{each['name']}" for each in pods if matches(chosen, each["labels"]))
    named = run("explain", "-l", chosen, "-o", "name", "--cluster", path)
    if not names:
        assert named.exit_code == 2
        assert "with the labels of -l that waits or runs" in named.stderr
        return
    assert named.stdout.split() == [f"pod/{name}" for name in names]
    assert run("explain", "pods", "-l", chosen, "-o", "name", "--cluster", path).stdout == named.stdout
    both = run("explain", names[0], "-l", chosen, "--cluster", path)
    assert (both.exit_code, f"leave {names[0]} out, or -l" in both.stderr) == (2, True)
    result = run("explain", "-l", chosen, "-o", "json", "--cluster", path)
    told = json.loads(result.stdout)
    assert [each["pod"] for each in told] == names
    alone = [run("explain", name, "-o", "json", "--cluster", path) for name in names]
    assert result.exit_code == max(each.exit_code for each in alone)
    assert [each.get("node", "") for each in told] == [json.loads(each.stdout).get("node", "") for each in alone]


@pytest.mark.parametrize("seed", range(50))
def test_the_cards_of_nodes_with_some_labels_are_cordoned(
    seed: int, drawn: tuple[list[dict[str, Any]], str, str]
) -> None:
    del seed
    objects, path, chosen = drawn
    nodes = {each["metadata"]["name"]: each["metadata"]["labels"] for each in objects if each["kind"] == "Node"}
    cards = json.loads(run("top", "cards", "-o", "json", "--cluster", path).stdout)
    theirs = {f"{card['node']}/{card['card']}" for card in cards if matches(chosen, nodes[card["node"]])}
    result = run("cordon", "-l", chosen, "--dry-run=client", "--cluster", path)
    assert {line.split()[1] for line in result.stdout.splitlines()} == theirs
    assert result.exit_code == (0 if theirs else 2)


@pytest.mark.parametrize("seed", range(50))
def test_the_doctor_names_the_objects_that_something_is_wrong_with(
    seed: int, drawn: tuple[list[dict[str, Any]], str, str]
) -> None:
    del seed
    _, path, _ = drawn
    findings = json.loads(run("doctor", "-o", "json", "--cluster", path).stdout)["findings"]
    named = run("doctor", "-o", "name", "--cluster", path).stdout.split()
    assert len(named) == len(set(named))
    text = json.dumps(findings)
    assert all(name.rpartition("/")[2] in text for name in named)
    assert bool(named) is bool(findings)


@pytest.mark.parametrize(
    "words", [("explain",), ("cordon",), ("explain", "p", "-l", "a=b"), ("cordon", "c", "-l", "a")]
)
def test_either_a_name_or_labels_are_said(words: tuple[str, ...], tmp_path: Path) -> None:
    path = write(cluster(np.random.default_rng(1)), tmp_path)
    dry = ("--dry-run=client",) if words[0] == "cordon" else ()
    result = run(*words, *dry, "--cluster", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-l" in result.stderr

"""Namespaces that are not there, or that nobody may see who asks: the one that may be meant is suggested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import kubeconfig
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.typos import letters_off
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

Object = dict[str, Any]

EVERYTHING = frozenset(KINDS.values())
TEAMS = ("team-blue", "vision", "ml-training", "payments-prod", "research")
WORDS = {
    "explain": ["explain", "web"],
    "explain another": ["explain", "nothing-alike"],
    "explain -l": ["explain", "-l", "app=web"],
    "top pods": ["top", "pods"],
    "simulate --pending": ["simulate", "--pending"],
    "usage": ["usage"],
}


def of_team(obj: Object, team: str) -> Object:
    obj["metadata"] |= {"namespace": team, "labels": {"app": "web"}}
    return obj


def objects_of(team: str) -> list[Object]:
    waiting = pod("web", {GPU: 1, MEMORY: 50000}, schedulerName="vgpu-scheduler")
    held = running("held", "a", "GPU-a-0", 1000)
    return [
        {"kind": "Namespace", "metadata": {"name": team}},
        node("a"),
        of_team(waiting, team),
        of_team(held, team),
    ]


@pytest.mark.parametrize("words", [each for each in WORDS if each != "usage"])
@pytest.mark.parametrize("seed", range(6))
def test_the_namespace_of_the_context_is_suggested_to_who_sees_no_other(
    api: Api, words: str, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    team = str(rng.choice(TEAMS))
    api.objects[:] = objects_of(team)
    api.refused, api.homes = EVERYTHING, frozenset({team})
    config = kubeconfig(tmp_path, team)
    command = WORDS[words]
    result = run(*command, "-n", str(rng.choice(letters_off(team))), "--kubeconfig", config)
    assert result.exit_code == 2
    assert f"did you mean {team}{'/web' if words == 'explain' else ''}?" in result.stderr
    rightly = run(*command, "-n", team, "--kubeconfig", config)
    assert f"did you mean {team}?" not in rightly.stderr


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_namespace_that_is_there_is_suggested_to_who_sees_all(words: str, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 1])
    team = str(rng.choice(TEAMS))
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects_of(team)))
    result = run(*WORDS[words], "-n", str(rng.choice(letters_off(team))), "--cluster", str(file))
    assert f"did you mean {team}{'/web' if words == 'explain' else ''}?" in result.output
    unlike = run(*WORDS[words], "-n", "zzzzzzz", "--cluster", str(file))
    assert f"did you mean {team}?" not in unlike.output

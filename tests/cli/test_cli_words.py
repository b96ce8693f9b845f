"""Numbers and amounts read as people write them, whatever there is one of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

Object = dict[str, Any]

ONE_OF_SEVERAL = re.compile(r"(?<![\d.,/])1 (?:more |NVIDIA )?(?:cards|pods|nodes|objects|devices|checks|moves)\b")
THOUSANDS = re.compile(r"\d000m\b")
OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


def cluster(rng: np.random.Generator) -> list[Object]:
    """Return one node or a few, of a card each or a few, with pods, taints without values, and pods that wait."""
    taint = {"key": f"k{rng.integers(9)}", "effect": "NoSchedule"}
    if rng.random() < 0.5:
        taint["value"] = "v"
    objects = []
    for number in range(int(rng.choice([1, 1, 2, 9]))):
        name = f"n{number}"
        made = node(name, cards=int(rng.choice([1, 1, 2])), taints=[taint] if rng.random() < 0.5 else [])
        made["status"] = {key: {**amounts, "cpu": "96"} for key, amounts in made["status"].items()}
        notes = made["metadata"]["annotations"]
        if rng.random() < 0.3:
            notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace(
                ",true,", ",false,", 1
            )
        if rng.random() < 0.2:
            made["status"]["allocatable"] = {**made["status"]["allocatable"], GPU: "0"}
        held = running(
            f"t{number}", name, f"GPU-{name}-0", int(rng.integers(1000, 12000)), priority=int(rng.integers(3))
        )
        held["metadata"]["ownerReferences"] = [OWNER]
        objects += [made, held]
    limits = {GPU: 1, MEMORY: int(rng.integers(1000, 16385)), "cpu": str(int(rng.integers(1, 300)))}
    for number in range(int(rng.integers(1, 3))):
        spec = {"schedulerName": "vgpu-scheduler", "priority": number}
        objects.append(pod(f"w{number}", limits, **spec))
    return objects


@pytest.mark.parametrize("seed", range(60))
def test_one_is_one_and_thousands_of_thousandths_are_none(seed: int, api: Api, tmp_path: Path) -> None:
    api.objects = cluster(np.random.default_rng(seed))
    path = tmp_path / "c.json"
    told = run("snapshot", "-f", str(path)).output
    cards = path.read_text()
    assert json.loads(cards)["items"]
    copy = ("--cluster", str(path))
    for words in (("explain", "w0"), ("defrag",), ("defrag", "--for", "w0"), ("doctor",), ("top", "pods")):
        told += run(*words, *copy).output
    assert not ONE_OF_SEVERAL.findall(told)
    assert not THOUSANDS.findall(told)
    assert "=:" not in told

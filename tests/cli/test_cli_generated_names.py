"""Files in which pods and workloads have no name, but the beginning of one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node

Object = dict[str, Any]


def written(kind: str, begins: str, number: int, memory: int) -> Object:
    """Return an object whose pods ask for memory of cards, with ``metadata.generateName`` alone."""
    limits = {GPU: "1", MEMORY: str(memory)}
    spec = {"schedulerName": "vgpu-scheduler", "containers": [{"name": "c", "resources": {"limits": limits}}]}
    version = {"Pod": "v1", "Job": "batch/v1", "Deployment": "apps/v1"}[kind]
    made: Object = {"apiVersion": version, "kind": kind, "metadata": {"generateName": begins}, "spec": spec}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {**spec, "restartPolicy": "Never"}}
    if kind == "Job":
        made["spec"] = {"completions": number, "parallelism": number, "template": template}
    if kind == "Deployment":
        template["spec"]["restartPolicy"] = "Always"
        made["spec"] = {"replicas": number, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    return made


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kind", ["Pod", "Job", "Deployment"])
@pytest.mark.parametrize("seed", range(10))
def test_a_name_is_made_as_the_api_server_would(api: Api, tmp_path: Path, seed: int, kind: str, *, alone: bool) -> None:
    """Each object has one of its own, which is the same whenever it is asked."""
    rng = np.random.default_rng(seed)
    begins = str(rng.choice(["train-", "a", "x" * 70]))
    number, memory = int(rng.integers(1, 4)), int(rng.integers(1, 900))
    count = int(rng.integers(1, 4))
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump_all([written(kind, begins, number, memory)] * count))
    api.objects[:] = [node("a", 2)]
    api.refused = frozenset(KINDS.values()) if alone else frozenset()
    result = run("simulate", "-f", str(path), "-n", "team", "-o", "json")
    assert result.exit_code == (2 if alone else 0), result.stderr
    names = [each["pod"] for each in json.loads(result.stdout)]
    assert len(set(names)) == count * (1 if kind == "Pod" else number)
    end = "" if kind == "Pod" else r"-\d"
    for name in names:
        assert re.fullmatch(rf"team/{begins[:58]}[bcdfghjklmnpqrstvwxz2456789]{{5}}{end}", name), name
    warned = f"the API server makes another name of metadata.generateName ({begins})"
    assert result.stderr.count(warned) == count
    assert run("simulate", "-f", str(path), "-n", "team", "-o", "json").stdout == result.stdout


@pytest.mark.parametrize("begins", ["", None, 3])
def test_without_a_name_and_its_beginning_a_pod_is_refused(api: Api, tmp_path: Path, begins: object) -> None:
    made = written("Pod", "", 1, 100)
    made["metadata"] = {} if begins is None else {"generateName": begins}
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(made))
    api.objects[:] = [node("a", 2)]
    result = run("simulate", "-f", str(path), "-n", "team")
    assert result.exit_code == 2
    assert "name" in result.stderr


def test_a_name_that_is_written_is_kept(api: Api, tmp_path: Path) -> None:
    made = written("Pod", "train-", 1, 100)
    made["metadata"]["name"] = "train-abcde"
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(made))
    api.objects[:] = [node("a", 2)]
    result = run("simulate", "-f", str(path), "-n", "team", "-o", "json")
    assert [each["pod"] for each in json.loads(result.stdout)] == ["team/train-abcde"]
    assert "generateName" not in result.stderr

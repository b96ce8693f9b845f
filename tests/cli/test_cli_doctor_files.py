"""``vgpu-scheduler doctor --cluster``: what files tell is found in them, and what they do not is not looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api, run
from tests.doctor.clusters import NOW, Objects, found, healthy, look, policy
from tests.doctor.planted import PLANTED, Plant
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.whatif import when_read


def written(objects: Objects, folder: Path, without: frozenset[str] = frozenset()) -> str:
    """Write objects into a file as ``kubectl get -o json`` would, and return its path."""
    items = [{"kind": kind, **obj} for kind, listed in objects.items() if kind not in without for obj in listed]
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "metadata": when_read(NOW), "items": items}))
    return str(path)


def report(path: str, *words: str) -> tuple[set[tuple[str, str]], dict[str, Any]]:
    """Return the ids of findings with their objects, and the whole report."""
    result = run("doctor", "--cluster", path, "-o", "json", *words)
    whole = json.loads(result.stdout)
    assert result.exit_code == (1 if not whole["healthy"] else 0 if whole["complete"] else 2)
    findings = {(each["id"], _ref(each["object"])) for each in whole["findings"]}
    return findings, whole


def _ref(ref: dict[str, str]) -> str:
    where = f"{ref['namespace']}/" if ref.get("namespace") else ""
    return f"{ref['kind']} {where}{ref['name']}"


@pytest.mark.parametrize(("plant", "expected"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_what_is_found_in_a_cluster_is_found_in_its_copy_or_not_looked_at(
    plant: Plant, expected: set[tuple[str, str]], tmp_path: Path
) -> None:
    objects = healthy()
    plant(objects)
    assert found(look(objects)) == expected
    findings, whole = report(written(objects, tmp_path))
    assert findings <= expected
    if findings != expected:
        missing = {kind for kind in ("ResourceSlice", "Lease", "Deployment", "VGPUPolicy") if not objects.get(kind)}
        told = " ".join(skipped["reason"] for skipped in whole["skipped"])
        assert any(kind in told for kind in missing) or plant.__name__.startswith("no_"), (expected, told)


@pytest.mark.parametrize("kind", sorted(healthy().keys() - {"Namespace"}))  # whose labels matter to groups alone
def test_a_kind_of_which_files_have_nothing_is_named(kind: str, tmp_path: Path) -> None:
    path = written(healthy(), tmp_path, frozenset({kind}))
    findings, whole = report(path)
    assert findings == set()
    assert any(f"objects of kind {kind}" in each["reason"] for each in whole["skipped"])


def test_all_kinds_of_which_files_have_nothing_are_named_at_once(tmp_path: Path) -> None:
    absent = frozenset({"Lease", "Deployment", "ClusterRole", "Role"})
    _, whole = report(written(healthy(), tmp_path, absent))
    reasons = {each["check"]: each["reason"] for each in whole["skipped"]}
    assert reasons["scheduler"] == "objects of kind Lease and Deployment"
    assert reasons["scheduler-rights"] == "an API server that is asked (or objects of kind ClusterRole and Role)"


def test_a_snapshot_can_be_looked_at(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    assert run("snapshot", "-f", str(path)).exit_code == 0
    result = run("doctor", "--cluster", str(path))
    assert result.exit_code == 2
    assert "skipped" in result.stdout
    assert not [line for line in result.stdout.splitlines() if line.startswith("error")]


def test_pods_of_a_file_without_uids_are_told_apart(tmp_path: Path) -> None:
    """What they hold together is more than their card has, and one of them waits elsewhere."""
    bound = [running(name, "n0", "GPU-n0-0", 12000) for name in "ab"]
    for each, team in zip(bound, "xy", strict=True):
        each["metadata"]["namespace"] = team
    waits = pod("waits", {GPU: 1, MEMORY: 1000}, metadata={"namespace": "y"})
    path = tmp_path / "cluster.yaml"
    path.write_text(json.dumps({"kind": "List", "items": [node("n0", 1), *bound, waits]}))
    findings, whole = report(str(path))
    assert ("card-over-capacity", "Node n0") in findings, findings
    assert not [each["reason"] for each in whole["skipped"] if "internal error" in each["reason"]]


KINDS = {"ClusterVGPUPolicy": "cluster-policies", "VGPUPolicy": "policies", "ResourceQuota": "quotas"}


def drawn(kind: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return none to two objects of a kind, some of which something is wrong with."""
    found = []
    for number in range(int(rng.integers(0, 3))):
        if kind == "ResourceQuota":
            obj: dict[str, Any] = {"metadata": {"name": f"q{number}"}}
            obj["spec"] = {"hard": {"limits.nvidia.com/gpumem": str(rng.choice(["4096", "1.5", "8Gi"]))}}
        else:
            ready, conflicted = (str(rng.choice(["True", "False"])) for _ in range(2))
            obj = policy(f"p{number}", ready=ready, conflicted=conflicted, generation=int(rng.integers(1, 3)))
        if kind != "ClusterVGPUPolicy":
            obj["metadata"]["namespace"] = "team"
        found.append({"kind": kind, **obj})
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_snapshot_tells_of_each_kind_that_was_read_be_there_none(seed: int, api: Api, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = {kind: drawn(kind, rng) for kind in KINDS}
    api.objects += [obj for listed in objects.values() for obj in listed]
    api.refused = frozenset(kind for kind in KINDS if rng.random() < 0.2)
    path = tmp_path / "snapshot.json"
    assert run("snapshot", "-f", str(path)).exit_code == 0
    read = {kind: listed for kind, listed in objects.items() if kind not in api.refused}
    findings, whole = report(str(path))
    expected = found(look({**healthy(), **{key: [] for key in KINDS}, **read}))
    assert findings == expected
    skipped = {each["check"] for each in whole["skipped"]}
    assert skipped & set(KINDS.values()) == {KINDS[kind] for kind in api.refused}


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_list_of_a_kind_says_that_there_is_none(kind: str, tmp_path: Path) -> None:
    path = written(healthy(), tmp_path, frozenset({kind}))
    (tmp_path / "none.json").write_text(json.dumps({"kind": f"{kind}List", "items": []}))
    _, whole = report(path, "--cluster", str(tmp_path / "none.json"))
    assert KINDS[kind] not in {each["check"] for each in whole["skipped"]}


@pytest.mark.parametrize("text", ["{", "- 5", "kind: 5", ""])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    result = run("doctor", "--cluster", str(tmp_path / "c.yaml"))
    assert result.exit_code == 2
    assert "c.yaml" in result.stdout + result.stderr

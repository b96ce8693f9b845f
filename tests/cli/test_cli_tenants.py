"""What commands say to somebody who has rights in one namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import cluster, kubeconfig
from tests.cli.live_cluster import KINDS, Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, pod, running

EVERYTHING = frozenset(KINDS.values())
CLUSTERS = 50


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_pods_of_a_namespace_are_shown_to_those_who_may_see_them_alone(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    api.objects[:] = objects
    spaces = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"]
    for space in spaces:
        api.refused = frozenset()
        everything = json.loads(run("top", "pods", "-n", space, "-o", "json").stdout)
        api.refused = EVERYTHING
        result = run("top", "pods", "-n", space, "-o", "json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == [{**row, "cores": None} for row in everything]
        assert "objects of kind Node could not be seen (list nodes)" in result.stderr
        assert "there is no node" not in result.stderr
        others = [name for name in spaces if name != space]
        assert not any(f"{name}/" in result.stderr for name in others)


@pytest.mark.parametrize("words", [("top", "pods", "-A"), ("top", "nodes"), ("top", "models"), ("top", "namespaces")])
def test_what_needs_more_names_the_rights(api: Api, words: tuple[str, ...]) -> None:
    api.refused = EVERYTHING
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "you may not list nodes, list pods" in result.stderr


def test_a_namespace_that_may_not_be_seen_either_names_the_right(api: Api) -> None:
    api.refused = api.refused_everywhere = EVERYTHING
    result = run("top", "pods", "-n", "default")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "you may not" in result.stderr
    assert "list pods" in result.stderr


# simulate ------------------------------------------------------------------------------------------------------------


def asking(folder: Path, *pods: dict[str, Any]) -> str:
    """Write pods into a file, and return its path."""
    path = folder / "pods.yaml"
    path.write_text(yaml.safe_dump_all(pods))
    return str(path)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_what_quotas_and_policies_say_is_told_without_nodes(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    held, limit, most = (int(rng.integers(*bounds)) for bounds in ((0, 5000), (0, 20000), (1, 4)))
    quota = {"hard": {"limits.nvidia.com/gpumem": str(limit)}}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "team", "uid": "l"}}
    tenant = running("held", "a", "GPU-a-0", held)
    tenant["metadata"]["namespace"] = "team"
    api.objects += [
        {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}, "spec": quota, "status": quota},
        {**policy, "spec": {"limits": {"devicesPerPod": most}}},
        tenant,
    ]
    api.refused = EVERYTHING
    amounts = [(int(rng.integers(1, 5)), int(rng.integers(1, 9000))) for _ in range(4)]
    path = asking(tmp_path, *(pod(f"p{n}", {GPU: count, MEMORY: memory}) for n, (count, memory) in enumerate(amounts)))
    pods = yaml.safe_load_all(Path(path).read_text())
    Path(path).write_text(yaml.safe_dump_all([_without_namespace(each) for each in pods]))
    result = run("simulate", "-f", path, "-n", "team", "-o", "json")
    assert result.exit_code == 2
    assert "you may not list nodes, list pods: where pods go cannot be told" in result.stderr
    for (count, memory), found in zip(amounts, json.loads(result.stdout), strict=True):
        assert found["pod"].startswith("team/")
        assert ("limits.devicesPerPod" in found["refused"]) == (count > most)
        assert found["exceeded"] == (count <= most and held + count * memory > limit)
        assert found["quota"] == f"namespace team uses {held} of {limit} MiB of limits.nvidia.com/gpumem"
    text = run("simulate", "-f", path, "-n", "team").stdout
    assert len(text.splitlines()) == 4


def _without_namespace(obj: dict[str, Any]) -> dict[str, Any]:
    del obj["metadata"]["namespace"]
    return obj


@pytest.mark.parametrize("own", ["", "default", "team-1"])
@pytest.mark.parametrize("written", ["", "default", "team-1", "team-2"])
@pytest.mark.parametrize("named", ["", "default", "team-1", "x"])
def test_pods_of_files_are_where_kubectl_would_create_them(
    api: Api, tmp_path: Path, own: str, written: str, named: str
) -> None:
    asked = pod("new", {GPU: 1, MEMORY: 100})
    asked["metadata"] = {"name": "new", **({"namespace": written} if written else {})}
    flags = ("-n", named) if named else ()
    config = kubeconfig(tmp_path, own)
    result = run("simulate", "-f", asking(tmp_path, asked), *flags, "-o", "json", "--kubeconfig", config)
    if written and named and written != named:
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Pod new names namespace {written}, and -n {named}" in result.stderr
    else:
        (found,) = json.loads(result.stdout)
        assert found["pod"] == f"{written or named or own or 'default'}/new"

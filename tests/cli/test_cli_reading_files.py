"""What is said where a file has less than one thinks, and how long lines are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli.cluster.messages import wrapped
from vgpu_scheduler.reading.files import FileError, documents_of
from vgpu_scheduler.settings.yaml_text import read_map

NO_POD = "there is no Pod among the objects: the answer assumes that no pod uses cards"


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


@pytest.mark.parametrize("seed", range(50))
def test_a_key_that_a_file_sets_twice_is_refused_with_both_lines(seed: int, tmp_path: Path) -> None:
    """In pods, policies, clusters and cases, at any depth."""
    rng = np.random.default_rng(seed)
    asked = pod("w", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler", nodeSelector={"pool": "x"})
    policy = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy", "metadata": {"name": "p"}}
    policy["spec"] = {"nodes": {"policy": "spread"}, "limits": {"coresPerPod": 10}}
    case = {"nodes": [{"name": "a", "cards": 1}], "pod": {"resources": {GPU: 1}}, "expect": {"node": "a"}}
    cluster = write(tmp_path / "cluster.yaml", node("a"), {"kind": "PodList", "apiVersion": "v1", "items": []})
    good = write(tmp_path / "good.yaml", asked)
    command, obj = [
        (("simulate", "-f", "{}", "--cluster", cluster), asked),
        (("simulate", "-f", good, "--cluster", cluster, "--policy", "{}"), policy),
        (("top", "nodes", "--cluster", "{}"), node("b")),
        (("test", "{}"), case),
    ][int(rng.integers(4))]
    lines = yaml.safe_dump(obj).splitlines()
    number = int(rng.choice([n for n, line in enumerate(lines) if ":" in line and not line.endswith(":")]))
    line = lines[number].replace("- ", "  ")
    file = tmp_path / "twice.yaml"
    file.write_text("\n".join([*lines[: number + 1], line, *lines[number + 1 :]]))
    result = run(*(part.format(file) for part in command))
    key = line.strip().rpartition(": ")[0].strip("'\"")
    assert result.exit_code == 2, result.output
    assert f"{file}:{number + 2}: not valid YAML: {key} is set already, in line {number + 1}" in result.output


@pytest.mark.parametrize(
    "version", ["vgpu-scheduler.io/v1", "vgpu-scheduler.io/v1alpha2", "vgpu-sheduler.io/v1alpha1", "v1"]
)
@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("command", ["simulate", "top", "test", "inline"])
def test_a_policy_of_a_version_that_no_api_server_has_is_refused(
    command: str, kind: str, version: str, tmp_path: Path
) -> None:
    policy = {"apiVersion": version, "kind": kind, "metadata": {"name": "p"}, "spec": {"nodes": {"policy": "spread"}}}
    cluster = write(tmp_path / "cluster.yaml", node("a"), {"kind": "PodList", "apiVersion": "v1", "items": []})
    asked = write(tmp_path / "pod.yaml", pod("w", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler"))
    file = write(tmp_path / "policy.yaml", policy)
    policies = policy if command == "inline" else "policy.yaml"
    case = {"nodes": [{"name": "a", "cards": 1}], "pod": {"resources": {GPU: 1}}, "expect": {"node": "a"}}
    cases = write(tmp_path / "case.yaml", {**case, "policies": policies})
    arguments = {
        "simulate": ["simulate", "-f", asked, "--cluster", cluster, "--policy", file],
        "top": ["top", "nodes", "--cluster", cluster, "--cluster", file],
        "test": ["test", cases],
    }
    result = run(*arguments.get(command, ["test", cases]))
    assert result.exit_code == 2, result.output
    assert f"{kind} p: apiVersion: there is no {version}: write vgpu-scheduler.io/v1alpha1" in result.output
    if command == "test":
        assert f"policies: {tmp_path / 'policy.yaml'}: " in result.output


@pytest.mark.parametrize("kind", [{}, [], 1, None])
@pytest.mark.parametrize("field", ["objects", "policies"])
def test_a_kind_that_is_no_text_ends_no_case(field: str, kind: object, tmp_path: Path) -> None:
    case = {"nodes": [{"name": "a", "cards": 1}], "pod": {"resources": {GPU: 1}}, "expect": {"node": "a"}}
    result = run("test", write(tmp_path / "case.yaml", {**case, field: [{"kind": kind, "apiVersion": "v1"}]}))
    assert result.exit_code == 2
    assert "ERROR" in result.output


def test_a_map_may_override_what_it_merges_and_be_merged_itself() -> None:
    text = """
    base: &base {memory: 1}
    deep: {deeper: {more: &more {<<: *base, memory: 2}}}
    shallow: {<<: *more, cores: 3}
    """
    (found,) = documents_of(text, "text")
    assert (found["deep"]["deeper"]["more"], found["shallow"]) == ({"memory": 2}, {"memory": 2, "cores": 3})
    assert read_map(text, "settings") == found
    with pytest.raises(FileError, match="memory is set already, in line 3"):
        documents_of(text.replace("memory: 2", "memory: 2, memory: 3"), "text")


def test_a_daemon_set_says_what_to_write_instead(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("a"), {"kind": "PodList", "apiVersion": "v1", "items": []})
    file = write(tmp_path / "ds.yaml", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}})
    told = run("simulate", "-f", file, "--cluster", cluster).stderr
    assert "objects of kind DaemonSet (write its spec.template as a Pod" in told


def test_errors_of_files_are_not_in_the_words_of_python(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("shadow", "--beside", "x", "--state", str(tmp_path / "file" / "inside"))
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path / 'file' / 'inside'}: Not a directory\n"


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
